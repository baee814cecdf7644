"""Online learners, one row at a time: mistakes, seconds from text and memory, beside Vowpal Wabbit; and many classes,
sets of labels, or several epochs beside the batch solver.

    python -m experiments.learners NAME=TEXT.svm ... [--learners "pa1;ogd --step 0.1"] [--repeats 3]
        [--vw="--loss_function hinge --noconstant"]
    python -m experiments.learners TRAIN.svm TEST.svm --classes | --sets | --regimes

The first: each row is predicted before it is learned from, in the order of the text, once; labels are two, ids are
hashed to 22 bits.  A mistake is a row whose margin is not above 0.  Runs are interleaved; seconds are those from the
first row to the last, start-up aside (of both, a run without rows to speak of comes first in the same process).
classes, sets: one pass in the random order of a store, no bias.  A row of a set is a mistake where some label of the
set is not above all others.  regimes: batch, online and stream, seconds from the text on (of whole commands, the split
included where there is a store).
"""

import json
import tempfile
from functools import partial
from pathlib import Path

from experiments import runs
from experiments.runs import Clock, row, run, script, split, table, train

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
    told = json.loads(trace.read_text().splitlines()[-1])
    return {"seconds": float(told["seconds"]), "mistakes": told["mistakes"], "peak": done.peak_mb}


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
        clock = Clock()
        Workspace(arg_list=["--quiet", "--holdout_off", "-b", str(BITS), *given.split(), "-d", path, *more]).finish()
        return clock.part()

    start_up = learn("/dev/null")
    found = {"seconds": learn(str(text)) - start_up, "peak": runs.peak_mb()}
    with tempfile.NamedTemporaryFile() as predictions:
        learn(str(text), "-p", predictions.name)
        with open(text, "rb") as rows, open(predictions.name, "rb") as values:
            pairs = zip(rows, values, strict=True)
            found["mistakes"] = sum(float(r.split(b" ", 1)[0]) * float(v.split()[0]) <= 0.0 for r, v in pairs)
    return found


def streams(options) -> None:
    from blocksvm.online import LEARNERS

    learners = options.learners.split(";") if options.learners else list(LEARNERS)
    for stream, _, name in (one.partition("=") for one in options.data):
        text = Path(name)
        with runs.scratch() as folder:
            vw = folder / "rows.vw"
            ways = {learner: partial(ours, text, folder, learner) for learner in learners}
            runs.in_turn(ways, 1)  # compiles
            write_vw(text, vw)
            ways |= {f"vw {kind}": partial(runs.in_child, vowpal_wabbit, vw, f"{more} {options.vw}")
                     for kind, more in VW.items()}  # fmt: skip
            found = runs.in_turn(ways, options.repeats, text, vw)
        megabytes = text.stat().st_size / 1e6
        table(f"{stream}: {megabytes:,.0f} MB, {BITS} bits, medians of {options.repeats}", "learner", "mistakes",
              "seconds", "MB/s of text", "times as long Vowpal Wabbit's counterpart takes", "peak MB")  # fmt: skip
        for way, one in found.items():
            peer = found.get("vw " + COUNTERPARTS.get(way.split()[0], "--sgd")) if way in learners else None
            row(way, f"{one['mistakes']:,}", f"{one['seconds']:.2f}", f"{megabytes / one['seconds']:,.0f}",
                f"{peer['seconds'] / one['seconds']:.1f}" if peer else "", f"{one['peak']:.0f}")  # fmt: skip


def classes(options) -> None:
    text, test = map(Path, options.data)
    figures = SETS if options.sets else CLASSES
    table(text.stem, "one pass", "progressive mistakes", *figures, *(f"averaged: {name}" for name in figures),
          "seconds")  # fmt: skip
    with runs.scratch() as folder:
        store, model = folder / "rows.h5", folder / "model.h5"
        split(text, store, *(["--format", "multilabel"] if options.sets else []))

        def measure(*given: str) -> tuple[list[dict], list[str]]:
            events, _ = train(store, model, *given)
            told = runs.predicted(model, test)
            good = ("accuracy", "perfect_rankings")
            return events, [f"{1.0 - told[key] if key in good else told[key]:.4f}" for key in figures.values()]

        chosen = [f"--learner {one}" for one in MANY if not (options.sets and one == "mira")]
        chosen += [f"--learner {one} --multiclass rest" for one in MANY[1:] if options.sets]
        for one in chosen:
            given = (*one.split(), "--order", "stored", "--max-outer", "1")
            measure(*given)  # compiles
            events, last = measure(*given)
            mistakes = [e["mistakes"] / e["rows"] for e in runs.outers(events)][-1]
            row(f"`{one}`", f"{mistakes:.4f}", *last, *measure(*given, "--average")[1], f"{events[-1]['seconds']:.2f}")
        batch = "--solver dual-cd --multiclass " + ("rest" if options.sets else "crammer-singer")
        events, last = measure(*batch.split())
        row(f"`{batch}`", "", *last, *[""] * len(figures), f"{events[-1]['seconds']:.2f}")


def run_of(text: Path, test: Path, folder: Path, given: list[object], stream: bool = False) -> dict:
    store, model = folder / "rows.h5", folder / "model.h5"
    if stream:
        done = runs.command("stream", text, "--model", model, *given, "--overwrite", "--quiet")
        before, passes = 0.0, 1
    else:
        before = split(text, store).seconds
        events, done = train(store, model, *given)
        passes = events[-1]["outer"]
    return {"passes": passes, "seconds": before + done.seconds, "peak": done.peak_mb,
            "accuracy": runs.predicted(model, test)["accuracy"]}  # fmt: skip


def regimes(options) -> None:
    memory = ["--memory", "300MB"]
    with runs.scratch() as folder:
        way = partial(run_of, *map(Path, options.data), folder)
        ways = {("batch", "dual-cd, C 1, gap 1e-3"): partial(way, memory)}
        for learner in ("pa1 -C 0.1", "arow", "adagrad-rda --l1 1e-6"):
            given = ["--learner", *learner.split(), "--average", *memory]
            for epochs in (1, 5):
                ways["online", f"{learner}, averaged", epochs] = partial(way, [*given, "--max-outer", epochs])
            ways["stream", f"{learner}, averaged"] = partial(way, given, stream=True)
        found = runs.in_turn(ways, options.repeats)
    table(f"{options.data[0]}, medians of {options.repeats}", "regime", "method", "passes", "seconds", "peak MB",
          "test accuracy")  # fmt: skip
    for (regime, method, *_), one in found.items():
        row(regime, method, one["passes"], f"{one['seconds']:.1f}", f"{one['peak']:.0f}", f"{one['accuracy']:.4f}")


@script("data+", learners="", repeats=3, vw="", classes=False, sets=False, regimes=False)
def main(options) -> None:
    (regimes if options.regimes else classes if options.classes or options.sets else streams)(options)
