"""Files of each kind that commands read, the commands that read them, and what these make of a damaged one."""

from __future__ import annotations

import contextlib
import io
import shutil
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from scipy import sparse
from support.damage import Verdict, damaged, judge
from support.h5ad import write_h5ad

from blocksvm.cli.console import run
from blocksvm.commands import module_of
from blocksvm.conversion.convert import SplitSettings, split_rows

RUN = "--schedule 2 --quiet"
SCORES = "{here}/out.txt --scores --overwrite --quiet"
SPLIT = "split {bad} {here}/split.h5 --overwrite --quiet"


@dataclass(frozen=True)
class Kind:
    """name: of the example among the prepared files; commands: what is given ``{bad}``, in a folder ``{here}``;
    checked: the file has checksums, so that a damaged one gives the result of the whole one, or a refusal; share: of a
    campaign's cases, where a kind comes in several layouts."""

    name: str
    commands: tuple[str, ...]
    checked: bool = True
    share: float = 1.0


def _model(name: str, *more: str, share: float = 1.0) -> Kind:
    return Kind(name, ("info {bad} --verify", f"predict {{bad}} {{here}}/s.h5 {SCORES}",
                       f"predict {{bad}} {{here}}/s.svm {SCORES}", *more), share=share)  # fmt: skip


KINDS = {
    "store": Kind(
        "s.h5",
        (
            "info {bad} --verify",
            f"predict {{here}}/m.h5 {{bad}} {SCORES}",
            f"train {{bad}} {{here}}/new.h5 --max-outer 2 --overwrite {RUN}",
        ),
    ),
    "model": _model(
        "m.h5", f"train {{here}}/s.h5 {{here}}/new.h5 --warm-start {{bad}} -C 2 --overwrite {RUN}", share=1 / 2
    ),
    "model of classes": _model("classes.h5", share=1 / 2),
    "kernel": _model("k.h5"),
    "structured model": Kind("chunks.h5", ("info {bad} --verify", "structure predict {bad} {here}/s.txt "
                                           "{here}/out.txt --overwrite --quiet")),
    "checkpoint": Kind("c.h5", ("info {bad} --verify", "train {here}/s.h5 {here}/new.h5 --max-outer 4 "
                                f"--checkpoint {{bad}} --resume --overwrite {RUN}")),
    "h5ad by rows": Kind("csr.h5ad", (f"{SPLIT} --label type",), False, 1 / 3),
    "h5ad by columns": Kind("csc.h5ad", (f"{SPLIT} --label type",), False, 1 / 3),
    "h5ad dense": Kind("dense.h5ad", (f"{SPLIT} --label type",), False, 1 / 3),
    "npz": Kind("X.npz", (SPLIT,), False),
    "npy": Kind("X.npy", (SPLIT,), False),
    "labels": Kind("y.npy", ("split {here}/X.npz {here}/split.h5 --overwrite --quiet --labels-from {bad}",), False),
    "parquet": Kind("X.parquet", (f"{SPLIT} --label label",), False),
    "arrow": Kind("X.arrow", (f"{SPLIT} --label label",), False),
    "feather": Kind("X.feather", (f"{SPLIT} --label label",), False),
    "gzip": Kind("s.svm.gz", (SPLIT,), False),
    "trace": Kind("t.jsonl", ("report {bad} -o {here}/report.html --overwrite --quiet",), False),
    "liblinear": Kind("m.liblinear", ("import {bad} {here}/imported.h5 --overwrite",), False),
}  # fmt: skip


def _text(name: str, format_: str, *more: str) -> Kind:
    return Kind(name, (" ".join((SPLIT, "--format", format_, *more)),), False)


# text, which any damage may leave readable; not in the campaign
TEXTS = {
    "svmlight": _text("s.svm", "svmlight"),
    "svmlight-named": _text("named.svm", "svmlight-named"),
    "multilabel": _text("sets.svm", "multilabel"),
    "vw": _text("s.vw", "vw"),
    "documents": _text("words.tsv", "documents", "--ngrams word:1-2"),
    "csv": _text("t.csv", "csv"),
    "tsv": _text("t.tsv", "tsv"),
    "criteo": _text("criteo.tsv", "criteo"),
    "of any format": _text("s.svm", "auto"),
    "weights": Kind("weights.txt", ("split {here}/s.svm {here}/split.h5 --overwrite --quiet --weights {bad}",), False),
    "numbers of rows": Kind("rows.txt", ("split {here}/changed.h5 --drop {bad} --quiet",), False),
}
RESULTS = {"out.txt": None, "new.h5": "weights"}  # what is compared: a file, or an array of one

# what makes our own examples
PREPARED = (
    "split {here}/classes.svm {here}/classes-rows.h5",
    f"train {{here}}/s.h5 {{here}}/m.h5 --log {{here}}/t.jsonl {RUN}",
    f"train {{here}}/classes-rows.h5 {{here}}/classes.h5 --max-outer 3 {RUN}",
    "train {here}/s.h5 {here}/k.h5 --solver kernel --kernel rbf --max-outer 2 --quiet",
    f"train {{here}}/s.h5 {{here}}/n.h5 --max-outer 2 --checkpoint {{here}}/c.h5 {RUN}",
    "structure train {here}/s.txt {here}/chunks.h5 --task chunks --learner pa1 --epochs 1 --quiet",
    "export {here}/m.h5 {here}/m.liblinear --format liblinear",
)


def unheard(words: str, **places) -> None:
    """As ``done``, of a command that must end well, without its words."""
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
        try:
            done(words, **places)
        except SystemExit:
            raise RuntimeError(f"{words}: {heard.getvalue()}") from None


def done(words: str, **places) -> None:
    """Run a command in this process; leaves by SystemExit where it refuses."""
    command, *arguments = words.split()
    main = module_of(command).main
    try:
        run(main, [argument.format(**places) for argument in arguments])
    except SystemExit as ended:
        if ended.code:
            raise


def prepare(folder: Path) -> None:
    """Write an example of each kind; those of Arrow where pyarrow is there."""
    import gzip

    draw = np.random.default_rng(3)
    X = sparse.random(120, 25, density=0.3, random_state=3, format="csr")
    y = np.where(X @ draw.normal(size=25) > 0, 1, -1)

    def svmlight(labels) -> str:
        rows = (" ".join([str(labels[i]), *(f"{j + 1}:{X[i, j]:.4f}" for j in np.sort(X[i].indices))])
                for i in range(X.shape[0]))  # fmt: skip
        return "\n".join(rows) + "\n"

    (folder / "s.svm").write_text(svmlight(y))
    (folder / "s.svm.gz").write_bytes(gzip.compress(svmlight(y).encode(), mtime=0))
    (folder / "classes.svm").write_text(svmlight(draw.integers(0, 4, X.shape[0])))
    (folder / "s.txt").write_text("".join(f"w{draw.integers(9)} {t}\n{'' if t == 'O' else chr(10)}"
                                          for t in draw.choice(["O", "B-NP"], 60)))  # fmt: skip
    # a store of several chunks, so that each table has several entries
    split_rows([str(folder / "s.svm")], folder / "s.h5", SplitSettings(chunk_nonzeros=64))
    for words in PREPARED:
        unheard(words, here=folder)
    write_texts(folder)
    write_foreign(folder, X[:60, :12].tocsr(), y[:60])


def write_texts(folder: Path) -> None:
    """An example of each of ``TEXTS`` that is not there already."""
    draw = np.random.default_rng(4)
    (folder / "named.svm").write_text("".join(f"{name} 1:0.5 {j}:2\n" for j, name in enumerate(["ham", "spam"] * 5, 2)))
    (folder / "sets.svm").write_text("".join(f"a,b 1:1 {j}:2\nb {j}:3\n 1:1\n" for j in range(2, 7)))
    (folder / "s.vw").write_text("".join(f"{1 - j % 2 * 2} {j}.5 tag{j}|a x:{j} y |b:2 z\n" for j in range(8)))
    (folder / "words.tsv").write_text("".join(f"{j % 2}\tthe {w} ran\n" for j, w in enumerate(["dog", "cat", "b"] * 4)))
    table = [
        ["label", "size", "colour"],
        *([str(j % 2), f"{j / 3:.3f}", draw.choice(["red", "blue"])] for j in range(9)),
    ]
    (folder / "t.csv").write_text("".join(",".join(row) + "\n" for row in table))
    (folder / "t.tsv").write_text("".join("\t".join(row) + "\n" for row in table))
    cells = [[str(j % 2), *map(str, draw.integers(0, 99, 13)), *(f"{c:08x}" for c in draw.integers(0, 9, 26))]
             for j in range(6)]  # fmt: skip
    (folder / "criteo.tsv").write_text("".join("\t".join(row) + "\n" for row in cells))
    (folder / "weights.txt").write_text("".join(f"{weight:.2f}\n" for weight in draw.random(120)))
    (folder / "rows.txt").write_text("1\n2\n17\n")


def write_foreign(folder: Path, X, y) -> None:
    """The files of others."""
    genes = [f"g{j}" for j in range(X.shape[1])]
    write_h5ad(folder / "csr.h5ad", X, y, genes)
    write_h5ad(folder / "csc.h5ad", X.tocsc(), y, genes, kind="csc_matrix")
    write_h5ad(folder / "dense.h5ad", X, y, genes, dense=True)
    sparse.save_npz(folder / "X.npz", X)
    np.save(folder / "X.npy", X.toarray())
    np.save(folder / "y.npy", y)
    try:
        import pyarrow as pa
        from pyarrow import feather, parquet
    except ImportError:
        return
    words = [["red", "green", None][i % 3] for i in range(len(y))]
    columns = {"label": y, "x": X[:, 0].toarray().ravel(), "word": words, "code": pa.array(words).dictionary_encode()}
    table = pa.table(columns | {"list": [[word] if word else [] for word in words]})
    parquet.write_table(table, folder / "X.parquet", row_group_size=25)
    feather.write_feather(table, str(folder / "X.feather"))
    with pa.ipc.new_file(str(folder / "X.arrow"), table.schema) as file:
        file.write_table(table, max_chunksize=25)


class Trial:
    """Damages the example of a kind and runs its commands on it; ``folder`` has what ``prepare`` wrote."""

    def __init__(self, kind: str, folder: Path):
        self.kind, self.folder = (KINDS | TEXTS)[kind], folder
        self.data = (folder / self.kind.name).read_bytes()
        self.bad = folder / f"bad-{self.kind.name}"
        self.expected = [self.result(words, self.data, unheard) for words in self.kind.commands]

    def result(self, words: str, data: bytes, run_it=done) -> bytes:
        """What a command makes of the file: the bytes of its output, none for formats without checksums."""
        self.bad.write_bytes(data)
        for name in RESULTS:
            (self.folder / name).unlink(missing_ok=True)
        if "{here}/changed.h5" in words:
            shutil.copy(self.folder / "s.h5", self.folder / "changed.h5")
        run_it(words, bad=self.bad, here=self.folder)
        for name, array in RESULTS.items():
            if self.kind.checked and f"{{here}}/{name}" in words:
                if array is None:
                    return (self.folder / name).read_bytes()
                with h5py.File(self.folder / name) as file:
                    return file[array][()].tobytes()
        return b""

    def verdicts(self, seed: int) -> list[Verdict]:
        """Of each command, on the file as the seed damages it."""
        return self.judged(damaged(self.data, seed))

    def judged(self, data: bytes) -> list[Verdict]:
        """Of each command, on these bytes in the place of the file."""
        return [judge(lambda words=words: self.result(words, data), expected if self.kind.checked else None)
                for words, expected in zip(self.kind.commands, self.expected, strict=True)]  # fmt: skip
