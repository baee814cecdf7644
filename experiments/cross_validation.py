"""Cross-validation beside as many separate runs, scikit-learn's GridSearchCV and LIBLINEAR's own search for C.

    python -m experiments.cross_validation TRAIN.svm [--folds 5] [--path 0.01,...,30] [--tol 1e-3] [--folder DIR]

Ours is the command on a store, at an eighth of the memory for the rows beside the problems' weights, and with room for
all.  The separate runs are fits of the same folds at the same C to the same gap, with all rows in memory already and
nothing to decode, one after the other in one process; what they find is compared with what the command does.  The
separate commands are as many runs of train at an eighth of the memory, each on a store of the rows outside of its fold:
their wall time, without that of making the stores, and of scoring the rows that are held out.
GridSearchCV is that of LinearSVC (hinge, no intercept, tol 0.01) on five folds; LIBLINEAR -C, which hinge has not, is
that of the squared hinge (-s 2).  One run each.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from experiments.processes import ROOT, must, read_through, run_module, split
from experiments.report import machine

PEERS = {
    "separate": "separate runs, in memory",
    "commands": "separate commands, 1/8",
    "grid_search": "GridSearchCV",
    "liblinear": "LIBLINEAR -C (-s 2)",
}


def load(path: Path):
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path))
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y


def separate(options) -> dict:
    """All fits by themselves: seconds, and accuracy by C and fold."""
    from blocksvm.sources.matrix import Matrix
    from blocksvm.training.fit import fit
    from blocksvm.validation.folds import folds_of

    X, y = load(options.train)
    folds = folds_of(Matrix(X, y), options.folds, 0).of_rows
    seconds, accuracy = 0.0, []
    for number, C in enumerate([options.path[0], *options.path]):  # the first one loads the kernels
        row = []
        for fold in range(options.folds):
            source = Matrix(X[folds != fold], y[folds != fold])
            began = time.perf_counter()
            model = fit(source, C=C, tol=options.tol, memory=8_000_000_000).model
            seconds += (time.perf_counter() - began) * (number > 0)
            row.append(float(np.mean(model.predict(X[folds == fold]) == y[folds == fold])))
        if number:
            accuracy.append(row)
    return {"seconds": seconds, "accuracy": accuracy}


def commands(options) -> dict:
    """train once for each fold and C, on stores of the folds."""
    from blocksvm.store.reader import open_store
    from blocksvm.validation.folds import folds_of

    whole = options.folder / "train.h5"
    with open_store(whole) as store:
        folds = folds_of(store, options.folds, 0).of_rows
        numbers = np.concatenate([store.read_rows(chunk)["source"] for chunk in range(len(store.chunks))])
        memory = 8 * store.n_features + 32 * store.n_samples + 6_000_000 + store.n_nonzeros
    part, listed, model = (options.folder / name for name in ("part.h5", "fold.txt", "part-model.h5"))
    seconds = 0.0
    for fold in range(options.folds):
        shutil.copy(whole, part)
        listed.write_text("".join(f"{number + 1}\n" for number in numbers[folds == fold].tolist()))
        drop = [sys.executable, "-m", "blocksvm.split", part, "--drop", listed, "--quiet"]
        subprocess.run(drop, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        for C in options.path:
            command = [sys.executable, "-m", "blocksvm.train", part, model, "-C", str(C), "--tol", str(options.tol)]
            began = time.perf_counter()
            subprocess.run([*command, "--memory", f"{memory}B", "--quiet", "--overwrite"], check=True, cwd=ROOT,
                           stdout=subprocess.DEVNULL)  # fmt: skip
            seconds += time.perf_counter() - began
    return {"seconds": seconds}


def grid_search(options) -> dict:
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import LinearSVC

    X, y = load(options.train)
    svm = LinearSVC(loss="hinge", fit_intercept=False, tol=0.01, max_iter=10_000)
    began = time.perf_counter()
    GridSearchCV(svm, {"C": options.path}, cv=options.folds, refit=False).fit(X, y)
    return {"seconds": time.perf_counter() - began}


def liblinear(options) -> dict:
    from liblinear.liblinearutil import parameter, problem, train

    X, y = load(options.train)
    rows = problem(y, X)
    began = time.perf_counter()
    found = train(rows, parameter(f"-C -s 2 -v {options.folds} -B -1 -q"))
    return {"seconds": time.perf_counter() - began, "C": float(found[0])}


def budget(store: Path, options, share: str) -> int:
    from blocksvm.base.vectors import width_of
    from blocksvm.store.hdf5_files import open_hdf5, read_meta

    with open_hdf5(store, "store") as file:
        meta = read_meta(file)
    # of three C at once, the ends of those before, and their own
    at_once, ends = width_of(3 * options.folds), 2 * options.folds
    rest = 8 * (at_once + ends) * (meta["n_features"] + 2 * meta["n_samples"]) + 10_000_000
    return rest + meta["n_nonzeros"] * (16 if share == "mem" else 1)


def ours(store: Path, options, share: str) -> dict:
    out = options.folder / "cv.json"
    arguments = ["--folds", options.folds, "-C", ",".join(f"{C:g}" for C in options.path), "--tol", options.tol]
    arguments += ["--memory", f"{budget(store, options, share)}B", "--json", out, "--quiet", "--overwrite"]
    out.unlink(missing_ok=True)
    run_module(sys.executable, "blocksvm.cv", store, *arguments)
    return json.loads(out.read_text())


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("train", type=Path)
    p.add_argument("--folds", type=int, default=5)
    p.add_argument("--path", type=lambda text: [float(C) for C in text.split(",")], default=None)
    p.add_argument("--tol", type=float, default=1e-3)
    p.add_argument("--folder", type=Path, default=Path(__file__).resolve().parent / "data" / "cross-validation")
    p.add_argument(
        "--peers", default=",".join(PEERS), metavar="NAME,...", help="separate, commands, grid_search, liblinear"
    )
    p.add_argument("--peer", choices=tuple(PEERS), help="one of them, for this program's own use")
    options = p.parse_args()
    options.path = options.path or [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
    if options.peer:
        print(json.dumps(globals()[options.peer](options)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    store = options.folder / "train.h5"
    split(options.train, store)
    read_through(store)
    ours(store, options, "8")  # compiles
    found = {share: ours(store, options, share) for share in ("8", "mem")}
    path = ",".join(f"{C:g}" for C in options.path)
    given = (options.train, "--folds", options.folds, "--path", path, "--tol", options.tol, "--folder", options.folder)
    peers = {
        name: must(run_module(sys.executable, "experiments.cross_validation", *given, "--peer", name))
        for name in options.peers.split(",")
    }
    about, alone = machine(), peers.get("separate", {}).get("seconds", float("nan"))
    print(f"{about['cpu']}, {about['cores']} cores, {about['date']}")
    print(f"{options.train.name}, {options.folds} folds, C {path}")
    print("\n| who | seconds | against separate runs | readings |\n|---|---|---|---|")
    for share, name in (("8", "cv, 1/8 of the memory"), ("mem", "cv, in memory")):
        one = found[share]
        print(f"| {name} | {one['seconds']:.1f} | {alone / one['seconds']:.1f}x | {one['readings']:.0f} |")
    for name, one in peers.items():
        print(f"| {PEERS[name]} | {one['seconds']:.1f} | {alone / one['seconds']:.1f}x | |")
    if "separate" in peers:
        apart = np.abs(np.array(found["8"]["accuracy"]) - np.array(peers["separate"]["accuracy"])).max()
        print(f"\nlargest difference of an accuracy from the separate run's: {apart:.4f}")


if __name__ == "__main__":
    main()
