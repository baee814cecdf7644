"""Texts with labels, one or several: blocksvm beside fastText and scikit-learn, from the lines to the predictions.

    python -m experiments.texts TRAIN.ft TEST.ft [--memory 1000] [--autotune 60] [--times 0]

The lines are fastText's.  P@1 is the share of the test texts whose likeliest label is one of theirs, R@1 that label's
share of all of theirs.  Everything is as it comes, but that blocksvm and scikit-learn have words and pairs, tf-idf,
rows of norm 1, and of sets of labels each label's own classifier; fastText's 'tutorial' is with pairs, too, and as its
own tutorial ends (-lr 1.0 -epoch 25 -wordNgrams 2, of several labels -loss one-vs-all), and 'tuned' is what its own
search finds in --autotune seconds, for which it is tested on a fifth of the training texts.  Programs run once each,
one after the other, in processes of their own.
--times N: instead, scores of the test texts N times over: read, score, and write or count, without training.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from experiments.learners import peak_mb
from experiments.runs import begin, command, described, in_child, read_through, row, split, table, train

OURS = ("--ngrams", "word:1-2", "--idf", "smooth", "--normalize", "l2")
TUTORIAL = {"lr": 1.0, "epoch": 25, "wordNgrams": 2}
HASHED = ("--ngrams", "word:1-2", "--bits", "21", "--normalize", "l2")


def rows_of(path: Path) -> Iterator[tuple[list[str], str]]:
    """(labels, text) of each line."""
    with open(path) as lines:
        for line in lines:
            words = line.split(" ")
            n = sum(word.startswith("__label__") for word in words)
            yield [word.strip() for word in words[:n]], " ".join(words[n:]).rstrip("\n")


def at_one(test: Path, likeliest: list[str]) -> dict:
    """P@1 and R@1 of the likeliest labels of the test texts."""
    labels = [set(labels) for labels, _ in rows_of(test)]
    right = sum(one in own for one, own in zip(likeliest, labels, strict=True))
    return {"p": right / len(labels), "r": right / sum(map(len, labels))}


def blocksvm(train_file: Path, test: Path, memory: str, folder: Path, *more: str) -> dict:
    store, model, out = folder / "rows.h5", folder / "model.h5", folder / "scores"
    runs = [split(train_file, store, "--memory", memory, *OURS)]
    runs.append(train(store, model, "--memory", memory, "--bias", "1", *more)[1])
    runs.append(command("predict", model, test, f"{out}/", "--overwrite", "--quiet", "--memory", memory))
    likeliest = [line.split(" ")[0] for line in (out / test.name).read_text().splitlines()]
    return {"fit": sum(one.seconds for one in runs[:2]), "predict": runs[2].seconds, "mb": model.stat().st_size / 1e6,
            "peak": max(one.peak_mb for one in runs)} | at_one(test, likeliest)  # fmt: skip


def fasttext(train_file: Path, test: Path, folder: Path, tune: int = 0, **settings) -> dict:
    import fasttext as program

    if tune:
        part, valid = folder / "part.ft", folder / "valid.ft"
        lines = train_file.read_text().splitlines(keepends=True)
        valid.write_text("".join(lines[::5]))
        part.write_text("".join(line for k, line in enumerate(lines) if k % 5))
        train_file = part
        settings |= {"autotuneValidationFile": str(valid), "autotuneDuration": tune}
    program.FastText.eprint = lambda *words: None  # its warning of what load_model returns
    began = time.perf_counter()
    model = program.train_supervised(str(train_file), thread=2, verbose=0, **settings)
    model.save_model(str(folder / "model.bin"))
    fitted = time.perf_counter()
    model = program.load_model(str(folder / "model.bin"))
    likeliest = [labels[0] for labels in model.predict([text for _, text in rows_of(test)])[0]]
    return {"fit": fitted - began, "predict": time.perf_counter() - fitted, "peak": peak_mb(),
            "mb": (folder / "model.bin").stat().st_size / 1e6} | at_one(test, likeliest)  # fmt: skip


def scikit_learn(train_file: Path, test: Path, folder: Path, name: str) -> dict:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import SGDClassifier
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MultiLabelBinarizer
    from sklearn.svm import LinearSVC

    began = time.perf_counter()
    labels, texts = zip(*rows_of(train_file), strict=True)
    sets = max(map(len, labels)) > 1
    classifier = LinearSVC(loss="hinge") if name == "LinearSVC" else SGDClassifier(random_state=0)
    classifier = OneVsRestClassifier(classifier) if sets else classifier
    binarizer = MultiLabelBinarizer()
    y = binarizer.fit_transform(labels) if sets else [one[0] for one in labels]
    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), classifier).fit(texts, y)
    (folder / "model.pickle").write_bytes(pickle.dumps(model))
    fitted = time.perf_counter()
    values = model.decision_function([text for _, text in rows_of(test)])
    classes = binarizer.classes_ if sets else model.classes_
    chosen = values.argmax(axis=1) if values.ndim == 2 else (values > 0).astype(int)
    seconds = time.perf_counter() - fitted
    return {"fit": fitted - began, "predict": seconds, "peak": peak_mb(),
            "mb": (folder / "model.pickle").stat().st_size / 1e6} | at_one(test, classes[chosen])  # fmt: skip


def programs(train_file: Path, test: Path, memory: str, tune: int, folder: Path) -> None:
    sets = max(len(labels) for labels, _ in rows_of(train_file)) > 1
    several = {"loss": "ova"} if sets else {}
    ours = partial(blocksvm, train_file, test, memory, folder)
    ways = {
        "blocksvm": ours,
        "blocksvm, --loss logistic -C 10": partial(ours, "--loss", "logistic", "-C", "10"),
        "fastText, defaults": partial(in_child, fasttext, train_file, test, folder),
        "fastText, tutorial": partial(in_child, partial(fasttext, **TUTORIAL, **several), train_file, test, folder),
        f"fastText, tuned {tune} s": partial(in_child, fasttext, train_file, test, folder, tune),
        "scikit-learn, LinearSVC": partial(in_child, scikit_learn, train_file, test, folder, "LinearSVC"),
        "scikit-learn, SGDClassifier": partial(in_child, scikit_learn, train_file, test, folder, "SGD"),
    }  # fmt: skip
    counts = [sum(1 for _ in rows_of(path)) for path in (train_file, test)]
    size = (train_file.stat().st_size + test.stat().st_size) / 1e6
    title = f"{train_file.stem.removesuffix('-train')}: {counts[0]:,} and {counts[1]:,} texts, {size:.0f} MB"
    table(f"{title}; blocksvm within {memory}", "program", "seconds to fit", "to predict", "peak MB", "model MB",
          "P@1", "R@1")  # fmt: skip
    for way, measure in ways.items():
        for path in (train_file, test):
            read_through(path)
        one = measure()
        row(way, f"{one['fit']:.1f}", f"{one['predict']:.1f}", f"{one['peak']:,.0f}", f"{one['mb']:,.1f}",
            f"{one['p']:.4f}", f"{one['r']:.4f}")  # fmt: skip


def their_scores(model: str, test: Path) -> float:
    """fastText's own reading and scoring of a file, in C++, without a line that is written."""
    import fasttext as program

    loaded = program.load_model(model)
    began = time.perf_counter()
    loaded.test(str(test))
    return time.perf_counter() - began


def hashing_scores(test: Path, coef: np.ndarray) -> float:
    """scikit-learn's HashingVectorizer and a product with weights, 1,000 texts at a time."""
    from sklearn.feature_extraction.text import HashingVectorizer

    began = time.perf_counter()
    vectorizer = HashingVectorizer(ngram_range=(1, 2), n_features=1 << 21, alternate_sign=False)
    texts = [text for _, text in rows_of(test)]
    for start in range(0, len(texts), 1000):
        vectorizer.transform(texts[start : start + 1000]) @ coef
    return time.perf_counter() - began


def speed(train_file: Path, test: Path, memory: str, times: int, folder: Path) -> None:
    import fasttext as program

    store, model, many = folder / "rows.h5", folder / "model.h5", folder / "many.ft"
    many.write_bytes(test.read_bytes() * times)
    split(train_file, store, *HASHED)
    train(store, model)
    settings = {"wordNgrams": 2, "bucket": 1 << 21, "thread": 2, "verbose": 0}
    program.train_supervised(str(train_file), **settings).save_model(str(folder / "model.bin"))
    size, n_labels = many.stat().st_size / 1e6, len(described(model)["labels"])
    read_through(many)
    scored = ("predict", model, many, f"{folder}/scores/", "--overwrite", "--quiet", "--memory", memory)
    seconds = {
        "blocksvm, the whole command": [command(*scored).seconds for _ in range(3)],
        "blocksvm, one thread": [command(*scored, "--threads", "1").seconds for _ in range(3)],
        "fastText's test, in a process": [in_child(their_scores, str(folder / "model.bin"), many) for _ in range(3)],
        "scikit-learn": [in_child(hashing_scores, many, np.ones(1 << 21))],
    }  # fmt: skip
    table(f"{size:,.0f} MB of texts, words and pairs in 2^21, {n_labels} labels", "program", "seconds", "MB/s")
    for way, runs in seconds.items():
        row(way, f"{np.median(runs):.1f}", f"{size / np.median(runs):,.0f}")


def main() -> None:
    options = begin(__doc__, "texts", memory=1000, autotune=60, times=0)
    train_file, test = map(Path, options.texts)
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as folder:
        given = train_file, test, f"{options.memory}MB"
        if options.times:
            speed(*given, options.times, Path(folder))
        else:
            programs(*given, options.autotune, Path(folder))


if __name__ == "__main__":
    main()
