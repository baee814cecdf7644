"""The commands whose calls are made to fail, and the small inputs that they run on."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class Scenario:
    """A command, by its arguments; files below in/ are inputs, those below out/ its outputs (path -> kind).

    growing: outputs that may be there in an earlier state of the run after a failure.  changed: outputs that the
    command changes, so that they are there before.  shown: what is printed must be whole as well.  part: in the part of
    the campaign that the tests run, each so many-th position; 0: none.
    """

    name: str
    command: str
    outputs: dict[str, str] = field(default_factory=dict)
    growing: tuple[str, ...] = ()
    changed: dict[str, str] = field(default_factory=dict)
    shown: bool = False
    part: int = 0

    @property
    def variants(self) -> tuple[str, ...]:
        return ("changes",) if self.changed else ("new", "over") if self.outputs else ("reads",)

    def words(self, variant: str) -> list[str]:
        return self.command.split() + (["--overwrite"] if variant == "over" else [])

    def inputs(self) -> list[str]:
        return [word for word in self.command.split() if word.startswith("in/")]


STORE, MODEL = {"out/s.h5": "hdf5"}, {"out/m.h5": "hdf5"}
RUN = "--schedule 1 --max-outer 3 --block-chunks 1 --quiet"
SCENARIOS = [
    Scenario("split", "split in/a.svm out/s.h5", STORE, part=6),
    Scenario("split-gz", "split in/a.svm.gz out/s.h5", STORE),
    Scenario("split-csv", "split in/a.csv out/s.h5", STORE),
    Scenario("split-npz", "split in/a.npz out/s.h5", STORE, part=40),
    Scenario("split-holdout", "split --holdout 0.3 out/h.h5 in/a.svm out/s.h5", STORE | {"out/h.h5": "hdf5"}, part=40),
    Scenario("split-append", "split in/b.svm out/s.h5 --append", STORE, changed={"out/s.h5": "in/a.h5"}, part=40),
    Scenario("split-drop", "split out/s.h5 --drop oldest:10", STORE, changed={"out/s.h5": "in/a.h5"}),
    Scenario(
        "train",
        f"train in/a.h5 out/m.h5 --checkpoint out/c --checkpoint-seconds 0.000001 --log out/t.jsonl {RUN}",
        MODEL | {"out/c": "hdf5", "out/t.jsonl": "trace"},
        growing=("out/c", "out/t.jsonl"),
        part=60,
    ),
    Scenario(
        "train-resume",
        f"train in/a.h5 out/m.h5 --checkpoint out/c --resume --log out/t.jsonl {RUN}",
        MODEL | {"out/c": "hdf5", "out/t.jsonl": "trace"},
        growing=("out/c", "out/t.jsonl"),
        changed={"out/c": "in/a-early", "out/t.jsonl": "in/a-early.jsonl"},
    ),
    Scenario("train-kernel", "train in/a.h5 out/m.h5 --solver kernel --kernel rbf --max-outer 3 --quiet", MODEL),
    Scenario("train-classes", f"train in/a-many.h5 out/m.h5 {RUN}", MODEL),
    Scenario("train-arow", "train in/a.h5 out/m.h5 --solver arow --max-outer 2 --quiet", MODEL),
    Scenario("predict", "predict in/a-model.h5 in/a.svm out/p.txt", {"out/p.txt": "text"}, part=40),
    Scenario("predict-scores", "predict in/a-many-model.h5 in/a-many.h5 out/p.txt --scores", {"out/p.txt": "text"}),
    Scenario("predict-shown", "predict in/a-model.h5 in/a.svm", shown=True),
    Scenario(
        "stream",
        "stream in/a.svm --model out/m.h5 --save-every 15 --predictions out/p.txt --log out/t.jsonl --learner pa1 -C 1"
        " --quiet",
        MODEL | {"out/p.txt": "text", "out/t.jsonl": "trace"},
        growing=("out/m.h5", "out/t.jsonl"),
        part=40,
    ),
    Scenario(
        "cv",
        f"cv in/a.h5 -C 0.1,1 --folds 2 --refit out/m.h5 --json out/cv.json {RUN}",
        MODEL | {"out/cv.json": "json"},
        part=40,
    ),
    Scenario(
        "cv-checkpoint",
        f"cv in/a.h5 -C 0.1,1 --folds 2 --json out/cv.json --checkpoint out/c --checkpoint-seconds 0.000001 {RUN}",
        {"out/cv.json": "json", "out/c": "hdf5"},
        growing=("out/c",),
    ),
    Scenario(
        "structure",
        "structure train in/a.txt out/m.h5 --task chunks --learner pa1 --epochs 2 --quiet",
        MODEL,
    ),
    Scenario("structure-predict", "structure predict in/a-chunks.h5 in/a.txt out/p.txt --quiet", {"out/p.txt": "text"}),
    Scenario("export-liblinear", "export in/a-model.h5 out/e --format liblinear", {"out/e": "text"}),
    Scenario("export-table", "export in/a-model.h5 out/e.csv --format table", {"out/e.csv": "text"}),
    Scenario("export-sklearn", "export in/a-model.h5 out/e.joblib --format sklearn", {"out/e.joblib": "text"}, part=40),
    Scenario("export-onnx", "export in/a-model.h5 out/e.onnx --format onnx", {"out/e.onnx": "text"}),
    Scenario("report", "report in/a.jsonl -o out/r.html --quiet", {"out/r.html": "text"}, part=40),
    Scenario("report-png", "report in/a.jsonl --figure out/r.png --quiet", {"out/r.png": "text"}),
    Scenario("import", "import in/a.liblinear out/m.h5", MODEL),
    Scenario(
        "margin",
        "margin in/a.h5 -C 1 --json out/r.json --support-vectors out/v.csv --temp out --quiet",
        {"out/r.json": "json", "out/v.csv": "text"},
    ),
    Scenario("regret", "regret in/a.h5 --learner pa1 --json out/r.json --quiet", {"out/r.json": "json"}),
    Scenario("info-store", "info in/a.h5 --verify", shown=True, part=40),
    Scenario("info-model", "info in/a-model.h5 --verify", shown=True),
]
# what makes the inputs, of the texts of ``write_texts``; {x} is a, and b for what lies there before
PREPARED = (
    "split in/{x}.svm in/{x}.h5",
    "split in/{x}-many.svm in/{x}-many.h5",
    f"train in/{{x}}.h5 in/{{x}}-model.h5 --log in/{{x}}.jsonl {RUN}",
    f"train in/{{x}}-many.h5 in/{{x}}-many-model.h5 {RUN}",
    "train in/{x}.h5 in/{x}-early.h5 --checkpoint in/{x}-early --checkpoint-seconds 0.000001 --log in/{x}-early.jsonl "
    f"{RUN.replace('3', '2')}",
    "export in/{x}-model.h5 in/{x}.liblinear --format liblinear",
    "structure train in/{x}.txt in/{x}-chunks.h5 --task chunks --learner pa1 --epochs 2 --quiet",
)


def write_texts(folder: Path, name: str, seed: int, n: int) -> None:
    """Rows as svmlight text, plain and compressed, of two and of five classes; as a table; as a matrix; sentences."""
    draw = np.random.default_rng(seed)
    X = np.where(draw.random((n, 12)) < 0.4, draw.normal(size=(n, 12)).round(2), 0.0)
    X[:, 0] = draw.normal(size=n).round(2) + 3.0
    y = np.where(X.sum(axis=1) > np.median(X.sum(axis=1)), 1, -1)

    def svmlight(labels) -> str:
        rows = (" ".join([f"{label}", *(f"{j + 1}:{x[j]:g}" for j in np.flatnonzero(x))])
                for label, x in zip(labels, X, strict=True))  # fmt: skip
        return "\n".join(rows) + "\n"

    (folder / f"{name}.svm").write_text(svmlight(y))
    (folder / f"{name}.svm.gz").write_bytes(gzip.compress(svmlight(y).encode(), mtime=0))
    (folder / f"{name}-many.svm").write_text(svmlight(draw.integers(0, 5, n)))
    cells = (",".join([f"{label}", *(f"{v:g}" for v in x), f"c{draw.integers(3)}"])
             for label, x in zip(y, X, strict=True))  # fmt: skip
    header = ",".join(["label", *(f"x{j}" for j in range(12)), "kind"])
    (folder / f"{name}.csv").write_text("\n".join([header, *cells]) + "\n")
    np.savez(folder / f"{name}.npz", **_parts(sparse.csr_matrix(X)), label=y)
    sentences = [
        "".join(f"w{draw.integers(6)} {t} {'B-NP' if t == 'NN' else 'O'}\n" for t in draw.choice(["NN", "VB"], 4))
        for _ in range(n // 4)
    ]
    (folder / f"{name}.txt").write_text("\n".join(sentences) + "\n")


def _parts(matrix) -> dict:
    """As scipy's ``save_npz`` names them."""
    return {"indices": matrix.indices, "indptr": matrix.indptr, "format": np.array(b"csr"), "shape": matrix.shape,
            "data": matrix.data}  # fmt: skip
