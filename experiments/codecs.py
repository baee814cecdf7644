"""How the store's codec was chosen: bytes a nonzero and decoding rate of what HDF5's Blosc filter offers, on the chunks
of given stores.

    python -m experiments.codecs STORE.h5 [STORE2.h5 ...]
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
from numcodecs import blosc

from blocksvm.store.reader import open_store

CHOICES = [("lz4", 1), ("lz4", 5), ("lz4", 9), ("lz4hc", 2), ("lz4hc", 5), ("zstd", 1), ("zstd", 5), ("zlib", 5)]
SHUFFLES = {"shuffle": blosc.SHUFFLE, "bitshuffle": blosc.BITSHUFFLE, "as they are": blosc.NOSHUFFLE}
N_CHUNKS = 40


def measure(arrays: list[np.ndarray], codec: str, level: int, shuffle: int) -> tuple[float, float, float]:
    """(bytes an element, M elements/s encoded, M elements/s decoded), one thread, medians of three."""
    elements = sum(map(len, arrays))
    encoding, decoding = [], []
    for _ in range(3):
        began = time.perf_counter()
        raw = [blosc.compress(array, codec.encode(), level, shuffle) for array in arrays]
        encoding.append(time.perf_counter() - began)
        out = np.empty_like(arrays[0])
        began = time.perf_counter()
        for array, data in zip(arrays, raw, strict=True):
            blosc.decompress(data, out[: len(array)])
        decoding.append(time.perf_counter() - began)
    size = sum(map(len, raw)) / elements
    return size, elements / 1e6 / statistics.median(encoding), elements / 1e6 / statistics.median(decoding)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("stores", nargs="+", type=Path)
    blosc.use_threads = False
    for path in p.parse_args().stores:
        with open_store(path) as store:
            step = max(1, len(store.chunks) // N_CHUNKS)
            blocks = [store.read_block(np.array([k]), None) for k in range(0, len(store.chunks), step)]
        most = max(blocks, key=lambda block: block.n_nonzeros).n_nonzeros
        blocks.sort(key=lambda block: -block.n_nonzeros)
        print(f"\n{path.name}: {len(blocks)} chunks of up to {most:,} nonzeros\n")
        print("| codec | indices: bytes | encode M/s | decode M/s | values: bytes | encode M/s | decode M/s |")
        print("|---|---|---|---|---|---|---|")
        for codec, level in CHOICES:
            for name, shuffle in SHUFFLES.items():
                cells = []
                for arrays in ([b.indices for b in blocks], [b.values for b in blocks if b.values is not None]):
                    if arrays:
                        size, encoded, decoded = measure(arrays, codec, level, shuffle)
                        cells += [f"{size:.2f}", f"{encoded:.0f}", f"{decoded:.0f}"]
                    else:
                        cells += ["-"] * 3
                print(f"| {codec}-{level} {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
