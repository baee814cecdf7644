"""Online learners on streams: mistakes, seconds from text and memory, beside Vowpal Wabbit and scikit-learn.

    python -m experiments.learners NAME=TEXT.svm ... [--learners "pa1;ogd --step 0.1"] [--bits 22] [--repeats 3]
        [--peers vw,scikit-learn] [--vw-options "--loss_function hinge --noconstant"]

Each row is predicted before it is learned from, in the order of the text, once; labels are two.  A mistake is a row
whose margin is not above 0.  Runs are interleaved; seconds are those from the first row to the last, start-up aside (of
both, a run without rows to speak of comes first in the same process).  Vowpal Wabbit reads the same
rows in its own format, hashed to as many bits.  scikit-learn's learners get the text in pieces that double up to 1,000
rows, each predicted before ``partial_fit``; seconds include the parsing.
"""

from __future__ import annotations

import io
import json
import resource
import tempfile
import time
from pathlib import Path
from statistics import median

from experiments.runs import begin, in_child, parser, read_through, row, run, table

NEEDS = {"pegasos": "--lambda 1e-4", "perceptron-bias": "--max-norm 10", "omd": "--mirror p-norm"}
VW = {"default": "", "--sgd": "--sgd", "--ftrl": "--ftrl", "--coin": "--coin"}
# whose counterpart in Vowpal Wabbit is another than --sgd
COUNTERPARTS = {"auto": "default", "nag": "default", "ftrl": "--ftrl", "coin": "--coin"}
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


def ours(text: Path, folder: Path, learner: str, bits: int) -> dict:
    """One stream by the command, behind one of two rows: seconds and mistakes by its trace, the peak of the process."""
    trace, few = folder / "trace.jsonl", folder / "few.svm"
    few.write_text("1 1:1\n-1 2:1\n")
    trace.unlink(missing_ok=True)
    name = learner.split()[0]
    given = f"{learner} {NEEDS.get(name, '') if learner == name else ''}".split()
    done = run("-c", STREAM, few, text, trace, "--learner", *given, "--bits", bits)
    return json.loads(trace.read_text().splitlines()[-1]) | {"peak_mb": done.peak_mb}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def write_vw(text: Path, out: Path) -> None:
    """The same rows in Vowpal Wabbit's format: 'label | id:value id:value ...'."""
    with open(text, "rb") as source, open(out, "wb") as target:
        for line in source:
            label, _, rest = line.partition(b"#")[0].strip().partition(b" ")
            if label:
                target.write((b"1 | " if float(label) > 0.0 else b"-1 | ") + rest + b"\n")


def vowpal_wabbit(text: Path, bits: int, given: str, predictions: Path | None = None) -> dict:
    """One pass over the file; mistakes where its predictions are written, too."""
    from vowpalwabbit import Workspace

    def learn(path: Path, *more: str) -> float:
        began = time.perf_counter()
        Workspace(
            arg_list=["--quiet", "--holdout_off", "-b", str(bits), *given.split(), "-d", str(path), *more]
        ).finish()
        return time.perf_counter() - began

    with tempfile.NamedTemporaryFile(suffix=".vw") as empty:
        start_up = learn(Path(empty.name))
    seconds = learn(text, *(["-p", str(predictions)] if predictions else [])) - start_up
    found = {"seconds": seconds, "peak_mb": peak_mb()}
    if predictions:
        with open(text, "rb") as rows, open(predictions, "rb") as values:
            pairs = zip(rows, values, strict=True)
            found["mistakes"] = sum(float(r.split(b" ", 1)[0]) * float(v.split()[0]) <= 0.0 for r, v in pairs)
    return found


def scikit_learn(text: Path, bits: int, kind: str) -> dict:
    import numpy as np
    from scipy.sparse import csr_matrix
    from sklearn import linear_model
    from sklearn.datasets import load_svmlight_file

    learner, began, mistakes, rows = getattr(linear_model, kind)(), time.perf_counter(), 0, 0
    with open(text, "rb") as file:
        while lines := [line for _, line in zip(range(min(1000, max(1, rows))), file, strict=False)]:
            X, y = load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=False)
            folded = X.indices.astype(np.int32) & np.int32((1 << bits) - 1)  # what meets in a row is added up
            X = csr_matrix((X.data, folded, X.indptr.astype(np.int32)), shape=(X.shape[0], 1 << bits))
            X.sum_duplicates()
            y = np.where(y > 0, 1, -1)
            mistakes += int((learner.decision_function(X) * y <= 0).sum()) if rows else len(y)
            learner.partial_fit(X, y, classes=[-1, 1])
            rows += len(y)
    return {"seconds": time.perf_counter() - began, "peak_mb": peak_mb(), "mistakes": mistakes}


def measure(text: Path, learners: list[str], options) -> dict[str, list[dict]]:
    """All runs on one stream, by learner or peer."""
    runs: dict[str, list[dict]] = {}
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        folder = Path(name)
        vw, peers = folder / "rows.vw", options.peers.split(",")
        write_vw(text, vw)
        for _ in range(options.repeats):
            for learner in learners:
                read_through(text)
                runs.setdefault(learner, []).append(ours(text, folder, learner, options.bits))
            for kind, given in VW.items() if "vw" in peers else ():
                read_through(vw)
                found = in_child(vowpal_wabbit, vw, options.bits, f"{given} {options.vw_options}")
                runs.setdefault(f"vw {kind}", []).append(found)
        for kind, given in VW.items() if "vw" in peers else ():
            again = in_child(vowpal_wabbit, vw, options.bits, f"{given} {options.vw_options}", folder / "predictions")
            runs[f"vw {kind}"][0]["mistakes"] = again["mistakes"]
        for kind in ("SGDClassifier", "Perceptron") if "scikit-learn" in peers else ():
            runs[f"scikit-learn {kind}"] = [in_child(scikit_learn, text, options.bits, kind)]
    return runs


def main() -> None:
    from blocksvm.online import LEARNERS

    p = parser(__doc__)
    p.add_argument("data", nargs="+", metavar="NAME=TEXT.svm")
    p.add_argument("--learners", default=";".join(LEARNERS), help="with settings, semicolons between them")
    p.add_argument("--bits", type=int, default=22)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--peers", default="vw,scikit-learn")
    p.add_argument("--vw-options", default="", metavar="TEXT")
    options = p.parse_args()
    learners = options.learners.split(";")
    begin()
    texts = {name: Path(text).resolve() for name, _, text in (one.partition("=") for one in options.data)}
    with tempfile.TemporaryDirectory() as folder:
        for learner in learners:
            ours(next(iter(texts.values())), Path(folder), learner, options.bits)  # compiles
    for stream, text in texts.items():
        runs = measure(text, learners, options)
        table(f"{stream}: {runs[learners[0]][0]['rows']:,} rows, {text.stat().st_size / 1e6:,.0f} MB, "
              f"{options.bits} bits, medians of {options.repeats}", "learner", "mistakes", "seconds",
              "MB/s of text", "times as long Vowpal Wabbit's counterpart takes", "peak MB")  # fmt: skip
        for name, found in runs.items():
            seconds = median(one["seconds"] for one in found)
            peer = runs.get("vw " + COUNTERPARTS.get(name.split()[0], "--sgd")) if name in learners else None
            times = f"{median(one['seconds'] for one in peer) / seconds:.1f}" if peer else ""
            speed, peak = text.stat().st_size / 1e6 / seconds, median(one["peak_mb"] for one in found)
            row(name, f"{found[0]['mistakes']:,}", f"{seconds:.2f}", f"{speed:,.0f}", times, f"{peak:.0f}")


if __name__ == "__main__":
    main()
