"""Files of each kind that we write, files of ours with other descriptions, and texts that others are made of."""

import contextlib
import io
import json
from pathlib import Path

import h5py
import numpy as np
from scipy import sparse
from support.training_cases import svmlight
from xxhash import xxh3_64_hexdigest

from blocksvm.cli.commands import module_of
from blocksvm.cli.console import run
from blocksvm.conversion.convert import SplitSettings, split_rows


def rewrite_meta(path: Path, change) -> None:
    """Change the description through ``change(meta)`` (or to the bytes that it gives), under a right checksum."""
    with h5py.File(path, "r+") as file:
        meta = json.loads(file["meta"][()].tobytes())
        text = change(meta)
        text = text if isinstance(text, bytes) else json.dumps(meta).encode()
        del file["meta"]
        file["meta"] = np.frombuffer(text, np.uint8)
        file.attrs.modify("meta_checksum", np.bytes_(xxh3_64_hexdigest(text)))


def sentences(seed: int, n: int) -> str:
    """Column text whose chunks follow from the tags but for a few words."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        inside = False
        for _ in range(rng.integers(2, 9)):
            tag = rng.choice(["DT", "NN", "VB", "IN"], p=[0.25, 0.35, 0.2, 0.2])
            word = f"{tag.lower()}{rng.integers(0, 12)}"
            noun = tag in ("DT", "NN") and word != "nn3"
            lines.append(f"{word} {tag} {('I-NP' if inside and tag == 'NN' else 'B-NP') if noun else 'O'}")
            inside = noun
        lines.append("")
    return "\n".join(lines) + "\n"


def texts_of(meta, path=()) -> list[tuple]:
    """Where texts stand in a description, of many equal ones the first."""
    if isinstance(meta, str):
        return [path]
    inner = meta.items() if isinstance(meta, dict) else list(enumerate(meta))[:2] if isinstance(meta, list) else ()
    return [found for key, value in inner for found in texts_of(value, (*path, key))]


def put(meta, path: tuple, value) -> None:
    for key in path[:-1]:
        meta = meta[key]
    meta[path[-1]] = value


def described(path: Path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with h5py.File(path) as file:
        return json.loads(file["meta"][()].tobytes())


def content_of_model(path: Path) -> dict:
    """All arrays of a model's file, by name, and what its description says but for times and settings of the run."""
    with h5py.File(path) as file:
        found = {}
        file.visititems(lambda name, item: found.update({name: item[()].tobytes()} if hasattr(item, "dtype") else {}))
    del found["meta"]
    return found | {name: value for name, value in described(path).items() if name not in ("seconds", "settings")}


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
