"""Online learners, one row at a time: mistakes, seconds from text and memory, beside Vowpal Wabbit and scikit-learn;
and many classes or sets of labels beside the batch solver.

    python -m experiments.learners NAME=TEXT.svm ... [--learners "pa1;ogd --step 0.1"] [--repeats 3]
        [--peers vw,scikit-learn] [--vw="--loss_function hinge --noconstant"]
    python -m experiments.learners TRAIN.svm TEST.svm --classes | --sets

The first: each row is predicted before it is learned from, in the order of the text, once; labels are two, ids are
hashed to 22 bits.  A mistake is a row whose margin is not above 0.  Runs are interleaved; seconds are those from the
first row to the last, start-up aside (of both, a run without rows to speak of comes first in the same process).  Vowpal
Wabbit reads the same rows in its own format.  scikit-learn's learners get the text in pieces that double up to 1,000
rows, each predicted before ``partial_fit``; seconds include the parsing.
The second: one pass in the random order of a store, no bias.  A row of a set is a mistake where some label of the set
is not above all others.
"""

from __future__ import annotations

import io
import json
import resource
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from experiments.runs import begin, in_child, outers, predicted, read_through, row, run, split, table, train

BITS = 22
NEEDS = {"pegasos": "--lambda 1e-4", "perceptron-bias": "--max-norm 10", "omd": "--mirror p-norm"}
VW = {"default": "", "--sgd": "--sgd", "--ftrl": "--ftrl", "--coin": "--coin"}
# whose counterpart in Vowpal Wabbit is another than --sgd
COUNTERPARTS = {"auto": "default", "nag": "default", "ftrl": "--ftrl", "coin": "--coin"}
MANY = ("pa", "pa1 -C 1", "pa2 -C 1", "perceptron", "mira")  # of many classes
# column: what predict calls it, or its complement
CLASSES = {"test error": "accuracy"}
SETS = {"imperfect rankings": "perfect_rankings", "ranking loss": "ranking_loss", "one-error": "one_error"}
STREAM = """
import sys
from blocksvm.cli.console import run
from blocksvm.stream import main
few, text, log, *arguments = sys.argv[1:]
for path in (few, text):
    try:
        run(main, [path, *arguments, "--quiet", *(["--log", log] if path == text else [])])
    except SystemExit as ended:
        if ended.code:
            raise
"""


def ours(text: Path, folder: Path, learner: str) -> dict:
    """One stream by the command, behind one of two rows: seconds and mistakes by its trace, the peak of the process."""
    trace, few = folder / "trace.jsonl", folder / "few.svm"
    few.write_text("1 1:1\n-1 2:1\n")
    trace.unlink(missing_ok=True)
    given = f"{learner} {NEEDS.get(learner, '')}".split()
    done = run("-c", STREAM, few, text, trace, "--learner", *given, "--bits", BITS)
    return json.loads(trace.read_text().splitlines()[-1]) | {"peak_mb": done.peak_mb}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def write_vw(text: Path, out: Path) -> None:
    """The same rows in Vowpal Wabbit's format: 'label | id:value id:value ...'."""
    with open(text, "rb") as source, open(out, "wb") as target:
        for line in source:
            label, _, rest = line.partition(b" ")
            target.write((b"1 | " if float(label) > 0.0 else b"-1 | ") + rest)


def vowpal_wabbit(text: Path, given: str) -> dict:
    """One pass over the file, and another one whose predictions are written, for the mistakes."""
    from vowpalwabbit import Workspace

    def learn(path: str, *more: str) -> float:
        began = time.perf_counter()
        arguments = ["--quiet", "--holdout_off", "-b", str(BITS), *given.split(), "-d", path, *more]
        Workspace(arg_list=arguments).finish()
        return time.perf_counter() - began

    start_up = learn("/dev/null")
    found = {"seconds": learn(str(text)) - start_up, "peak_mb": peak_mb()}
    with tempfile.NamedTemporaryFile() as predictions:
        learn(str(text), "-p", predictions.name)
        with open(text, "rb") as rows, open(predictions.name, "rb") as values:
            pairs = zip(rows, values, strict=True)
            found["mistakes"] = sum(float(r.split(b" ", 1)[0]) * float(v.split()[0]) <= 0.0 for r, v in pairs)
    return found


def scikit_learn(text: Path) -> dict:
    from scipy.sparse import csr_matrix
    from sklearn.datasets import load_svmlight_file
    from sklearn.linear_model import SGDClassifier

    learner, began, mistakes, rows = SGDClassifier(), time.perf_counter(), 0, 0
    with open(text, "rb") as file:
        while lines := [line for _, line in zip(range(min(1000, max(1, rows))), file, strict=False)]:
            X, y = load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=False)
            folded = X.indices.astype(np.int32) & np.int32((1 << BITS) - 1)  # what meets in a row is added up
            X = csr_matrix((X.data, folded, X.indptr.astype(np.int32)), shape=(X.shape[0], 1 << BITS))
            X.sum_duplicates()
            y = np.where(y > 0, 1, -1)
            mistakes += int((learner.decision_function(X) * y <= 0).sum()) if rows else len(y)
            learner.partial_fit(X, y, classes=[-1, 1])
            rows += len(y)
    return {"seconds": time.perf_counter() - began, "peak_mb": peak_mb(), "mistakes": mistakes}


def streams(options) -> None:
    from blocksvm.online import LEARNERS

    learners = options.learners.split(";") if options.learners else list(LEARNERS)
    for stream, _, name in (one.partition("=") for one in options.data):
        text, runs = Path(name).resolve(), {}
        with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as folder:
            vw = Path(folder, "rows.vw")
            ways = {learner: partial(ours, text, Path(folder), learner) for learner in learners}
            if "vw" in options.peers:
                write_vw(text, vw)
                ways |= {f"vw {kind}": partial(in_child, vowpal_wabbit, vw, f"{more} {options.vw}")
                         for kind, more in VW.items()}  # fmt: skip
            for way in learners:
                ways[way]()  # compiles
            for _ in range(options.repeats):
                for way, measure in ways.items():
                    read_through(vw if way.startswith("vw ") else text)
                    runs.setdefault(way, []).append(measure())
        if "scikit-learn" in options.peers:
            runs["scikit-learn SGDClassifier"] = [in_child(scikit_learn, text)]
        megabytes = text.stat().st_size / 1e6
        table(f"{stream}: {megabytes:,.0f} MB, {BITS} bits, medians of {options.repeats}", "learner", "mistakes",
              "seconds", "MB/s of text", "times as long Vowpal Wabbit's counterpart takes", "peak MB")  # fmt: skip
        seconds = {way: median(one["seconds"] for one in found) for way, found in runs.items()}
        for way, found in runs.items():
            peer = seconds.get("vw " + COUNTERPARTS.get(way.split()[0], "--sgd")) if way in learners else None
            times = f"{peer / seconds[way]:.1f}" if peer else ""
            row(way, f"{found[0]['mistakes']:,}", f"{seconds[way]:.2f}", f"{megabytes / seconds[way]:,.0f}", times,
                f"{median(one['peak_mb'] for one in found):.0f}")  # fmt: skip


def classes(options) -> None:
    text, test = map(Path, options.data)
    figures = SETS if options.sets else CLASSES
    table(text.stem, "one pass", "progressive mistakes", *figures, *(f"averaged: {name}" for name in figures),
          "seconds")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        store, model = Path(name, "rows.h5"), Path(name, "model.h5")
        split(text, store, *(["--format", "multilabel"] if options.sets else []))

        def measure(*given: str) -> tuple[list[dict], list[str]]:
            events, _ = train(store, model, *given)
            told = predicted(model, test)
            good = ("accuracy", "perfect_rankings")
            return events, [f"{1.0 - told[key] if key in good else told[key]:.4f}" for key in figures.values()]

        runs = [f"--learner {one}" for one in MANY if not (options.sets and one == "mira")]
        runs += [f"--learner {one} --multiclass rest" for one in MANY[1:] if options.sets]
        for one in runs:
            given = (*one.split(), "--order", "stored", "--max-outer", "1")
            measure(*given)  # compiles
            events, last = measure(*given)
            mistakes = [e["mistakes"] / e["rows"] for e in outers(events)][-1]
            row(f"`{one}`", f"{mistakes:.4f}", *last, *measure(*given, "--average")[1], f"{events[-1]['seconds']:.2f}")
        batch = "--solver dual-cd --multiclass " + ("rest" if options.sets else "crammer-singer")
        events, last = measure(*batch.split())
        row(f"`{batch}`", "", *last, *[""] * len(figures), f"{events[-1]['seconds']:.2f}")


def main() -> None:
    options = begin(__doc__, "data", learners="", repeats=3, peers=("vw", "scikit-learn"), vw="", classes=False,
                    sets=False)  # fmt: skip
    (classes if options.classes or options.sets else streams)(options)


if __name__ == "__main__":
    main()
