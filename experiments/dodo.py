"""How data and measurements are made, for doit, which runs what has changed since its last run:

    doit -f experiments/dodo.py list --all          what there is
    doit -f experiments/dodo.py sources=DIR working-set:enron

A page of experiments/results is a task, each of its parts a subtask, whose tables go to experiments/data/tables.
``sources`` is a folder with the public files that a measurement needs, at any depth, texts packed by xz or not.  In a
command a name in braces is a file: one that another command makes, or one of the sources; {@NAME} is a folder.
"""

import re
import sys
from pathlib import Path

from doit import get_var

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "experiments" / "data"
SOURCES = Path(get_var("sources", FOLDER / "sources"))
FOLDER.mkdir(exist_ok=True)  # doit's own file lies there
DOIT_CONFIG = {"dep_file": str(FOLDER / "doit.db"), "verbosity": 2}

IMDB, NEWS, ENRON = "imdb {aclImdb.tar.gz}", "news {20news-bydate.tar.gz}", "enron {enron-spam.tar.xz}"
PRODUCTS, REUTERS = "{amazon_processed_acl_books_dvd.tar.xz}", "reuters {reuters21578.tar.xz}"
SPAM = "--positive spam --ngrams"
TEXTS = {
    "imdb-words": f"{IMDB} * --positive pos --presence", "stars-train": f"{IMDB} * --presence --part train",
    "imdb-train": f"{IMDB} * --positive pos --presence --part train", "stars-test": f"{IMDB} * --presence --part test",
    "imdb-test": f"{IMDB} * --positive pos --presence --part test", "enron": f"{ENRON} * {SPAM} char_wb:4-5",
    "imdb-characters": f"{IMDB} * --positive pos --ngrams char_wb:4-6 --most 20000",
    "imdb-w1": f"{IMDB} * --positive pos --ngrams word:1-1 --most 20000",
    "news-words": f"{NEWS} * --positive rec.autos", "news-mideast": f"{NEWS} * --positive talk.politics.mideast",
    "news-characters": f"{NEWS} * --positive sci.space --ngrams char_wb:3-5",
    "enron-w12": f"{ENRON} * {SPAM} word:1-2", "enron-names": f"{ENRON} * {SPAM} word:1-2 --order names",
    "mails": f"{ENRON} * {SPAM} char:3-6", "enron-shuffled": f"{ENRON} * {SPAM} word:1-2 --seed 1",
}  # fmt: skip
PLANTED = {
    "zipf": "zipf *", "zipf-64M": "zipf * --seed 7", "clicks-other": "clicks * --rows 1000000 --seed 7",
    "zipf-other": "zipf * --rows 600000 --seed 7 --mean-nonzeros 40",
    "clicks-drift": "clicks * --rows 1000000 --drift 1",
    "short": "zipf * --rows 800000 --features 100000 --mean-nonzeros 8 --noise 0.05",
    "short-noisy": "zipf * --rows 40000 --features 20000 --mean-nonzeros 8 --noise 0.2",
    "tall-1M": "tall * --rows 1000000 --features 28", "tall-5M": "tall * --rows 5000000 --features 20",
    "wide": "tall * --rows 300000 --features 500",
    "unscaled": "tall * --rows 100000 --features 20 --kind unscaled",
    "collinear": "tall * --rows 50000 --features 25 --kind collinear",
}  # fmt: skip
LARGE = {f"scale-{size}": f"--rows {16_000 * size} --features 20000000" for size in (10, 30, 100, 300)}
LARGE["big"] = "--rows 56000000 --features 20000000"
for size, rows in (("256M", 4_000_000), ("1G", 16_000_000)):
    LARGE[f"noisy-{size}"] = f"--rows {rows} --features 20000000"
    LARGE[f"easy-{size}"] = f"--rows {rows} --features 2000000 --noise 0.01 --seed 3"
STORES = "enron imdb-words news-words imdb-characters zipf-other clicks-other zipf-64M"
MAKE, SPLIT = "experiments.make_data", "blocksvm.split"
# files: the command that makes them
MADE = {
    **{f"{name}.svm": f"{MAKE} {given.replace('*', '{' + name + '.svm}')}"
       for name, given in (PLANTED | {name: f"texts {given}" for name, given in TEXTS.items()}).items()},
    "books.svm": f"{MAKE} counts {PRODUCTS} {{books.svm}}",
    "reviews-books.svm reviews-dvd.svm": f"{MAKE} counts {PRODUCTS} {{reviews-books.svm}} {{reviews-dvd.svm}}",
    "news20.svm news20.t.svm": f"{MAKE} topics {NEWS} {{news20.svm}} {{news20.t.svm}}",
    "news20-3.svm news20-3.t.svm": f"{MAKE} topics {NEWS} {{news20-3.svm}} {{news20-3.t.svm}} --ngrams 1-3",
    "reuters.svm reuters.t.svm": f"{MAKE} topics {REUTERS} {{reuters.svm}} {{reuters.t.svm}}",
    **{f"{name}-train.ft {name}-test.ft": f"{MAKE} lines {given} {{{name}-train.ft}} {{{name}-test.ft}}"
       for name, given in (("news", NEWS), ("imdb", IMDB), ("reuters", REUTERS), ("enron", ENRON))},
    **{f"{name}.h5": f"{SPLIT} {{{name}.svm}} {{{name}.h5}} --overwrite --quiet" for name in STORES.split()},
    **{f"{name}.h5": f"{MAKE} zipf /dev/stdout {given} --values sixteenths | {SPLIT} - {{{name}.h5}} --normalize none "
                     "--overwrite --quiet" for name, given in LARGE.items()},
}  # fmt: skip


def comparison(text: str, *solvers: str, test: str = "", data: str = "", objective: str = "", **limits: int) -> str:
    """A run of benchopt, of which experiments.curves makes tables; limits: repeats, and seconds of a repetition of a
    program, after which it begins no other level."""
    given = f"text={{{text}}}" + (f",test={{{test}}}" if test else "") + (f",{data}" if data else "")
    chosen = " ".join(f'-s "{solver}"' for solver in solvers)
    return (f"benchopt run experiments/benchopt -d 'svmlight[{given}]' -o 'linear[{objective}]' {chosen} "
            f"-r {limits.get('repeats', 3)} --timeout {limits.get('seconds', 12)} --no-plot --no-cache -n 10 --output "
            "{@tables}/%(name)s.parquet; experiments.curves {@tables}/%(name)s.parquet --figure "
            "{@tables}/%(name)s.png")  # fmt: skip


def each(names: str, command: str) -> dict[str, str]:
    """A part for each name, which stands for * in the command."""
    return {name: command.replace("*", name) for name in names.split()}


LONG = {"seconds": 60, "repeats": 1}  # where one level takes a peer many seconds
PEERS = ("liblinear", "LinearSVC", "SGDClassifier", "snapml[n_jobs=[1,2]]", "vowpal-wabbit")
SHARES = ("blocksvm[memory=['1/8','1/32',all]]", "blocksvm[working_set=none]", "liblinear")
BOTH = ("blocksvm[memory=['1/8',all]]", "liblinear")
# rooms of the package by which seconds and readings of a training go
TRAINING = "training solvers losses problems kernels sources store"
# a page of experiments/results: (what of the package is measured; {part: commands}, with semicolons between them)
MEASURED = {
    "larger-than-memory": (TRAINING, {
        "": "experiments.larger {scale-10.h5} {scale-30.h5} {scale-100.h5} {scale-300.h5} {big.h5}",
        "zipf": comparison("zipf.svm", "blocksvm[memory='139MB',cold=True]", *PEERS, **LONG),
        "imdb": comparison("imdb-train.svm", "blocksvm[memory='33MB',cold=True]", *PEERS, test="imdb-test.svm"),
        "imdb-all": comparison("imdb-words.svm", "blocksvm[memory='64MB',cold=True]", *PEERS)}),
    "whole-job": (f"{TRAINING} conversion formats model", {"": "experiments.whole_job {mails.svm}"}),
    "texts": (f"{TRAINING} conversion formats model", {
        **each("news imdb reuters enron", "experiments.texts {*-train.ft} {*-test.ft}"),
        "speed": "experiments.texts {imdb-train.ft} {imdb-test.ft} --times 20"}),
    "working-set": (TRAINING, {
        **{name: comparison(f"{name}.svm", *SHARES)
           for name in ("enron", "news-words", "news-characters", "imdb-characters", "imdb-words", "enron-w12",
                        "news-mideast", "zipf-other", "clicks-other", "short")},
        **{f"schedules-{name}": f"experiments.larger {{{name}.h5}} --bandwidths 50,500"
           for name in ("enron", "imdb-words")}}),
    "convergence": (TRAINING, {
        "books": "experiments.convergence {books.svm} --most 200", "a9a": "experiments.convergence {a9a} --most 200",
        **each("news-words enron imdb-words short-noisy", "experiments.convergence {*.svm} --most 60"),
        **each("splice phishing", "experiments.convergence {*.txt} --most 40 --only numbers,passes")}),
    "other-problems": (TRAINING, {
        **{f"{name}-{loss}": comparison(f"{name}.svm", *BOTH, "LinearSVC", test=f"{name}.t.svm",
                                        objective=f"loss={loss}", **LONG if name == "news20-3" else {})
           for name in ("news20-3", "news20") for loss in ("hinge", "crammer-singer")},
        "reuters": comparison("reuters.svm", *BOTH, "LinearSVC", test="reuters.t.svm", data="multilabel=True"),
        "dna": comparison("dna.scale", *BOTH, "LinearSVC", test="dna.scale.t"),
        **{loss: comparison("stars-train.svm", *BOTH, test="stars-test.svm", objective=f"loss={loss},bias=1")
           for loss in ("epsilon-insensitive", "squared-epsilon-insensitive")},
        "cross-validation": "experiments.whole_job {imdb-words.svm} --folds 5"}),
    "kernel": (f"{TRAINING} online", {
        "": "experiments.kernel a9a={a9a}:0.0081 phishing={phishing.txt}:0.1 mushrooms={mushrooms.txt}:0.01 "
            "--repeats 1",
        "online": "experiments.kernel svmguide1={svmguide1.txt}:20 a9a={a9a}:{a9a.t}:0.05 --online"}),
    "tall": (TRAINING, {
        text.partition(".")[0]: comparison(
            text, f"blocksvm[solver=[newton,dual-cd],memory='{memory}']", "liblinear[primal=True]", "newton-cholesky",
            objective="loss=[squared-hinge,logistic],C=[0.1,1,100]", **LONG)
        for memory, texts in (("1/8", "tall-1M.svm tall-5M.svm wide.svm"),
                              ("all", "a9a phishing.txt unscaled.svm collinear.svm")) for text in texts.split()}),
    "cluster": (f"{TRAINING} cluster", {
        "hinge": "experiments.cluster {news-words.h5} {enron.h5} {imdb-characters.h5} {zipf-other.h5} "
                 "{clicks-other.h5} {zipf-64M.h5}",
        "billion": "experiments.cluster {easy-1G.h5} {noisy-1G.h5} -C 0.02",
        **{f"limits-{kind}": f"experiments.cluster {{{kind}-256M.h5}} {{{kind}-1G.h5}} --limits -C 0.02"
           for kind in ("easy", "noisy")}}),
    "learners": (f"{TRAINING} online streaming formats", {
        **each("enron-names enron-shuffled imdb-w1 imdb-words news-mideast news-words clicks-drift zipf",
               "experiments.learners *={*.svm}"),
        "streams": "experiments.learners zipf={zipf.svm} --learners 'pa1 -C 0.1;ogd;arow;adagrad-fobos' --repeats 7 "
                   "--vw='--loss_function hinge --noconstant'",
        "classes": "experiments.learners {news20.svm} {news20.t.svm} --classes",
        "sets": "experiments.learners {reuters.svm} {reuters.t.svm} --sets",
        "regimes": "experiments.learners {imdb-train.svm} {imdb-test.svm} --regimes"}),
    "labels": (f"{TRAINING} online", {
        "active": "experiments.labels {a9a},0.1 {imdb-w1.svm} {enron.svm}",
        "active-other": "experiments.labels {phishing.txt} {mushrooms.txt} {short-noisy.svm} --seeds 3",
        "reviews": "experiments.labels {reviews-books.svm} {reviews-dvd.svm} --prior --seeds 20",
        **{text.partition(".")[0]: f"experiments.labels {{{text}}} --prior --by {feature} --seeds 10"
           for text, feature in (("a9a", 72), ("mushrooms.txt", 3), ("phishing.txt", 36))},
        "unrelated": "experiments.labels {mushrooms.txt} {phishing.txt} --prior --seeds 10",
        **{f"again-{tol}": f"experiments.labels {{imdb-words.svm}} {{a9a}} --added --tol {tol}"
           for tol in ("1e-3", "1e-5")}}),
    "hf-fobos": ("online kernels", {"": "experiments.hf_fobos planted"}),
    "structured": ("structured", {
        "chunks": "experiments.structured {conll2000.zip}",
        "trees": "experiments.structured {dependency_treebank.zip}"}),
}  # fmt: skip


def files_of(command: str) -> list[str]:
    """The files that a command names."""
    return re.findall(r"\{([^}@][^}]*)\}", command)


def path_of(name: str) -> Path:
    """Where a file lies: one that is made (or unpacked), or a source."""
    made = any(name in files.split() for files in MADE) or next(SOURCES.rglob(f"{name}.xz"), None)
    return FOLDER / name if made else next(SOURCES.rglob(name), SOURCES / name)


def line_of(command: str) -> str:
    """The command as the shell runs it: with the interpreter, and the paths of files."""
    command = re.sub(r"\{([^}@][^}]*)\}", lambda name: str(path_of(name[1])), command)
    command = re.sub(r"\{@([^}]*)\}", lambda name: str(FOLDER / name[1]), command)
    return f"cd {ROOT} && export PYTHONPATH={ROOT} && " + re.sub(
        r"(^|[;|] )(?=experiments|blocksvm|benchopt)", rf"\1{sys.executable} -m ", command
    )


def task_data():
    """Files that measurements read."""
    for source in sorted(SOURCES.rglob("*.xz")):
        if ".tar" not in source.name:
            unpack = f"xz -dc {source} > {FOLDER / source.stem}"
            yield {"name": source.stem, "targets": [FOLDER / source.stem], "file_dep": [source], "actions": [unpack]}
    for files, command in MADE.items():
        needs = [path_of(name) for name in files_of(command) if name not in files.split()]
        yield {
            "name": files.split()[0], "targets": [path_of(name) for name in files.split()], "file_dep": needs,
            "actions": [line_of(command)],
            "uptodate": [True],  # what needs no file is not made again, either
        }  # fmt: skip


def task_measurements():
    """A task a page of experiments/results, and in it one for each of its parts."""
    tables = FOLDER / "tables"
    for page, (rooms, parts) in MEASURED.items():
        yield {"basename": page, "name": None, "doc": f"what experiments/results/{page}.md shows"}
        for part, commands in parts.items():
            name = f"{page}-{part}".strip("-")
            *before, last = [line_of(one) for one in commands.replace("%(name)s", name).split("; ")]
            code = [f"blocksvm/{room}/**/*.py" for room in rooms.split()]
            code += ["experiments/runs.py", *(["experiments/benchopt/**/*.py"] if before else [])]
            code += [f"experiments/{script}.py" for script in re.findall(r"experiments\.(\w+)", commands)]
            yield {
                "basename": page, "name": part or "all", "targets": [tables / f"{name}.md"],
                "file_dep": [*map(path_of, files_of(commands)), *(file for one in code for file in ROOT.glob(one))],
                "actions": [f"mkdir -p {tables}", f"rm -f {tables / name}.parquet", *before,
                            f"{last} > {tables / name}.md", f"echo the tables: {tables / name}.md"],
            }  # fmt: skip
