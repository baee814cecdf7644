"""What the solvers read, made once from the texts: CSR in .npy files for those in memory, text in VW's format.

    python -m experiments.prepare TEXT FOLDER [--vw FILE]

Runs as a process of its own, so that the harness stays small.  The text is read in pieces.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np

PIECE = 1 << 28  # bytes of text parsed at a time
FORMAT = 1


class NpyWriter:
    """A one-dimensional .npy file that is appended to; numpy leaves room in its header for the final length."""

    def __init__(self, path: Path, dtype: type):
        self.path, self.dtype, self.length = path, np.dtype(dtype), 0
        self.file = open(path, "wb")  # noqa: SIM115 (closed by close)
        self._header()

    def _header(self) -> None:
        about = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self.file, about)

    def append(self, array: np.ndarray) -> None:
        self.file.write(np.ascontiguousarray(array, self.dtype))
        self.length += len(array)

    def close(self) -> None:
        self.file.seek(0)
        self._header()
        self.file.close()


def describe_text(text: Path) -> dict:
    """By which a text that has changed is recognised."""
    stat = text.stat()
    return {"format": FORMAT, "text": str(text), "bytes": stat.st_size, "mtime": stat.st_mtime_ns}


def is_prepared(text: Path, folder: Path) -> bool:
    try:
        found = json.loads((folder / "made.json").read_text())
    except (OSError, ValueError):
        return False
    return found["source"] == describe_text(text)


def read_rows(folder: Path) -> dict:
    """rows, nonzeros and columns of prepared rows."""
    return json.loads((folder / "made.json").read_text())


def write_csr(text: Path, folder: Path) -> dict:
    """indptr, indices (the feature ids), values64, values32 and y (+1: the larger of the two labels)."""
    from sklearn.datasets import load_svmlight_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "made.json").unlink(missing_ok=True)
    kinds = {"indptr": np.int64, "indices": np.int32, "values64": np.float64, "values32": np.float32}
    files = {name: NpyWriter(folder / f"{name}.npy", dtype) for name, dtype in kinds.items()}
    files["indptr"].append(np.zeros(1))
    labels, nonzeros, columns = [], 0, 0
    for offset in range(0, text.stat().st_size, PIECE):
        X, y = load_svmlight_file(
            str(text), n_features=2**31 - 1, zero_based=True, offset=offset, length=min(PIECE, text.stat().st_size)
        )
        files["indptr"].append(X.indptr[1:].astype(np.int64) + nonzeros)
        files["indices"].append(X.indices)
        files["values64"].append(X.data)
        files["values32"].append(X.data)
        labels.append(y)
        nonzeros += X.nnz
        columns = max(columns, int(X.indices.max()) + 1 if X.nnz else 0)
    for file in files.values():
        file.close()
    y = np.concatenate(labels)
    found = np.unique(y)
    if len(found) != 2:
        raise SystemExit(f"{text}: {len(found)} different labels; the benchmark needs two")
    np.save(folder / "y.npy", np.where(y == found[1], 1.0, -1.0))
    made = {"source": describe_text(text), "rows": len(y), "nonzeros": nonzeros, "columns": columns}
    made["positive_label"] = float(found[1])
    part = folder / "made.part"
    part.write_text(json.dumps(made))
    os.replace(part, folder / "made.json")
    return made


def write_vw(text: Path, out: Path, positive: float) -> None:
    """The same rows in Vowpal Wabbit's format: 'label | id:value id:value ...'."""
    part = out.with_suffix(".part")
    with open(text, "rb") as source, open(part, "wb") as target:
        for line in source:
            label, *rest = line.partition(b"#")[0].split(None, 1)[:2] or [b""]
            if label:
                side = b"1 | " if float(label) == positive else b"-1 | "
                target.write(side + (rest[0].rstrip() if rest else b"") + b"\n")
    os.replace(part, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--vw", type=Path, metavar="FILE", help="also write the text in Vowpal Wabbit's format")
    options = parser.parse_args()
    fresh = not is_prepared(options.text, options.folder)
    made = write_csr(options.text, options.folder) if fresh else read_rows(options.folder)
    if options.vw is not None and (fresh or not options.vw.exists()):
        write_vw(options.text, options.vw, made["positive_label"])


if __name__ == "__main__":
    main()
