"""Texts with labels, one or several: blocksvm beside fastText and scikit-learn, from the lines to the predictions.

    python -m experiments.texts TRAIN.ft TEST.ft [--memory 1000] [--autotune 60] [--times 0]

The lines are fastText's.  P@1 is the share of the test texts whose likeliest label is one of theirs, R@1 that label's
share of all of theirs.  Everything is as it comes, but that blocksvm and scikit-learn have words and pairs, tf-idf,
rows of norm 1, and of sets of labels each label's own classifier; fastText's 'tutorial' is as its own tutorial ends,
and 'tuned' is what its own search finds in --autotune seconds, for which it is tested on a fifth of the training texts.
Programs run once each, in processes of their own.  --times N: instead, scores of the test texts N times over: read,
score, and write or count, without training.
"""

import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from experiments import runs
from experiments.runs import Clock, row, script, split, table, train

OURS = ("--ngrams", "word:1-2", "--idf", "smooth", "--normalize", "l2")
TUTORIAL = {"lr": 1.0, "epoch": 25, "wordNgrams": 2}
HASHED = ("--ngrams", "word:1-2", "--bits", "21", "--normalize", "l2")


def lines_of(path: Path) -> Iterator[tuple[list[str], str]]:
    """(labels, text) of each line."""
    with open(path) as lines:
        for line in lines:
            words = line.split(" ")
            n = sum(word.startswith("__label__") for word in words)
            yield [word.strip() for word in words[:n]], " ".join(words[n:]).rstrip("\n")


def found(test: Path, likeliest: list[str], model: Path, fit: float, predict: float, peak: float) -> dict:
    """Seconds and sizes, and P@1 and R@1 of the likeliest labels of the test texts."""
    labels = [set(labels) for labels, _ in lines_of(test)]
    right = sum(one in own for one, own in zip(likeliest, labels, strict=True))
    return {"fit": fit, "predict": predict, "peak": peak, "mb": model.stat().st_size / 1e6, "p": right / len(labels),
            "r": right / sum(map(len, labels))}  # fmt: skip


def blocksvm(train_file: Path, test: Path, folder: Path, memory: str, *more: str) -> dict:
    store, model, out = folder / "rows.h5", folder / "model.h5", folder / "scores"
    done = [split(train_file, store, "--memory", memory, *OURS)]
    done.append(train(store, model, "--memory", memory, "--bias", "1", *more)[1])
    done.append(runs.command("predict", model, test, f"{out}/", "--overwrite", "--quiet", "--memory", memory))
    likeliest = [line.split(" ")[0] for line in (out / test.name).read_text().splitlines()]
    fit = sum(one.seconds for one in done[:2])
    return found(test, likeliest, model, fit, done[2].seconds, max(one.peak_mb for one in done))


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
    clock, file = Clock(), folder / "model.bin"
    program.train_supervised(str(train_file), thread=2, verbose=0, **settings).save_model(str(file))
    clock.part()
    labels = program.load_model(str(file)).predict([text for _, text in lines_of(test)])[0]
    clock.part()
    return found(test, [one[0] for one in labels], file, *clock.seconds, runs.peak_mb())


def scikit_learn(train_file: Path, test: Path, folder: Path, name: str) -> dict:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import SGDClassifier
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MultiLabelBinarizer
    from sklearn.svm import LinearSVC

    clock, file, binarizer = Clock(), folder / "model.pickle", MultiLabelBinarizer()
    labels, texts = zip(*lines_of(train_file), strict=True)
    sets = max(map(len, labels)) > 1
    classifier = LinearSVC(loss="hinge") if name == "LinearSVC" else SGDClassifier(random_state=0)
    classifier = OneVsRestClassifier(classifier) if sets else classifier
    y = binarizer.fit_transform(labels) if sets else [one[0] for one in labels]
    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), classifier).fit(texts, y)
    file.write_bytes(pickle.dumps(model))
    clock.part()
    values = model.decision_function([text for _, text in lines_of(test)])
    chosen = values.argmax(axis=1) if values.ndim == 2 else (values > 0).astype(int)
    likeliest = (binarizer.classes_ if sets else model.classes_)[chosen]
    clock.part()
    return found(test, likeliest, file, *clock.seconds, runs.peak_mb())


def programs(files: tuple[Path, Path], folder: Path, memory: str, tune: int) -> None:
    labels = [[len(labels) for labels, _ in lines_of(path)] for path in files]
    several = {"loss": "ova"} if max(labels[0]) > 1 else {}
    ours, theirs = partial(blocksvm, *files, folder, memory), partial(runs.in_child, fasttext, *files, folder)
    ways = {
        "blocksvm": ours,
        "blocksvm, --loss logistic -C 10": partial(ours, "--loss", "logistic", "-C", "10"),
        "fastText, defaults": theirs,
        "fastText, tutorial": partial(runs.in_child, partial(fasttext, **TUTORIAL, **several), *files, folder),
        f"fastText, tuned {tune} s": partial(theirs, tune),
        **{f"scikit-learn, {name}": partial(runs.in_child, scikit_learn, *files, folder, name)
           for name in ("LinearSVC", "SGDClassifier")},
    }  # fmt: skip
    size = sum(path.stat().st_size for path in files) / 1e6
    title = f"{files[0].stem}: {' and '.join(f'{len(one):,}' for one in labels)} texts, {size:.0f} MB"
    table(f"{title}; blocksvm within {memory}", "program", "seconds to fit", "to predict", "peak MB", "model MB",
          "P@1", "R@1")  # fmt: skip
    for way, one in runs.in_turn(ways, 1, *files).items():
        row(way, f"{one['fit']:.1f}", f"{one['predict']:.1f}", f"{one['peak']:,.0f}", f"{one['mb']:,.1f}",
            f"{one['p']:.4f}", f"{one['r']:.4f}")  # fmt: skip


def their_scores(model: Path, test: Path) -> dict:
    """fastText's own reading and scoring of a file, in C++, without a line that is written."""
    import fasttext as program

    loaded, clock = program.load_model(str(model)), Clock()
    loaded.test(str(test))
    return {"seconds": clock.part()}


def speed(files: tuple[Path, Path], folder: Path, memory: str, times: int) -> None:
    import fasttext as program

    store, model, many, theirs = (folder / name for name in ("rows.h5", "model.h5", "many.ft", "model.bin"))
    many.write_bytes(files[1].read_bytes() * times)
    split(files[0], store, *HASHED)
    train(store, model)
    settings = {"wordNgrams": 2, "bucket": 1 << 21, "thread": 2, "verbose": 0}
    program.train_supervised(str(files[0]), **settings).save_model(str(theirs))
    scored = ("predict", model, many, f"{folder}/scores/", "--overwrite", "--quiet", "--memory", memory)
    ways = {
        "blocksvm, the whole command": lambda: {"seconds": runs.command(*scored).seconds},
        "blocksvm, one thread": lambda: {"seconds": runs.command(*scored, "--threads", "1").seconds},
        "fastText's test, in a process": partial(runs.in_child, their_scores, theirs, many),
    }
    size, n_labels = many.stat().st_size / 1e6, len(runs.described(model)["labels"])
    table(f"{size:,.0f} MB of texts, words and pairs in 2^21, {n_labels} labels", "program", "seconds", "MB/s")
    for way, one in runs.in_turn(ways, 3, many).items():
        row(way, f"{one['seconds']:.1f}", f"{size / one['seconds']:,.0f}")


@script("texts+", memory=1000, autotune=60, times=0)
def main(options) -> None:
    files = tuple(Path(text) for text in options.texts)
    with runs.scratch() as folder:
        (speed if options.times else programs)(files, folder, f"{options.memory}MB", options.times or options.autotune)
