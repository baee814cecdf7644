"""All experiments, and how their data are made: what ``python -m experiments`` lists and ``tools/bench --experiments`` runs.

In a command a name in braces is a file: one of ``MADE`` (with the command that makes it), or one of ``SOURCES``, which a
user brings (compressed or not).  {@NAME} is a folder of the run's own; {@tables} is where its tables go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# public corpora and LIBSVM's data sets, by the names that they are usually given
SOURCES = {
    "aclImdb.tar.gz": "IMDB reviews (Maas et al., 2011)",
    "20news-bydate.tar.gz": "20 Newsgroups by date",
    "reuters21578.tar.xz": "Reuters-21578, the SGML files",
    "enron-spam.tar.xz": "Enron-Spam 1-6 (Metsis et al., 2006), raw",
    "amazon_processed_acl_books_dvd.tar.xz": "product reviews, processed_acl (Blitzer et al., 2007), books and dvd",
    "conll2000.zip": "the chunks of CoNLL-2000",
    "dependency_treebank.zip": "the sample of a dependency treebank that NLTK has",
    "criteo2014_train.tiny.csv": "some rows of Criteo's click logs of 2014, with a header",
    "a9a": "LIBSVM's a9a", "a9a.t": "its test rows", "phishing.txt": "LIBSVM's phishing",
    "mushrooms.txt": "LIBSVM's mushrooms", "svmguide1.txt": "LIBSVM's svmguide1", "dna.scale": "LIBSVM's dna",
    "dna.scale.t": "its test rows",
}  # fmt: skip


@dataclass(frozen=True)
class Made:
    """Files, by their names, and the command that makes them."""

    files: tuple[str, ...]
    command: str


IMDB, NEWS, ENRON = "{aclImdb.tar.gz}", "{20news-bydate.tar.gz}", "{enron-spam.tar.xz}"
WORDS_1_2 = f"tools/make_texts.py enron {ENRON} --ngrams word:1-2"
BIG = "tools/make_store.py --features 20000000"
MADE = tuple(
    Made(tuple(files.split()), command)
    for files, command in (
        ("imdb-train.svm imdb-test.svm imdb-words.svm imdb.tsv",
         f"tools/make_imdb.py {IMDB} {{imdb-train.svm}} {{imdb-test.svm}} --both {{imdb-words.svm}} --documents {{imdb.tsv}}"),
        ("stars-train.svm stars-test.svm",
         f"tools/make_imdb.py {IMDB} {{stars-train.svm}} {{stars-test.svm}} --ratings"),
        ("imdb-w1.svm", f"tools/make_texts.py imdb-characters {IMDB} {{imdb-w1.svm}} --ngrams word:1-1"),
        ("imdb-characters.svm", f"tools/make_texts.py imdb-characters {IMDB} {{imdb-characters.svm}}"),
        ("news-words.svm", f"tools/make_texts.py news-words {NEWS} {{news-words.svm}}"),
        ("news-mideast.svm",
         f"tools/make_texts.py news-words {NEWS} {{news-mideast.svm}} --group talk.politics.mideast"),
        ("news-characters.svm", f"tools/make_texts.py news-characters {NEWS} {{news-characters.svm}}"),
        ("enron.svm", f"tools/make_texts.py enron {ENRON} {{enron.svm}}"),
        ("enron-w12.svm", f"{WORDS_1_2} {{enron-w12.svm}}"),
        ("enron-names.svm", f"{WORDS_1_2} {{enron-names.svm}} --order names"),
        ("enron-shuffled.svm", f"{WORDS_1_2} {{enron-shuffled.svm}} --seed 1"),
        ("zipf.svm", "tools/make_zipf.py {zipf.svm}"),
        ("zipf.vw", "experiments.prepare {zipf.svm} {@prepared-zipf} --vw {zipf.vw}"),
        ("clicks.svm", "tools/make_clicks.py {clicks.svm}"),
        ("clicks-drift.svm", "tools/make_clicks.py {clicks-drift.svm} --rows 1000000 --drift 1"),
        ("news20.svm news20.t.svm", f"tools/make_topics.py news {NEWS} {{news20.svm}} {{news20.t.svm}}"),
        ("news20-3.svm news20-3.t.svm",
         f"tools/make_topics.py news {NEWS} {{news20-3.svm}} {{news20-3.t.svm}} --ngrams 1-3"),
        ("reuters.svm reuters.t.svm",
         "tools/make_topics.py reuters {reuters21578.tar.xz} {reuters.svm} {reuters.t.svm}"),
        *((f"corpora/{name}.svm",
           f"tools/make_corpora.py {name} {{amazon_processed_acl_books_dvd.tar.xz}} {{@corpora}}/{name}")
          for name in ("books", "dvd")),
        *((f"corpora/{name}.svm", f"tools/make_corpora.py {name} {NEWS} {{@corpora}}/{name}")
          for name in ("ob-2-1", "sb-2-1", "ob-8-1", "sb-8-1")),
        ("corpora/reut20.svm", "tools/make_corpora.py reut20 {reuters21578.tar.xz} {@corpora}/reut20"),
        ("corpora/20news-train.svm corpora/20news-test.svm",
         f"tools/make_corpora.py 20news {NEWS} {{@corpora}}/20news --l2"),
        *((f"{name}.h5", f"blocksvm.split {{{text}}} {{{name}.h5}} --overwrite --quiet")
          for name, text in (("a9a", "a9a"), ("imdb-w1", "imdb-w1.svm"), ("imdb-words", "imdb-words.svm"),
                             ("zipf", "zipf.svm"))),
        ("big.h5", f"{BIG} {{big.h5}} --rows 56000000"),
        ("small.h5", f"{BIG} {{small.h5}} --rows 1120000"),
    )
)  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """name; shows: what; pieces: its commands, each of which may be run by itself; results: the files of
    experiments/results that hold what it found; needs: files that its commands do not name; large: run where it is asked
    for by name alone."""

    name: str
    shows: str
    pieces: tuple[str, ...]
    results: tuple[str, ...]
    needs: tuple[str, ...] = ()
    large: bool = False


SEVEN = ("enron", "news-words", "news-characters", "imdb-characters", "imdb-words", "zipf", "clicks")
STREAMS = (
    "enron-names",
    "enron-shuffled",
    "imdb-w1",
    "imdb-words",
    "news-mideast",
    "news-words",
    "clicks-drift",
    "zipf",
)
CORPORA = ("books", "dvd", "ob-2-1", "sb-2-1", "ob-8-1", "sb-8-1", "reut20")
REPLAYED = (
    "ogd --decay constant --step 0.01", "omd --mirror entropic --radius 20 --step 0.005",
    "omd --mirror p-norm --p 5 --step 0.01", "pegasos --lambda 1e-3", "pegasos --lambda 1e-3 --unprojected",
    "pegasos --lambda 1e-3 --loss logistic", "fobos --l1 1e-4 --step 0.3", "fobos --l1 1e-4 --step 0.3 --half-steps next",
    "hf-fobos --l1 1e-3 --p 3 --step 0.3", "adagrad-fobos --l1 1e-4 --step 0.1", "adagrad-rda --l1 1e-4 --step 0.1",
)  # fmt: skip
BENCH = "experiments.bench --folder {@bench} --results {@tables} --data"
STORES = ("zipf", "imdb-words")

EXPERIMENTS = (
    Experiment("working-set", "the seven data sets: seconds to a certified gap beside LIBLINEAR, with the working set and without",
               tuple(f"experiments.working_set {name}={{{name}.svm}} --folder {{@working-set}}" for name in SEVEN), ("working-set.md",)),
    Experiment("sizing", "what decides how long a run takes: disk, memory, working set, passes, how rows are chosen, chunks",
               tuple(f"experiments.sizing {name}={{{name}.svm}} --folder {{@working-set}}" for name in ("enron", "imdb-words", "zipf")), ("working-set.md",)),
    Experiment("bench", "every solver at every level on zipf data and IMDB, with what bounds a run, and an iteration taken apart",
               (f"{BENCH} zipf --tables iteration --roofline", f"{BENCH} imdb={IMDB} --tables iteration --roofline", f"{BENCH} text={{imdb-words.svm}} --roofline"),
               ("zipf.md", "zipf-xeon.md", "imdb.md", "imdb-xeon.md", "imdb-all.md", "imdb-all-xeon.md", "roofline-zipf.md", "roofline-imdb.md", "iteration-zipf.md", "iteration-imdb.md")),
    Experiment("convergence", "the gap by bytes read: blocks redrawn or fixed beside a full shuffle in memory",
               tuple(f"experiments.convergence {{{name}.h5}}" for name in STORES), ("convergence-zipf.md", "convergence-imdb.md")),
    Experiment("schedules", "inner passes by auto and overlap beside fixed numbers of them, at a slow disk",
               ("experiments.schedules {imdb-words.h5} --memory 64000000",), ("schedules-imdb.md",)),
    Experiment("codecs", "bytes a nonzero and decoding rate of the codecs that a store could have",
               tuple(f"experiments.codecs {{{name}.h5}}" for name in STORES), ("codecs.md",)),
    Experiment("commands", "splitting by jobs and memory, and how long a command takes to start up",
               ("experiments.commands {zipf.svm}", "experiments.commands {imdb-words.svm}"), ("commands.md",)),
    Experiment("first-use", "the first split, train and predict, with an empty cache of kernels", ("experiments.first_use {a9a}",), ("commands.md",)),
    Experiment("streams", "learning from text in one pass beside Vowpal Wabbit", ("experiments.streams {zipf.svm} {zipf.vw} --repeats 7",), ("streams.md",)),
    Experiment("learners", "every online learner on every stream: mistakes, seconds, memory, beside Vowpal Wabbit and scikit-learn",
               tuple(f"experiments.learners {name}={{{name}.svm}} --folder {{@learners}}" for name in STREAMS), ("learners.md",)),
    Experiment("regimes", "batch, online and stream on the same rows: passes, seconds, memory, accuracy",
               ("experiments.regimes imdb={imdb-train.svm},{imdb-test.svm} --results {@tables}",
                "experiments.regimes 20news={corpora/20news-train.svm},{corpora/20news-test.svm} --results {@tables}"), ("regimes.md",)),
    Experiment("many-classes", "many classes beside LIBLINEAR and scikit-learn, to a certified gap in each",
               (*(f"experiments.many_classes {{{name}.svm}} {{{name}.t.svm}} --folder {{@many-classes}}" for name in ("news20-3", "news20")),
                "experiments.many_classes {reuters.svm} {reuters.t.svm} --sets --folder {@many-classes}",
                "experiments.many_classes {dna.scale} {dna.scale.t} --folder {@many-classes}"), ("many-classes.md",)),
    Experiment("multiclass-online", "one pass of the online learners over many classes and over sets of labels",
               ("experiments.multiclass_online {news20.svm} {news20.t.svm} {reuters.svm} {reuters.t.svm}",), ("multiclass-online.md",)),
    Experiment("regression", "support vector regression beside LIBLINEAR",
               ("experiments.regression {stars-train.svm} {stars-test.svm} --folder {@regression}",), ("regression.md",)),
    Experiment("kernel", "the machine with a kernel beside libsvm",
               ("experiments.kernel a9a={a9a}:1:0.0081 --repeats 1", "experiments.kernel phishing={phishing.txt}:1:0.1 --repeats 1",
                "experiments.kernel mushrooms={mushrooms.txt}:1:0.01 --repeats 1"), ("kernel.md",)),
    Experiment("kernel-online", "online learners with a kernel and a budget, beside libsvm",
               ("experiments.kernel_online svmguide1={svmguide1.txt}:20 a9a={a9a}:{a9a.t}:0.05",), ("kernel-online.md",)),
    Experiment("free-bias", "a bias that is not regularised beside libsvm's linear kernel",
               ("experiments.free_bias a9a={a9a}:0.1 phishing={phishing.txt}:1 --rows 12000 --repeats 1",), ("free-bias.md",)),
    Experiment("cross-validation", "cross-validation beside separate runs and scikit-learn's grid search",
               ("experiments.cross_validation {imdb-words.svm} --peers separate,commands,grid_search --folder {@cross-validation}",), ("cross-validation.md",)),
    Experiment("incremental", "training again after rows were added or left out, from the earlier model and from nothing",
               tuple(f"experiments.incremental {{{data}}} --tol {tol} --folder {{@incremental}}" for data in ("imdb-words.svm", "a9a") for tol in ("1e-3", "1e-5")),
               ("incremental.md",)),
    Experiment("estimators", "LinearSVC beside scikit-learn's, in memory",
               ("experiments.estimators news-mideast={news-mideast.svm} imdb-w1={imdb-w1.svm} enron-w12={enron-w12.svm}",), ("estimators.md",)),
    Experiment("documents", "documents to n-grams and tables to features, beside scikit-learn",
               ("experiments.documents {imdb.tsv} --table {criteo2014_train.tiny.csv} --label Label --categorical C* --ignore Id",), ("documents.md",)),
    Experiment("active", "accuracy against the number of labels asked for",
               ("experiments.active a9a={a9a.h5} -C 0.1", "experiments.active imdb-w1={imdb-w1.h5} -C 1"), ("active.md",)),
    Experiment("regret", "regret of learners beside the published bounds",
               tuple(f"blocksvm.regret {{{name}.h5}} --learner {learner} --order shuffled --quiet" for name in ("a9a", "imdb-w1") for learner in REPLAYED), ("regret.md",)),
    Experiment("structured", "chunks, dependency trees and words of lines: quality, seconds, memory",
               ("experiments.structured --chunks {conll2000.zip}", "experiments.structured --trees {dependency_treebank.zip}"), ("structured.md",)),
    Experiment("hf-fobos", "HF-FOBOS against FOBOS as in its paper: accuracy by folds, zero weights, heights",
               ("experiments.hf_fobos {@corpora} --out {@tables}",), ("hf-fobos.md",), needs=tuple(f"corpora/{name}.svm" for name in CORPORA)),
    Experiment("larger", "a store larger than memory, within its budget, beside a smaller one", ("experiments.larger {big.h5} {small.h5}",),
               ("larger-than-memory.md",), large=True),
)  # fmt: skip

BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}
MAKERS = {file: made for made in MADE for file in made.files}


def files_of(command: str) -> list[str]:
    """The files that a command names, in its order."""
    return [name for name in re.findall(r"\{([^}@][^}]*)\}", command)]


def sources_of(files) -> list[str]:
    """What a user has to bring for these files."""
    found: dict[str, None] = {}
    for name in files:
        made = MAKERS.get(name)
        more = [name] if made is None else sources_of(file for file in files_of(made.command) if file not in made.files)
        found |= dict.fromkeys(more)
    return list(found)
