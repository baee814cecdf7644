"""blocksvm demo: the main job on real input that every machine has, nothing to download."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from blocksvm.base.errors import InputError
from blocksvm.cli.console import Parser

SIZES = {"small": 400_000, "default": 25_000_000, "large": 100_000_000}
EPILOG = """small takes seconds, default less than a minute, large some minutes; the first
run takes ten to twenty seconds more, to compile its kernels"""


def parser() -> Parser:
    p = Parser("demo", "Classify windows of the Python code installed here: test code or library code?", EPILOG)
    p.add_argument("--size", choices=tuple(SIZES), default="default", help="size of the data")
    p.add_argument("--folder", metavar="DIR", help="keep the files in this new folder (default: remove them)")
    return p


class Told:
    """Prints the story: headings, sentences, and commands with what they took."""

    def __init__(self, quiet: bool):
        self.quiet = quiet

    def heading(self, number: int, text: str) -> None:
        self.say(f"\n{number}. {text}")

    def say(self, text: str) -> None:
        if not self.quiet:
            print(text, flush=True)

    def command(self, folder: Path, *arguments: str) -> tuple[float, int]:
        """Run one of our commands as a user would; (seconds, peak memory of the process in bytes)."""
        self.say("   $ python -m blocksvm." + " ".join(arguments))
        quiet = ["--quiet"] if self.quiet else []
        began = time.perf_counter()
        child = subprocess.Popen([sys.executable, "-m", "blocksvm." + arguments[0], *arguments[1:], *quiet], cwd=folder)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise InputError(f"the command above ended with status {child.returncode}; its last line says why")
        return time.perf_counter() - began, usage.ru_maxrss * 1024


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    with ExitStack() as stack:
        if options.folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blocksvm-demo-")))
        else:
            folder = Path(options.folder)
            try:
                folder.mkdir()
            except OSError as error:
                raise InputError(f"{folder}: {(error.strerror or '').lower()}; --folder names a new folder") from error
        tell(folder, options.size, Told(options.quiet), kept=options.folder is not None)
    return 0


def tell(folder: Path, size: str, told: Told, kept: bool) -> None:
    """Make the data, split, train, test, and say what happened."""
    from blocksvm.cli.display import Line, megabytes
    from blocksvm.cli.source_windows import write_windows

    began = time.perf_counter()
    told.heading(1, "Real input: windows of 16 lines from the Python source code installed on this machine.")
    told.say("   The question: does a window come from test code or from library code?")
    line = Line(sys.stderr, told.quiet)
    try:
        made = write_windows(
            folder / "train.tsv",
            folder / "test.tsv",
            SIZES[size],
            lambda fraction, message: line.show(f"   {fraction:4.0%} {message}"),
        )
    except ValueError as error:
        raise InputError(str(error)) from error
    line.close()
    told.say(
        f"   {made.train.windows:,} windows for training and {made.test.windows:,} for testing, "
        f"from {made.train.files:,} and {made.test.files:,} other files: "
        f"{megabytes(made.n_bytes())} of text in {time.perf_counter() - began:.1f}s."
    )

    told.heading(
        2, "Split: text to compressed chunks on disk.  Features: words and runs of two and three, those of two windows "
        "or more;\n   rows scaled to norm 1."
    )  # fmt: skip
    split_seconds, _ = told.command(
        folder, "split", "train.tsv", "store.h5", "--format", "documents", "--ngrams", "word:1-3", "--min-count", "2",
        "--normalize", "l2",
    )  # fmt: skip

    from blocksvm.store.hdf5_files import open_hdf5, read_meta

    with open_hdf5(folder / "store.h5", "store") as file:
        meta = read_meta(file)
    in_memory = 8 * meta["n_nonzeros"] + 8 * meta["n_samples"]
    needed = 8 * meta["n_features"] + 9 * meta["n_samples"] + 64 * meta["chunk_nonzeros"]
    memory = in_memory // 8
    why = "one eighth of"
    if memory < 1.25 * needed:  # the weights themselves must fit
        memory = int(needed + in_memory / 8)
        why = "room for the weights and one eighth of"
    told.heading(
        3, f"Train on it within {memory / 1e6:.1f}MB: {why} the {megabytes(in_memory)} that its rows take in memory."
    )
    train_seconds, peak = told.command(
        folder, "train", "store.h5", "model.h5", "--memory", f"{memory / 1e6:.1f}MB", "--tol", "1e-3"
    )  # fmt: skip
    from blocksvm.model.model_file import describe_model

    model = describe_model(folder / "model.h5")
    certificate = model["certificate"]

    told.heading(4, "Test it on windows from files that it has not seen.")
    told.command(folder, "predict", "model.h5", "test.tsv", "predictions.txt")
    most = max(made.test.positives, made.test.windows - made.test.positives) / made.test.windows
    told.say(f"   (always answering the more frequent class would give {most:.4f})")

    told.heading(5, "What it has learned: the largest weights, for test code and against it.")
    told.command(folder, "info", "model.h5", "--top", "5")

    print(
        f"\nIn short: {meta['n_nonzeros']:,} nonzeros trained to within {certificate['rel_gap']:.1e} of the optimum,\n"
        f"certified over all rows, in {model['seconds']:.1f}s with {memory / 1e6:.1f}MB for data and weights "
        f"(the whole process at its peak: {megabytes(peak)}, Python and its libraries included);\n"
        f"splitting took {split_seconds:.1f}s, everything {time.perf_counter() - began:.1f}s."
    )
    told.say(
        "\nNow with a file of your own, in svmlight format (label id:value id:value ...), plain or compressed:\n"
        "   blocksvm split YOURS.svm.gz store.h5 --holdout 0.1 test.h5\n"
        "   blocksvm train store.h5 model.h5 --memory 2GB --valid test.h5\n"
        "   blocksvm predict model.h5 test.h5 predictions.txt"
    )
    if kept:
        told.say(f"The demo's files are in {folder}.")
