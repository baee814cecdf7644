"""Files of each kind that we write, the commands that read them, and runs of commands in this process."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
from scipy import sparse

from blocksvm.cli.console import run
from blocksvm.commands import module_of
from blocksvm.conversion.convert import SplitSettings, split_rows

RUN = "--schedule 2 --quiet"
SCORES = "{here}/out.txt --scores --overwrite --quiet"
SPLIT = "split {bad} {here}/split.h5 --overwrite --quiet"


def _model(name: str, *more: str) -> tuple[str, ...]:
    return (name, "info {bad} --verify", f"predict {{bad}} {{here}}/s.h5 {SCORES}",
            f"predict {{bad}} {{here}}/s.svm {SCORES}", *more)  # fmt: skip


# kind: the name of its example, and commands that are given ``{bad}``, in a folder ``{here}``
KINDS = {
    "store": (
        "s.h5",
        "info {bad} --verify",
        f"predict {{here}}/m.h5 {{bad}} {SCORES}",
        f"train {{bad}} {{here}}/new.h5 --max-outer 2 --overwrite {RUN}",
    ),
    "model": _model("m.h5", f"train {{here}}/s.h5 {{here}}/new.h5 --warm-start {{bad}} -C 2 --overwrite {RUN}"),
    "model of classes": _model("classes.h5"),
    "kernel": _model("k.h5"),
    "structured model": (
        "chunks.h5",
        "info {bad} --verify",
        "structure predict {bad} {here}/s.txt {here}/out.txt --overwrite --quiet",
    ),
    "checkpoint": (
        "c.h5",
        "info {bad} --verify",
        f"train {{here}}/s.h5 {{here}}/new.h5 --max-outer 4 --checkpoint {{bad}} --resume --overwrite {RUN}",
    ),
}
# what makes our own examples
PREPARED = (
    "split {here}/classes.svm {here}/classes-rows.h5",
    f"train {{here}}/s.h5 {{here}}/m.h5 {RUN}",
    f"train {{here}}/classes-rows.h5 {{here}}/classes.h5 --max-outer 3 {RUN}",
    "train {here}/s.h5 {here}/k.h5 --solver kernel --kernel rbf --max-outer 2 --quiet",
    f"train {{here}}/s.h5 {{here}}/n.h5 --max-outer 2 --checkpoint {{here}}/c.h5 {RUN}",
    "structure train {here}/s.txt {here}/chunks.h5 --task chunks --learner pa1 --epochs 1 --quiet",
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
    """Write an example of each kind."""
    draw = np.random.default_rng(3)
    X = sparse.random(120, 25, density=0.3, random_state=3, format="csr")
    y = np.where(X @ draw.normal(size=25) > 0, 1, -1)

    def svmlight(labels) -> str:
        rows = (" ".join([str(labels[i]), *(f"{j + 1}:{X[i, j]:.4f}" for j in np.sort(X[i].indices))])
                for i in range(X.shape[0]))  # fmt: skip
        return "\n".join(rows) + "\n"

    (folder / "s.svm").write_text(svmlight(y))
    (folder / "classes.svm").write_text(svmlight(draw.integers(0, 4, X.shape[0])))
    (folder / "s.txt").write_text("".join(f"w{draw.integers(9)} {t}\n{'' if t == 'O' else chr(10)}"
                                          for t in draw.choice(["O", "B-NP"], 60)))  # fmt: skip
    # a store of several chunks, so that each table has several entries
    split_rows([str(folder / "s.svm")], folder / "s.h5", SplitSettings(chunk_nonzeros=64))
    for words in PREPARED:
        unheard(words, here=folder)
