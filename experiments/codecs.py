"""How the store's codec was chosen: bytes an element and rates of what HDF5's Blosc filter offers, on a store's chunks.

python -m experiments.codecs STORE.h5 ... [--chunks 40] [--json FILE]
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import numpy as np
from numcodecs import blosc

from blocksvm import open_store
from experiments.measuring import Tables, parser

CODECS = [("lz4", 1), ("lz4", 5), ("lz4", 9), ("lz4hc", 2), ("lz4hc", 5), ("zstd", 1), ("zstd", 5), ("zlib", 5)]
SHUFFLES = {"shuffle": blosc.SHUFFLE, "bitshuffle": blosc.BITSHUFFLE, "as they are": blosc.NOSHUFFLE}


def measure(arrays: list[np.ndarray], codec: str, level: int, shuffle: int) -> tuple[float, float, float]:
    """(bytes an element, M elements/s encoded, M elements/s decoded), one thread, medians of three."""
    elements = sum(map(len, arrays))
    encoding, decoding, out = [], [], np.empty_like(max(arrays, key=len))
    for _ in range(3):
        began = time.perf_counter()
        raw = [blosc.compress(array, codec.encode(), level, shuffle) for array in arrays]
        encoding.append(time.perf_counter() - began)
        began = time.perf_counter()
        for array, data in zip(arrays, raw, strict=True):
            blosc.decompress(data, out[: len(array)])
        decoding.append(time.perf_counter() - began)
    return sum(map(len, raw)) / elements, elements / 1e6 / median(encoding), elements / 1e6 / median(decoding)


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", nargs="+", type=Path, metavar="STORE.h5")
    p.add_argument("--chunks", type=int, default=40, help="chunks that are taken, spread over the store")
    options = p.parse_args()
    blosc.use_threads = False
    tables = Tables(options)
    columns = [
        f"{array}: {figure}" for array in ("indices", "values") for figure in ("bytes", "encode M/s", "decode M/s")
    ]
    for path in options.stores:
        with open_store(path) as store:
            numbers = np.unique(np.linspace(0, len(store.chunks) - 1, options.chunks).astype(int))
            blocks = [store.read_block(np.array([k]), None) for k in numbers]
        tables.begin(path.name, "codec", *columns)
        arrays = [b.indices for b in blocks], [b.values for b in blocks if b.values is not None]
        for codec, level in CODECS:
            for name, shuffle in SHUFFLES.items():
                found = [measure(kind, codec, level, shuffle) if kind else None for kind in arrays]
                cells = [
                    f"{size:.2f} {a:.0f} {b:.0f}".split() if one else [""] * 3
                    for one in found
                    for size, a, b in [one or (0,) * 3]
                ]
                tables.row(f"{codec}-{level} {name}", *sum(cells, []))
    tables.end()


if __name__ == "__main__":
    main()
