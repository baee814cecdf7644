"""Files of each kind that we write, and runs of commands in this process."""

import contextlib
import io
from pathlib import Path

import numpy as np
from scipy import sparse
from support.training_cases import svmlight

from blocksvm.cli.commands import module_of
from blocksvm.cli.console import run
from blocksvm.conversion.convert import SplitSettings, split_rows

RUN = "--schedule 2 --quiet"
# what makes our own examples
PREPARED = (
    "split {here}/classes.svm {here}/classes-rows.h5",
    f"train {{here}}/s.h5 {{here}}/m.h5 {RUN}",
    f"train {{here}}/classes-rows.h5 {{here}}/classes.h5 --max-outer 3 {RUN}",
    f"train {{here}}/classes-rows.h5 {{here}}/kept.h5 --drop-below 0.01 --max-outer 3 {RUN}",
    "train {here}/s.h5 {here}/k.h5 --solver kernel --kernel rbf --max-outer 2 --quiet",
    f"train {{here}}/s.h5 {{here}}/n.h5 --max-outer 2 --checkpoint {{here}}/c.h5 {RUN}",
    "structure train {here}/s.txt {here}/chunks.h5 --task chunks --learner pa1 --epochs 1 --quiet",
)


def unheard(words: str, **places) -> None:
    """Run a command in this process, which must end well, without its words."""
    heard = io.StringIO()
    command, *arguments = words.split()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
        try:
            run(module_of(command).main, [argument.format(**places) for argument in arguments])
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(f"{words}: {heard.getvalue()}") from None


def prepare(folder: Path) -> None:
    """Write an example of each kind."""
    draw = np.random.default_rng(3)
    X = sparse.random(120, 25, density=0.3, random_state=3, format="csr")
    y = np.where(X @ draw.normal(size=25) > 0, 1, -1)

    X.sort_indices()
    X.data = X.data.round(4)
    (folder / "s.svm").write_text(svmlight(X, y))
    (folder / "classes.svm").write_text(svmlight(X, draw.integers(0, 4, X.shape[0])))
    (folder / "s.txt").write_text("".join(f"w{draw.integers(9)} {t}\n{'' if t == 'O' else chr(10)}"
                                          for t in draw.choice(["O", "B-NP"], 60)))  # fmt: skip
    # a store of several chunks, so that each table has several entries
    split_rows([str(folder / "s.svm")], folder / "s.h5", SplitSettings(chunk_nonzeros=64))
    for words in PREPARED:
        unheard(words, here=folder)
