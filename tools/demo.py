"""The main job on real input that every machine has: does a window of 16 lines of the Python source installed here come
from test code or from library code?  A line of the two texts is ``label TAB text``; no file is in both."""

import argparse
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

SIZES = {"small": 2_000_000, "default": 120_000_000, "large": 500_000_000}  # bytes of text
EPILOG = "small takes seconds, default less than a minute, large some minutes; the first run compiles its kernels"
LINES, SHORTEST, LONGEST = 16, 150, 4000  # of a window, and its characters: more are a table of data
LARGEST_FILE = 1_000_000  # bytes; larger modules are generated tables
SKIPPED = {"site-packages", "dist-packages", "__pycache__", "_vendor"}


def modules() -> list[tuple[int, str, Path]]:
    """(a hash of its name, its name, its path) of each Python file of the standard library and of installed packages,
    by the hash, which is the same everywhere: a tenth of the hashes is held out."""
    paths, found = sysconfig.get_paths(), {}
    for root in dict.fromkeys(os.path.realpath(paths[name]) for name in ("stdlib", "purelib", "platlib")):
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
            for path in (Path(folder, name) for name in names if name.endswith(".py")):
                name = path.relative_to(root).as_posix()
                if name not in found and path.is_file() and path.stat().st_size <= LARGEST_FILE:
                    order = int.from_bytes(blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "little")
                    found[name] = order, name, path
    return sorted(found.values())


def is_test(name: str) -> bool:
    return bool(re.search(r"(^|/)(tests?|[^/]*_tests?)/|(^|/)(conftest|test_[^/]*|[^/]*_test)\.py$", name))


def windows(order: int, path: Path, stride: int) -> Iterator[str]:
    """The windows of a file, each as one line of text; none where it is not UTF-8."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return
    last = max(0, len(lines) - LINES)
    for start in range(order % min(stride, last + 1), last + 1, stride):
        text = " ".join(" ".join(lines[start : start + LINES]).split())
        if SHORTEST <= len(text) <= LONGEST:
            yield text


def write_texts(folder: Path, n_bytes: int) -> Counter:
    """Write train.tsv and test.tsv; how many windows each has with each label, and their bytes."""
    files, counts = modules(), Counter()
    in_all = sum(path.stat().st_size for _, _, path in files)
    stride = min(512, max(2, int(0.8 * LINES * in_all / n_bytes)))  # each line is in as many windows as LINES / stride
    texts = [open(folder / f"{side}.tsv", "w", encoding="utf-8") for side in ("train", "test")]  # noqa: SIM115
    with texts[0], texts[1]:
        for order, name, path in files:
            held_out, label = order % 10 == 0, "+1" if is_test(name) else "-1"
            for text in windows(order, path, stride):
                counts["bytes"] += texts[held_out].write(f"{label}\t{text}\n")
                counts[("train", "test")[held_out], label] += 1
            if counts["bytes"] >= n_bytes and len(counts) == 5:
                return counts
    return counts if len(counts) == 5 else sys.exit("too little Python source is installed here for both texts")


def command(folder: Path, line: str) -> float:
    """Run a command as a user would; the largest memory that it has had, in MB."""
    print(f"   $ blocksvm {line}", flush=True)
    child = subprocess.Popen([sys.executable, "-m", "blocksvm", *line.split()], cwd=folder)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"the command above ended with status {child.returncode}; its last line says why")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def described(file: Path) -> dict:
    words = [sys.executable, "-m", "blocksvm", "info", file, "--json"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def shown(folder: Path, n_bytes: int) -> None:
    began = time.perf_counter()
    print("1. Real input: windows of 16 lines from the Python source code installed on this machine.\n"
          "   The question: does a window come from test code or from library code?", flush=True)  # fmt: skip
    counts = write_texts(folder, n_bytes)
    train, test = ([counts[side, label] for label in ("+1", "-1")] for side in ("train", "test"))
    print(f"   {sum(train):,} windows for training and {sum(test):,} for testing, from other files: "
          f"{counts['bytes'] / 1e6:,.1f} MB of text in {time.perf_counter() - began:.1f}s.\n\n"
          "2. Split: text to compressed chunks on disk.  Features: words and runs of two and three, those of two\n"
          "   windows or more; rows scaled to norm 1.")  # fmt: skip
    command(folder, "split train.tsv store.h5 --format documents --ngrams word:1-3 --min-count 2 --normalize l2")
    store = described(folder / "store.h5")
    rows = 8 * store["n_nonzeros"] + 8 * store["n_samples"]
    needed = 8 * store["n_features"] + 9 * store["n_samples"] + 64 * store["chunk_nonzeros"]
    memory = f"{(rows / 8 if rows >= 10 * needed else needed + rows / 8) / 1e6:.1f}"  # the weights themselves must fit
    print(f"\n3. Train on it within {memory} MB: about one eighth of the {rows / 1e6:,.1f} MB that its rows take in\n"
          "   memory, or room for the weights and that eighth.")  # fmt: skip
    peak = command(folder, f"train store.h5 model.h5 --memory {memory}MB --tol 1e-3")
    print("\n4. Test it on windows from files that it has not seen.")
    command(folder, "predict model.h5 test.tsv predictions.txt")
    print(f"   (always answering the more frequent class would give {max(test) / sum(test):.4f})\n\n"
          "5. What it has learned: the largest weights, for test code and against it.")  # fmt: skip
    command(folder, "info model.h5 --top 5")
    model = described(folder / "model.h5")
    gap = model["certificate"]["rel_gap"]
    print(f"\nIn short: {store['n_nonzeros']:,} nonzeros trained to within {gap:.1e} of the optimum,\n"
          f"certified over all rows, in {model['seconds']:.1f}s with {memory} MB for data and weights\n"
          f"(the whole process at its peak: {peak:,.0f} MB); everything took {time.perf_counter() - began:.1f}s.\n\n"
          "Now with a file of your own, in svmlight format (label id:value id:value ...), plain or compressed:\n"
          "   blocksvm split YOURS.svm.gz store.h5 --holdout 0.1 test.h5\n"
          "   blocksvm train store.h5 model.h5 --memory 2GB --valid test.h5\n"
          "   blocksvm predict model.h5 test.h5 predictions.txt")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__, epilog=EPILOG)
    parser.add_argument("--size", choices=tuple(SIZES), default="default", help="size of the data")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep the files in this new folder")
    options = parser.parse_args()
    if options.folder is None:
        with tempfile.TemporaryDirectory(prefix="blocksvm-demo-") as scratch:
            shown(Path(scratch), SIZES[options.size])
    else:
        try:
            options.folder.mkdir()
        except OSError as error:
            parser.error(f"{options.folder}: {(error.strerror or '').lower()}; --folder names a new folder")
        shown(options.folder, SIZES[options.size])
        print(f"The demo's files are in {options.folder}.")


if __name__ == "__main__":
    main()
