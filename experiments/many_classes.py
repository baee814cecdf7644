"""Many classes beside LIBLINEAR and scikit-learn: seconds from the store to a certified gap in every class, at an
eighth of the memory and with room for all, against their training alone in memory to the same sum of primal objectives;
and how well the models predict.

    python -m experiments.many_classes TRAIN.svm TEST.svm [--sets] [--tol 1e-3] [--repeats 3] [--folder DIR]

Rules: each class against the others (LIBLINEAR -s 3, for sets of labels one run a label; scikit-learn's
OneVsRestClassifier of LinearSVC, loss hinge), and Crammer and Singer's (-s 4; not for sets).  C = 1, no bias.  The
memory of an eighth is that of the rows, beside the weights of all classes.  All runs are interleaved, each in a process
of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from experiments.processes import must, read_through, run_module, split
from experiments.report import machine
from experiments.solvers.blocksvm import train

LEVELS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # LIBLINEAR's -e, and scikit-learn's tol
RULES = {"rest": "each against the others", "crammer-singer": "Crammer and Singer"}
PEERS = {"rest": ("LIBLINEAR", "scikit-learn"), "crammer-singer": ("LIBLINEAR",)}


def load(path: Path, sets: bool, columns: int | None = None, known: list[int] | None = None):
    """(X CSR, member (n, k) bool, known) of svmlight text; known: the k labels, by default those of the text."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path), n_features=columns, multilabel=sets, zero_based=False)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # the peers take no others
    rows = [tuple(map(int, own)) for own in y] if sets else [(int(label),) for label in y]
    known = known or sorted({label for own in rows for label in own})
    member = np.zeros((len(rows), len(known)), bool)
    for i, own in enumerate(rows):
        member[i, [known.index(label) for label in own]] = True
    return X, member, known


def primal(X, member, W, rule: str) -> float:
    """The sum of the primal objectives of W (k, d) at C = 1."""
    Z = X @ W.T
    if rule == "rest":
        losses = np.maximum(0.0, 1.0 - np.where(member, Z, -Z)).sum()
    else:
        own = Z[member]
        losses = ((Z + ~member).max(axis=1) - own).sum()
    return 0.5 * float((W**2).sum()) + float(losses)


def scores(X, member, W, sets: bool) -> dict:
    """Accuracy (of sets: whole sets right), macro and micro F1."""
    Z = X @ W.T
    said = Z > 0.0 if sets else np.arange(len(W)) == Z.argmax(axis=1)[:, None]
    right, both = (said & member).sum(axis=0), said.sum(axis=0) + member.sum(axis=0)
    f1 = np.divide(2.0 * right, both, out=np.zeros(len(W)), where=both > 0)
    exact = float((said == member).all(axis=1).mean())
    return {"accuracy": exact, "macro": float(f1[both > 0].mean()), "micro": float(2.0 * right.sum() / both.sum())}


def liblinear(X, member, rule: str, level: float, sets: bool):
    """(seconds, W)"""
    from liblinear.liblinearutil import parameter, problem
    from liblinear.liblinearutil import train as fit

    k, d = member.shape[1], X.shape[1]
    given = parameter(f"-s {3 if rule == 'rest' else 4} -c 1 -e {level!r} -B -1 -q")
    seconds, W = 0.0, np.zeros((k, d))
    for c in range(k) if sets else (None,):
        y = member.argmax(axis=1) if c is None else np.where(member[:, c], 1, -1)
        rows = problem(y, X)
        began = time.perf_counter()
        model = fit(rows, given)
        seconds += time.perf_counter() - began
        n = model.nr_class if c is None and k > 2 else 1
        w = np.ctypeslib.as_array(model.w, (model.nr_feature * n,)).reshape(-1, n).T
        order = [model.label[j] for j in range(model.nr_class)]
        if c is None:
            W[order] = w
        else:
            W[c] = w[0] if order[0] == 1 else -w[0]
    return seconds, W


def scikit_learn(X, member, level: float, sets: bool):
    """(seconds, W)"""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    svm = LinearSVC(loss="hinge", fit_intercept=False, tol=level, max_iter=100_000)
    began = time.perf_counter()
    model = OneVsRestClassifier(svm).fit(X, member.astype(int) if sets else member.argmax(axis=1))
    seconds = time.perf_counter() - began
    return seconds, np.vstack([own.coef_ for own in model.estimators_])


def peer(options, name: str, rule: str, level: float) -> None:
    """One run of a peer, as a line of JSON."""
    X, member, known = load(options.train, options.sets)
    T, wanted, _ = load(options.test, options.sets, X.shape[1], known)
    made = scikit_learn(X, member, level, options.sets) if name == "scikit-learn" else None
    seconds, W = made or liblinear(X, member, rule, level, options.sets)
    told = {"seconds": seconds, "primal": primal(X, member, W, rule)}
    print(json.dumps(told | scores(T, wanted, W, options.sets)))


def budget(store: Path, share: str, k: int) -> int:
    """Bytes of memory."""
    from blocksvm.base.vectors import width_of
    from blocksvm.store.hdf5_files import open_hdf5, read_meta

    with open_hdf5(store, "store") as file:
        meta = read_meta(file)
    numbers = width_of(k) * meta["n_features"] + 2 * k * meta["n_samples"]
    nonzeros, rest = meta["n_nonzeros"], 8 * numbers + 5_000_000
    rest += (40 + 24 * k) * meta["n_samples"] // (1 if share == "mem" else 8)
    return 32 * nonzeros + 2 * rest if share == "mem" else nonzeros + rest


def ours(store: Path, test: tuple, share: str, rule: str, options) -> dict:
    """One run of the command, and how its model predicts the test rows (T, member, known)."""
    from blocksvm.model.model_file import load_model

    k = test[1].shape[1]
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        given = ("--tol", repr(options.tol), "--multiclass", rule)
        events, _, peak, model = train(store, budget(store, share, k), Path(name), *given)
        loaded = load_model(model)
    W = np.zeros((k, max(test[0].shape[1], int(loaded.feature_ids.max()))))
    W[:, loaded.feature_ids - 1] = loaded.weights
    outers, n = [event for event in events if event["event"] == "outer"], events[0]["n_samples"]
    readings = sum(((e["blocks"] > 0) + (e["certificate_share"] or 0.0)) * e["rows_read"] / n for e in outers)
    told = {"readings": readings, "peak": peak, "blocks": events[0]["blocks"]}
    return events[-1] | told | scores(test[0], test[1], W[:, : test[0].shape[1]], options.sets)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("train", type=Path)
    p.add_argument("test", type=Path)
    p.add_argument("--sets", action="store_true", help="the labels are sets (1,3 5:0.2)")
    p.add_argument("--folder", type=Path, default=Path(__file__).resolve().parent / "data" / "many-classes")
    p.add_argument("--tol", type=float, default=1e-3)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--peer", nargs=3, metavar=("NAME", "RULE", "LEVEL"), help="one run, for this program's own use")
    options = p.parse_args()
    if options.peer:
        peer(options, options.peer[0], options.peer[1], float(options.peer[2]))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    store = options.folder / "train.h5"
    split(options.train, store, *(("--format", "multilabel") if options.sets else ()))
    read_through(store)
    X, member, known = load(options.train, options.sets)
    test = load(options.test, options.sets, X.shape[1], known)
    about = machine()
    print(f"{about['cpu']}, {about['cores']} cores, {about['date']}; C = 1, gap {options.tol:g} in every class")
    size = f"{X.shape[0]:,} rows, {X.shape[1]:,} features, {X.nnz:,} nonzeros, {member.shape[1]} labels"
    print(f"{options.train.name}: {size}")
    print(
        "\n| rule | who | seconds | readings | against LIBLINEAR | accuracy | macro F1 | micro F1 |\n"
        + "|---" * 8
        + "|"
    )
    for rule in list(RULES)[: 1 if options.sets else 2]:
        kinds = ("8", "mem", *PEERS[rule])
        runs: dict[str, list[dict]] = {kind: [] for kind in kinds}
        ours(store, test, "8", rule, options)  # compiles
        level = 0
        for _ in range(options.repeats):
            for share in ("8", "mem"):
                runs[share].append(ours(store, test, share, rule, options))
            wanted = statistics.median(run["primal"] for run in runs["8"])
            for name in PEERS[rule]:
                while True:
                    given = [options.train, options.test, *(["--sets"] if options.sets else [])]
                    again = ("--peer", name, rule, LEVELS[level])
                    found = must(run_module(sys.executable, "experiments.many_classes", *given, *again))
                    if found["primal"] <= wanted or level + 1 == len(LEVELS):
                        break
                    level += 1
                runs[name].append(found)
        middle = {kind: statistics.median(run["seconds"] for run in runs[kind]) for kind in kinds}
        for kind in kinds:
            last = runs[kind][-1]
            who = {"8": f"1/8 of the memory ({last.get('blocks')} blocks)", "mem": "in memory"}.get(kind)
            reached = "" if last["primal"] <= wanted or who else ", not reached"
            cells = [
                RULES[rule], who or f"{kind} (-e {LEVELS[level]:g}{reached})", f"{middle[kind]:.2f}",
                f"{last['readings']:.1f}" if who else "", f"{middle['LIBLINEAR'] / middle[kind]:.1f}x",
                *(f"{last[figure]:.4f}" for figure in ("accuracy", "macro", "micro")),
            ]  # fmt: skip
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
