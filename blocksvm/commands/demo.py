"""blocksvm demo: the main job on real input that every machine has, nothing to download."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from blocksvm.base.errors import InputError
from blocksvm.cli.console import Parser

if TYPE_CHECKING:
    from blocksvm.cli.source_windows import Windows

SIZES = {"small": 400_000, "default": 25_000_000, "large": 100_000_000}
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes, of the system's figure for the memory of a process
EPILOG = """small takes seconds, default less than a minute, large some minutes; the first
run takes ten to twenty seconds more, to compile its kernels"""


def parser() -> Parser:
    p = Parser("demo", "Classify windows of the Python code installed here: test code or library code?", EPILOG)
    p.add_argument("--size", choices=tuple(SIZES), default="default", help="size of the data")
    p.add_argument("--folder", metavar="DIR", help="keep the files in this new folder (default: remove them)")
    return p


class Narrator:
    """Prints the steps: headings, sentences, and commands, which it runs in ``folder``."""

    def __init__(self, folder: Path, quiet: bool):
        self.folder = folder
        self.quiet = quiet

    def heading(self, number: int, text: str) -> None:
        self.say(f"\n{number}. {text}")

    def say(self, text: str) -> None:
        if not self.quiet:
            print(text, flush=True)

    def command(self, *arguments: str) -> tuple[float, int]:
        """Run a command as a user would; (seconds, peak memory of the process in bytes)."""
        self.say("   $ blocksvm " + " ".join(arguments))
        quiet = ["--quiet"] if self.quiet else []
        began = time.perf_counter()
        child = subprocess.Popen([sys.executable, "-m", "blocksvm", *arguments, *quiet], cwd=self.folder,
                                 stdout=subprocess.DEVNULL if self.quiet else None)  # fmt: skip
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise InputError(f"the command above ended with status {child.returncode}; its last line says why")
        return time.perf_counter() - began, usage.ru_maxrss * RSS_UNIT


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    began = time.perf_counter()
    with ExitStack() as stack:
        if options.folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blocksvm-demo-")))
        else:
            folder = Path(options.folder)
            try:
                folder.mkdir()
            except OSError as error:
                raise InputError(f"{folder}: {(error.strerror or '').lower()}; --folder names a new folder") from error
        narrator = Narrator(folder, options.quiet)
        windows = make_texts(narrator, SIZES[options.size])
        meta, split_seconds = split(narrator)
        model, memory, peak = train(narrator, meta)
        test(narrator, windows)
        from blocksvm.cli.display.number_texts import megabytes

        told = (
            f"\nIn short: {meta['n_nonzeros']:,} nonzeros trained to within {model['certificate']['rel_gap']:.1e} of "
            f"the optimum,\ncertified over all rows, in {model['seconds']:.1f}s with {memory / 1e6:.1f}MB for data and "
            f"weights (the whole process at its peak: {megabytes(peak)}, Python and its libraries included);\n"
            f"splitting took {split_seconds:.1f}s, everything {time.perf_counter() - began:.1f}s."
        )
        print(" ".join(told.split()) if options.quiet else told)
        narrator.say(
            "\nNow with a file of your own, in svmlight format (label id:value id:value ...), plain or compressed:\n"
            "   blocksvm split YOURS.svm.gz store.h5 --holdout 0.1 test.h5\n"
            "   blocksvm train store.h5 model.h5 --memory 2GB --valid test.h5\n"
            "   blocksvm predict model.h5 test.h5 predictions.txt"
        )
        if options.folder is not None:
            narrator.say(f"The demo's files are in {folder}.")
    return 0


def make_texts(narrator: Narrator, n_nonzeros: int) -> Windows:
    """Write the texts to train on and to test with."""
    from blocksvm.cli.display.line import Line
    from blocksvm.cli.display.number_texts import megabytes
    from blocksvm.cli.source_windows import write_windows

    began = time.perf_counter()
    narrator.heading(1, "Real input: windows of 16 lines from the Python source code installed on this machine.")
    narrator.say("   The question: does a window come from test code or from library code?")
    line = Line(sys.stderr, narrator.quiet)

    def show(fraction: float, message: str) -> None:
        line.show(f"   {fraction:4.0%} {message}")

    try:
        windows = write_windows(narrator.folder / "train.tsv", narrator.folder / "test.tsv", n_nonzeros, show)
    except ValueError as error:
        raise InputError(str(error)) from error
    line.close()
    narrator.say(
        f"   {windows.train.windows:,} windows for training and {windows.test.windows:,} for testing, "
        f"from {windows.train.files:,} and {windows.test.files:,} other files: "
        f"{megabytes(windows.n_bytes())} of text in {time.perf_counter() - began:.1f}s."
    )
    return windows


def split(narrator: Narrator) -> tuple[dict, float]:
    """Make the store; its description and the seconds that it took."""
    from blocksvm.store.hdf5_files import open_hdf5, read_meta

    narrator.heading(
        2, "Split: text to compressed chunks on disk.  Features: words and runs of two and three, those of two windows "
        "or more;\n   rows scaled to norm 1."
    )  # fmt: skip
    seconds, _ = narrator.command(
        "split", "train.tsv", "store.h5", "--format", "documents", "--ngrams", "word:1-3", "--min-count", "2",
        "--normalize", "l2",
    )  # fmt: skip
    with open_hdf5(narrator.folder / "store.h5", "store") as file:
        return read_meta(file), seconds


def train(narrator: Narrator, meta: dict) -> tuple[dict, int, int]:
    """Train within an eighth of the memory that the rows take; the model's description, and the bytes for data and
    weights, and of the whole process at its peak."""
    from blocksvm.cli.display.number_texts import megabytes
    from blocksvm.model.model_file import describe_model

    in_memory = 8 * meta["n_nonzeros"] + 8 * meta["n_samples"]
    needed = 8 * meta["n_features"] + 9 * meta["n_samples"] + 64 * meta["chunk_nonzeros"]
    memory = in_memory // 8
    why = "one eighth of"
    if memory < 1.25 * needed:  # the weights themselves must fit
        memory = int(needed + in_memory / 8)
        why = "room for the weights and one eighth of"
    narrator.heading(
        3, f"Train on it within {memory / 1e6:.1f}MB: {why} the {megabytes(in_memory)} that its rows take in memory."
    )
    limits = ("--memory", f"{memory / 1e6:.1f}MB", "--tol", "1e-3")
    _, peak = narrator.command("train", "store.h5", "model.h5", *limits)
    return describe_model(narrator.folder / "model.h5"), memory, peak


def test(narrator: Narrator, windows: Windows) -> None:
    """Predict windows of other files, and show the largest weights."""
    narrator.heading(4, "Test it on windows from files that it has not seen.")
    narrator.command("predict", "model.h5", "test.tsv", "predictions.txt")
    most = max(windows.test.positives, windows.test.windows - windows.test.positives) / windows.test.windows
    narrator.say(f"   (always answering the more frequent class would give {most:.4f})")
    narrator.heading(5, "What it has learned: the largest weights, for test code and against it.")
    narrator.command("info", "model.h5", "--top", "5")
