"""Files of ours with other descriptions, and texts that others are made of."""

import json
from pathlib import Path

import h5py
import numpy as np
from xxhash import xxh3_64_hexdigest


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
