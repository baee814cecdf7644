"""How data and measurements are made, for doit, which runs what has changed since its last run:

    doit -f experiments/dodo.py list --all          what there is
    doit -f experiments/dodo.py sources=DIR working-set:enron
    doit -f experiments/dodo.py figures             the tables of README.md and docs/measurements.md

``sources`` is a folder with the public files that a measurement needs, at any depth; texts may be compressed.
Tables and their JSON go to experiments/data/tables; what is kept of them lies in experiments/results/data.
In a command a name in braces is a file: one that another command makes, or one of the sources; {@NAME} is a folder.
"""

import re
import sys
from pathlib import Path

from doit import get_var

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "experiments" / "data"
TABLES = FOLDER / "tables"
SOURCES = Path(get_var("sources", FOLDER / "sources"))
FOLDER.mkdir(exist_ok=True)  # doit's own file lies there
DOIT_CONFIG = {"default_tasks": ["figures"], "dep_file": str(FOLDER / "doit.db"), "verbosity": 2}

IMDB, NEWS, ENRON = "{aclImdb.tar.gz}", "{20news-bydate.tar.gz}", "{enron-spam.tar.xz}"
WORDS = f"tools/make_texts.py enron {ENRON} --ngrams word:1-2"
BIG = "tools/make_store.py --features 20000000"
PRODUCTS = "{amazon_processed_acl_books_dvd.tar.xz}"
# files: the command that makes them
MADE = {
    "imdb-train.svm imdb-test.svm imdb-words.svm imdb.tsv":
        f"tools/make_imdb.py {IMDB} {{imdb-train.svm}} {{imdb-test.svm}} --both {{imdb-words.svm}} "
        "--documents {imdb.tsv}",
    "stars-train.svm stars-test.svm": f"tools/make_imdb.py {IMDB} {{stars-train.svm}} {{stars-test.svm}} --ratings",
    "imdb-w1.svm": f"tools/make_texts.py imdb-characters {IMDB} {{imdb-w1.svm}} --ngrams word:1-1",
    "imdb-characters.svm": f"tools/make_texts.py imdb-characters {IMDB} {{imdb-characters.svm}}",
    "news-words.svm": f"tools/make_texts.py news-words {NEWS} {{news-words.svm}}",
    "news-mideast.svm": f"tools/make_texts.py news-words {NEWS} {{news-mideast.svm}} --group talk.politics.mideast",
    "news-characters.svm": f"tools/make_texts.py news-characters {NEWS} {{news-characters.svm}}",
    "enron.svm": f"tools/make_texts.py enron {ENRON} {{enron.svm}}",
    "enron-w12.svm": f"{WORDS} {{enron-w12.svm}}",
    "enron-names.svm": f"{WORDS} {{enron-names.svm}} --order names",
    "enron-shuffled.svm": f"{WORDS} {{enron-shuffled.svm}} --seed 1",
    "zipf.svm": "tools/make_zipf.py {zipf.svm}",
    "clicks.svm": "tools/make_clicks.py {clicks.svm}",
    "short.svm": "tools/make_zipf.py {short.svm} --rows 800000 --features 100000 --mean-nonzeros 8 --noise 0.05",
    "short-noisy.svm":
        "tools/make_zipf.py {short-noisy.svm} --rows 40000 --features 20000 --mean-nonzeros 8 --noise 0.2",
    "zipf-other.svm": "tools/make_zipf.py {zipf-other.svm} --rows 600000 --seed 7 --mean-nonzeros 40",
    "clicks-other.svm": "tools/make_clicks.py {clicks-other.svm} --rows 1000000 --seed 7",
    "clicks-drift.svm": "tools/make_clicks.py {clicks-drift.svm} --rows 1000000 --drift 1",
    "news20.svm news20.t.svm": f"tools/make_topics.py news {NEWS} {{news20.svm}} {{news20.t.svm}}",
    "news20-3.svm news20-3.t.svm":
        f"tools/make_topics.py news {NEWS} {{news20-3.svm}} {{news20-3.t.svm}} --ngrams 1-3",
    "reuters.svm reuters.t.svm": "tools/make_topics.py reuters {reuters21578.tar.xz} {reuters.svm} {reuters.t.svm}",
    **{f"corpora/{name}.svm": f"tools/make_corpora.py {name} {source} {{@corpora}}/{name}" for name, source in {
        "books": PRODUCTS, "dvd": PRODUCTS, "ob-2-1": NEWS, "sb-2-1": NEWS, "ob-8-1": NEWS, "sb-8-1": NEWS,
        "ob-2-2": NEWS, "ob-2-3": NEWS, "sb-2-2": NEWS, "sb-2-3": NEWS, "reut20": "{reuters21578.tar.xz}"}.items()},
    "corpora/reviews-books.svm corpora/reviews-dvd.svm":
        f"tools/make_corpora.py books-dvd {PRODUCTS} {{@corpora}}/reviews",
    "corpora/20news-train.svm corpora/20news-test.svm": f"tools/make_corpora.py 20news {NEWS} {{@corpora}}/20news --l2",
    **{f"{name}.h5": f"blocksvm.split {{{text}}} {{{name}.h5}} --overwrite --quiet" for name, text in {
        "a9a": "a9a", "splice": "splice.txt", "phishing": "phishing.txt", "short-noisy": "short-noisy.svm",
        "abalone": "abalone_8d_train.libsvm", "dna": "dna.scale",
        "imdb-w1": "imdb-w1.svm", "imdb-words": "imdb-words.svm", "zipf": "zipf.svm",
        "enron": "enron.svm", "news-words": "news-words.svm", "clicks": "clicks.svm",
        **{name: f"{name}.svm" for name in ("imdb-characters", "news-characters", "enron-w12", "zipf-other",
                                            "clicks-other", "short")}}.items()},
    **{f"{name}-train.h5 {name}-test.h5":
           f"blocksvm.split {texts} {{{name}-train.h5}} --holdout {share} {{{name}-test.h5}} --overwrite --quiet"
       for name, texts, share in (
           ("books", "{corpora/books.svm}", 0.2), ("a9a", "{a9a} {a9a.t}", 0.2), ("splice", "{splice.txt}", 0.2),
           ("phishing", "{phishing.txt}", 0.2), ("short-noisy", "{short-noisy.svm}", 0.2),
           ("enron", "{enron.svm}", 0.1), ("news-words", "{news-words.svm}", 0.1),
           ("imdb-words", "{imdb-words.svm}", 0.1), ("imdb-characters", "{imdb-characters.svm}", 0.1))},
    "big.h5": f"{BIG} {{big.h5}} --rows 56000000",
    **{f"scale-{size}.h5": f"{BIG} {{scale-{size}.h5}} --rows {16_000 * size}" for size in (10, 30, 100, 300, 750)},
    "small.h5": f"{BIG} {{small.h5}} --rows 1120000",
}  # fmt: skip
MAKERS = {file: files for files in MADE for file in files.split()}
UNPACK = {".xz": "xz -dc", ".gz": "gzip -dc", ".bz2": "bzip2 -dc"}


def comparison(
    text: str, *solvers: str, test: str = "", data: str = "", objective: str = "", repeats: int = 3, limit: int = 12
) -> str:
    """A run of benchopt, of which experiments.curves makes tables; limit: seconds of a repetition of a program, after
    which it begins no other level."""
    given = f"text={{{text}}}" + (f",test={{{test}}}" if test else "") + (f",{data}" if data else "")
    chosen = " ".join(f'-s "{solver}"' for solver in solvers)
    return (f"benchopt run experiments/benchopt -d 'svmlight[{given}]' -o 'linear[{objective}]' {chosen} "
            f"-r {repeats} --timeout {limit} --no-plot --no-cache -n 10 --output {{@tables}}/%(name)s.parquet; "
            "experiments.curves {@tables}/%(name)s.parquet --figure {@tables}/%(name)s.png")  # fmt: skip


LONG = {"limit": 60, "repeats": 1}  # where one level takes a peer many seconds
PEERS = ("liblinear", "LinearSVC", "SGDClassifier", "snapml[n_jobs=[1,2]]", "vowpal-wabbit")
SHARES = "blocksvm[memory=['1/8','1/32',all]]"
TEXTS = ("enron", "news-words", "news-characters", "imdb-characters", "imdb-words", "zipf", "clicks")
STREAMS = ("enron-names", "enron-shuffled", "imdb-w1", "imdb-words", "news-mideast", "news-words", "clicks-drift",
           "zipf")  # fmt: skip
SETS = ("books", "dvd", "ob-2-1", "sb-2-1", "ob-2-2", "ob-2-3", "sb-2-2", "sb-2-3")
HELD_OUT = ("books", "a9a", "news-words", "enron", "imdb-words")
OTHER = ("splice", "phishing", "short-noisy")  # dense rows; short ones with noisy labels
CORPORA = " ".join(f"{{corpora/{name}.svm}}" for name in SETS)
MANY = " ".join(f"{{corpora/{name}.svm}}" for name in ("ob-8-1", "sb-8-1", "reut20"))
BOTH = "blocksvm[memory=['1/8',all]]"
# a page of experiments/results: {what: commands}, with semicolons between them
MEASURED = {
    "working-set": {
        name: comparison(f"{name}.svm", SHARES, "blocksvm[working_set=none]", "liblinear",
                         **LONG if name in ("zipf", "clicks") else {})
        for name in (*TEXTS, "enron-w12", "news-mideast", "zipf-other", "clicks-other")},
    "zipf": {"": comparison("zipf.svm", "blocksvm[memory='139MB',cold=True]", *PEERS, **LONG)},
    "imdb": {"": comparison("imdb-train.svm", "blocksvm[memory='33MB',cold=True]", *PEERS, test="imdb-test.svm")},
    "imdb-all": {"": comparison("imdb-words.svm", "blocksvm[memory='64MB',cold=True]", *PEERS)},
    "roofline": {name: f"experiments.roofline {{{name}.h5}} {{{name}.svm}}" for name in ("zipf", "imdb-words")},
    "convergence": {
        **{name: f"experiments.convergence {{{name}-train.h5}},{{{name}-test.h5}} --most {most}"
           for name, most in zip(HELD_OUT, (200, 200, 60, 60, 60), strict=True)},
        **{name: f"experiments.convergence {{{name}-train.h5}},{{{name}-test.h5}} --most 40 --only "
                 "numbers,passes,baselines" for name in OTHER}},
    "distance": {"": "experiments.distance " + " ".join(
        f"{{{name}-train.h5}},{{{name}-test.h5}}" for name in (*HELD_OUT[2:], "imdb-characters")
    ) + " --figure {@tables}/distance.png"},
    "lbfgs": {**{name: f"experiments.lbfgs {{{name}.h5}}" for name in ("news-words", "enron", "clicks")},
              **{name: f"experiments.lbfgs {{{name}.h5}} -C 1,100" for name in ("a9a", *OTHER)}},
    "cluster": {name: "experiments.cluster {news-words.h5} {enron.h5} {imdb-characters.h5} {zipf-other.h5} "
                      f"{{clicks-other.h5}} {{short.h5}} {options}"
                for name, options in (("hinge", "--seeds 0,1,2"), ("squared", "--loss squared-hinge"),
                                      ("large", "-C 10"), ("logistic", "--loss logistic"),
                                      ("commands", "{zipf.h5} --commands 3"))},
    "threads": {"": f"experiments.threads {' '.join(f'{{{name}.h5}}' for name in TEXTS)}"},
    "schedules": {name: f"experiments.schedules {{{name}.h5}} --figure {{@tables}}/schedules-{name}.png"
                  for name in ("enron", "imdb-words")},
    "codecs": {"": "experiments.codecs {zipf.h5} {imdb-words.h5}"},
    "commands": {name: f"experiments.start_up {{{name}.svm}}" for name in ("zipf", "imdb-words")},
    "streams": {"": "experiments.learners zipf={zipf.svm} --learners 'pa1 -C 0.1;ogd;arow;adagrad-fobos' --repeats 7 "
                    "--peers vw --vw-options='--loss_function hinge --noconstant'"},
    "learners": {name: f"experiments.learners {name}={{{name}.svm}}" for name in STREAMS},
    "regimes": {"": "experiments.regimes imdb={imdb-train.svm},{imdb-test.svm} "
                    "20news={corpora/20news-train.svm},{corpora/20news-test.svm}",
                **{what: f"experiments.new_data {what} a9a={{a9a}},{{a9a.t}},0.1 "
                         "imdb={imdb-train.svm},{imdb-test.svm}" for what in ("redundant", "grown")},
                "drift": "experiments.new_data drift clicks-drift={clicks-drift.svm} clicks-other={clicks-other.svm} "
                         "enron-names={enron-names.svm}"},
    "transfer": {"": "experiments.transfer {corpora/reviews-books.svm} {corpora/reviews-dvd.svm}",
                 **{name: f"experiments.transfer {{{text}}} --by {feature} --draws 10" for name, text, feature in
                    (("a9a", "a9a", 72), ("mushrooms", "mushrooms.txt", 3), ("phishing", "phishing.txt", 36))},
                 "unrelated": "experiments.transfer {mushrooms.txt} {phishing.txt} --draws 10"},
    "many-classes": {
        **{f"{name}-{loss}": comparison(f"{name}.svm", BOTH, "liblinear", "LinearSVC",
                                        test=f"{name}.t.svm", objective=f"loss={loss}",
                                        **LONG if name == "news20-3" else {})
           for name in ("news20-3", "news20") for loss in ("hinge", "crammer-singer")},
        "reuters": comparison("reuters.svm", BOTH, "liblinear", "LinearSVC",
                              test="reuters.t.svm", data="multilabel=True"),
        "dna": comparison("dna.scale", BOTH, "liblinear", "LinearSVC", test="dna.scale.t"),
    },
    "mira": {"": "experiments.mira dna={dna.scale}:{dna.scale.t}",
             "noise": "experiments.mira dna={dna.scale}:{dna.scale.t} --built-in digits,wine,cancer "
                      "--noise 0,0.1,0.3 --learners-only"},
    "multiclass-online": {"news20": "experiments.multiclass_online {news20.svm} {news20.t.svm}",
                          "reuters": "experiments.multiclass_online {reuters.svm} {reuters.t.svm} --sets"},
    "regression": {loss: comparison("stars-train.svm", BOTH, "liblinear", test="stars-test.svm",
                                    objective=f"loss={loss},bias=1")
                   for loss in ("epsilon-insensitive", "squared-epsilon-insensitive")},
    "kernel": {"": "experiments.kernel a9a={a9a}:1:0.0081 phishing={phishing.txt}:1:0.1 "
                   "mushrooms={mushrooms.txt}:1:0.01 --repeats 1"},
    "kernel-online": {"": "experiments.kernel_online svmguide1={svmguide1.txt}:20 a9a={a9a}:{a9a.t}:0.05"},
    "free-bias": {name: comparison(text, BOTH, "libsvm", objective=f"bias=free,C={C}", repeats=1, limit=120)
                  for name, text, C in (("a9a", "a9a", 0.1), ("phishing", "phishing.txt", 1))},
    "cross-validation": {"": "experiments.cross_validation {imdb-words.svm}",
                         "groups-news-words": "experiments.fold_groups {news-words.h5}",
                         "groups-enron": "experiments.fold_groups {enron.h5} "
                                         "--costs 0.001,0.002,0.005,0.01,0.02,0.05,0.1,0.3,1"},
    "incremental": {f"{data}-{tol}": f"experiments.incremental {{{text}}} --tol {tol}" for tol in ("1e-3", "1e-5")
                    for data, text in (("imdb-words", "imdb-words.svm"), ("a9a", "a9a"))},
    "estimators": {name: comparison(f"{name}.svm", "blocksvm-estimator", "LinearSVC",
                                    objective="loss=squared-hinge,bias=1")
                   for name in ("news-mideast", "imdb-w1", "enron-w12")},
    "documents": {"": "experiments.documents {imdb.tsv} --table {criteo2014_train.tiny.csv} --label Label "
                      "--categorical 'C*' --ignore Id"},
    "active": {"": "experiments.active a9a={a9a},0.1 imdb-w1={imdb-w1.svm},1 enron={enron.svm},1 "
                   "--figure {@tables}/active.png",
               "other": "experiments.active phishing={phishing.txt},1 mushrooms={mushrooms.txt},1 "
                        "short-noisy={short-noisy.svm},1 --seeds 3"},
    "regret": {"": "experiments.regret a9a={a9a.h5} imdb-w1={imdb-w1.h5} --numbers abalone={abalone.h5} "
                   "--classes dna={dna.h5} --figure {@tables}/regret.png"},
    "structured": {"chunks": "experiments.structured --chunks {conll2000.zip}",
                   "trees": "experiments.structured --trees {dependency_treebank.zip}"},
    "hf-fobos": {"": f"experiments.hf_fobos {CORPORA} --methods 'p = 2,FOBOS' --figure {{@tables}}/hf-fobos-h.png",
                 "many-classes": f"experiments.hf_fobos {MANY} --methods 'p = 2,FOBOS'",
                 "other": "experiments.hf_fobos {splice.txt} {phishing.txt} {a9a} --methods 'p = 2,FOBOS' "
                          "--inputs counts",
                 "frequency": f"experiments.frequency {{@corpora}} --figure {{@tables}}/frequency.png # {CORPORA}"},
    "cloud": {"": "experiments.cloud {zipf.h5} {enron.h5} {news-words.h5} {clicks.h5}",
              "networks": "experiments.cloud {zipf.h5} --latency 20 --latency 50 --latency 200 --rate 50 --rate 200 "
              "--rate 500 --repeats 1",
              "unseen": "experiments.cloud {enron-w12.h5} {zipf-other.h5} {clicks-other.h5} {short.h5}",
              "larger": "experiments.cloud {scale-750.h5} --memory 1000000000 -C 0.02 --repeats 1"},
    "scale": {"": "experiments.scale {scale-10.h5} {scale-30.h5} {scale-100.h5} {scale-300.h5} {big.h5}"},
    "larger-than-memory": {"": "experiments.larger {big.h5} {small.h5}"},
}  # fmt: skip


def files_of(command: str) -> list[str]:
    """The files that a command names."""
    return re.findall(r"\{([^}@][^}]*)\}", command)


def packed(name: str) -> Path | None:
    """A source that is there only compressed."""
    found = {path.suffix: path for path in SOURCES.rglob(f"{name}.*") if path.suffix in UNPACK and path.stem == name}
    return None if name in MAKERS or next(SOURCES.rglob(name), None) else next(iter(found.values()), None)


def path_of(name: str) -> Path:
    """Where a file lies: one that is made or unpacked, or a source."""
    return FOLDER / name if name in MAKERS or packed(name) else next(SOURCES.rglob(name), SOURCES / name)


def line_of(command: str) -> str:
    """The command as the shell runs it: with the interpreter, and the paths of files."""
    program, _, arguments = command.strip().partition(" ")
    start = f"{sys.executable} {ROOT / program}" if program.startswith("tools/") else f"{sys.executable} -m {program}"
    paths = re.sub(r"\{([^}@][^}]*)\}", lambda name: str(path_of(name[1])), arguments)
    folders = re.sub(r"\{@([^}]*)\}", lambda name: str(FOLDER / name[1]), paths)
    return f"cd {ROOT} && PYTHONPATH={ROOT} {start} {folders}"


def task_data():
    """Files that measurements read."""
    commands = [*MADE.values(), *(one for parts in MEASURED.values() for one in parts.values())]
    for name in sorted({name for command in commands for name in files_of(command)}):
        if source := packed(name):
            line = f"{UNPACK[source.suffix]} {source} > {path_of(name)}"
            yield {"name": name, "targets": [path_of(name)], "file_dep": [source], "actions": [line]}
    for files, command in MADE.items():
        paths = [path_of(name) for name in files.split()]
        needs = [path_of(name) for name in files_of(command) if name not in files.split()]
        folders = " ".join(sorted({str(path.parent) for path in paths}))
        yield {
            "name": files.split()[0], "targets": paths, "file_dep": needs,
            "actions": [f"mkdir -p {folders}", line_of(command)],
            "uptodate": [True],  # what needs no file is not made again, either
        }  # fmt: skip


def measurement(page: str, what: str, commands: str) -> dict:
    """A task: its tables go to PAGE-WHAT.md, and as JSON where the last command is a script of experiments.

    An earlier result of benchopt is deleted first: benchopt would write beside it."""
    name = f"{page}-{what}".strip("-")
    *before, last = [line_of(one) for one in commands.replace("%(name)s", name).split("; ")]
    keep = f" --json {TABLES / name}.json" if "-m experiments." in last else ""
    scripts = re.findall(r"experiments\.(\w+)", commands)
    code = ["blocksvm/**/*.py", *(f"experiments/{script}.py" for script in scripts)]
    code += ["experiments/benchopt/**/*.py"] if before else []
    return {
        "basename": page, "name": what or "all", "targets": [TABLES / f"{name}.md"],
        "file_dep": [*map(path_of, files_of(commands)), *(file for one in code for file in sorted(ROOT.glob(one)))],
        "actions": [f"mkdir -p {TABLES}", f"rm -f {TABLES / name}.parquet", *before,
                    f"{last.partition(' # ')[0]}{keep} > {TABLES / name}.md", f"echo the table: {TABLES / name}.md"],
    }  # fmt: skip


def task_measurements():
    """A task a page of experiments/results, and in it one for each of its parts."""
    for page, parts in MEASURED.items():
        yield {"basename": page, "name": None, "doc": f"what experiments/results/{page}.md shows"}
        for what, commands in parts.items():
            yield measurement(page, what, commands)


def task_provenance():
    """The last lines of the pages of results: their data, with commits and days."""
    return {"actions": [line_of("experiments.provenance")]}


def task_stale():
    """What has changed since the data of each page were measured."""
    return {"actions": [line_of("experiments.provenance --stale")]}


def task_figures():
    """The tables of README.md and docs/measurements.md, from experiments/results/data."""
    return {"actions": [line_of("experiments.figures")]}
