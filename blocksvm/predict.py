"""blocksvm predict: labels or decision values of text or a store under a model."""

import sys
from contextlib import nullcontext
from functools import partial

from blocksvm.base.errors import InputError, option
from blocksvm.base.memory import MEMORY
from blocksvm.base.settings import Setting
from blocksvm.cli import options as cli
from blocksvm.cli.console import Parser, is_closed, run
from blocksvm.cli.outputs import emit_json, outputs_of, print_results
from blocksvm.conversion import SKIP_BAD
from blocksvm.files.paths import location
from blocksvm.formats.choices import PREDICTED, all_choices

LABELS_SHOWN = 10
WRITTEN = (
    Setting("scores", "write decision values instead of labels, one a class", False, bool),
    Setting("probabilities", "write the probability of each label, in rising order of the labels (for models of the "
            "logistic loss and calibrated ones)", False, bool),
    Setting("explain", "write the N features that contribute most to each decision value, as name:contribution, and "
            "the bias", None, int, least=1),
)  # fmt: skip
BESIDE = (
    Setting("keep", "columns, or keys of JSON lines, to write beside the scores, e.g. id,url, or * for all", None, str,
            metavar="COLUMNS"),
    Setting("top", "write the K likeliest labels of each row (default 1)", 1, int, least=1, metavar="K"),
    Setting("score_of", "write score and probability of this label, whichever is predicted", None, str,
            metavar="LABEL"),
    Setting("select", "write only rows that fulfil a condition, e.g. 'label == spam and probability >= 0.9'", None, str,
            metavar="CONDITION"),
)  # fmt: skip
LOSS = Setting("loss", "for probabilities by a loss outside the package: its location, whose code may then run", None,
               cli.name_of_code, metavar="LOSS")  # fmt: skip
EPILOG = """Where the rows have labels, accuracy and other measures are printed.
Without OUTPUT predictions go to standard output and measures to standard error.

examples:
  blocksvm predict model.h5 new.svm predictions.txt
  blocksvm predict model.h5 test.h5 p.txt --probabilities
  blocksvm predict model.h5 new.svm --scores > scores.txt
  blocksvm predict model.h5 new.svm --explain 5
  blocksvm predict model.h5 corpus/*.parquet good/ --text text --keep id,url --select 'probability >= 0.9'
"""


def parser() -> Parser:
    p = Parser("predict", "Predict the labels of text, plain or compressed, or of a store.", EPILOG)
    p.add_argument("model", metavar="MODEL.h5", help="a model of train, stream or import")
    cli.add_inputs(p, "the predictions, a line for each row")
    p.add("the input", cli.FORMAT_OF_MODEL, SKIP_BAD)
    p.add("where the input is written otherwise than the training data", *all_choices().only(PREDICTED), defaults=False)
    p.add("what to write", *WRITTEN, cli.json_of("the measures"), cli.OVERWRITE)
    p.add("what to write where OUTPUT is a folder, in a file of its kind for each input", *BESIDE)
    p.add("the model", LOSS)
    p.add("the machine", MEMORY, cli.THREADS)
    p.add("a cluster, whose workers score a store", *cli.CLUSTER)
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if options.scores and options.probabilities:
        raise InputError("--scores and --probabilities: are written one at a time; leave one of them out")
    from blocksvm.base.labels import listed
    from blocksvm.cli.texts import Line, megabytes
    from blocksvm.files.output import written_text
    from blocksvm.model.decision_values import number_lines, prediction_lines
    from blocksvm.model.model_file import describe_model
    from blocksvm.model.probabilities import known_link, link_of

    description = describe_model(options.model)
    if options.loss not in (None, trained_loss := description.method.loss):
        raise InputError(f"{option('loss', options.loss)}: {options.model} has the loss {trained_loss}; leave it out")
    link = link_of(description, options.model) if options.probabilities else known_link(description)
    cli.take_inputs(options)
    into_folder = options.output is not None and (options.output.endswith("/") or location(options.output).is_dir())
    check_beside(options, into_folder)
    if into_folder:
        return write_beside(options, description, link)
    outputs = outputs_of(options, [options.model, *options.inputs], {"predictions": options.output})
    output = outputs.get("predictions")
    if output is None and options.json == "-":
        raise InputError("--json goes to standard output, where the predictions go; name an OUTPUT for these")
    if output is None and is_closed(sys.stdout):
        raise InputError("standard output is closed; name an OUTPUT for the predictions")
    from blocksvm.model.measures import measures_of
    from blocksvm.model.scoring import StoreScorer, scorer_of

    settings, labels = cli.chosen_values(options, all_choices().only(PREDICTED)), description.labels
    cluster, threads = cluster_and_threads(options)
    by_values = options.scores or len(labels) in (0, 2) or description.multilabel or link is not None
    more = {"with_values": by_values, "explain": options.explain}
    scorer = scorer_of(options.model, options.inputs, options.memory, options.format, settings, n_jobs=threads,
                       skip_bad=options.skip_bad, **more)  # fmt: skip
    if cluster is None:
        pieces = scorer.scores()
    elif not isinstance(scorer, StoreScorer):
        raise InputError("--cluster: its workers score a store, or files into a folder; give one, as scores/")
    else:
        from blocksvm.cluster.loop import scoring_by

        pieces = scorer.scores(partial(scoring_by, cluster, scorer, options.model, more))
    measures = measures_of(scorer.model, link, scorer.budget)
    used, total = (megabytes(n) for n in (sum(scorer.budget.used.values()), options.memory))
    print(f"{options.model}: {description.n_features:,} features; memory {used} of {total}", file=options.stderr)
    if scorer.note:
        print(scorer.note, file=options.stderr)
    line, model = Line(options.stderr), scorer.model
    with nullcontext(sys.stdout) if output is None else written_text(output, options.overwrite) as target:
        for scores in pieces:
            if options.probabilities:
                texts = number_lines(link(scores.values))
            else:
                of_labels = () if options.scores else model.labels
                texts = prediction_lines(of_labels, scores.values, scores.classes, model.multilabel, model.ranks)
            if options.explain:
                lines, columns = "".join(texts).split("\n")[:-1], scorer.explainer.columns(scores.contributions)
                texts = (f"{line}\t{more}\n" for line, more in zip(lines, columns, strict=True))
            for text in texts:
                target.write(text)
            measures.count(scores)
            line.show(f"{measures.rows:,} rows predicted")
    line.close()
    last = [] if output is None else [f"{measures.rows:,} predictions in {output}"]
    if options.probabilities or (options.scores and (len(labels) > 2 or description.multilabel)):
        last.append(f"columns: {listed(labels[:LABELS_SHOWN])}{', ...' if len(labels) > LABELS_SHOWN else ''}")
    figures = {"rows": measures.rows, "lines_without_row": scorer.empty}
    results = sys.stderr if output is None else sys.stdout
    show(options, scorer, measures, figures, ["; ".join(last)] if last else [], results)
    return 0


def check_beside(options, into_folder: bool) -> None:
    """InputError for options of the other kind of output."""
    for setting in WRITTEN if into_folder else BESIDE:
        if getattr(options, setting.name) != setting.default:
            other = "a file" if into_folder else "a folder, as scores/"
            raise InputError(f"{option(setting.name)}: is for an OUTPUT that is {other}")
    if options.top > 1 and options.score_of is not None:
        raise InputError("--top and --score-of: the scores are of several labels, or of one; leave one of them out")


def write_beside(options, description, link) -> int:
    from blocksvm.cli.texts import Line
    from blocksvm.model.measures import measures_of
    from blocksvm.model.scoring import TextScorer, scorer_of
    from blocksvm.model.shards import OUTPUT_SHARE, Results, Shards, Wanted

    wanted = Wanted(options.keep, options.top, options.score_of, options.select)
    results = Results(wanted, description.labels, link)
    settings = cli.chosen_values(options, all_choices().only(PREDICTED))
    reading = {"format": options.format, "skip_bad": options.skip_bad}
    shards = Shards(options.output, options.inputs, options.model, wanted, settings | reading, options.overwrite)
    cluster, threads = cluster_and_threads(options)
    more = reading | {"options": settings, "keep": options.keep}
    scorer = scorer_of(options.model, options.inputs, options.memory, n_jobs=threads, **more)
    if not isinstance(scorer, TextScorer):
        bare = "is a store, without the columns of its text"
        raise InputError(f"{options.input}: {bare}; name a file for its predictions")
    scorer.budget.take("output", OUTPUT_SHARE * options.memory)
    measures, line = measures_of(scorer.model, link, scorer.budget), Line(options.stderr)
    if cluster is None:
        pieces = shards.score(scorer, results, measures)
    else:
        from blocksvm.cluster.loop import files_by

        pieces = files_by(cluster, shards, options.model, scorer, measures, more)
    written = 0
    for name, selected in pieces:
        written += selected
        line.show(f"{name}: {measures.rows:,} rows scored, {written:,} written")
    line.close()
    before = f"; {len(shards.done):,} were there already" if shards.done else ""
    n = len(options.inputs) - len(shards.done)
    last = f"{written:,} of {measures.rows:,} rows in {n:,} file{'' if n == 1 else 's'} in {options.output}{before}"
    figures = {"rows": measures.rows, "written": written, "files": n, "files_before": len(shards.done)}
    show(options, scorer, measures, figures, [last], sys.stdout)
    return 0


def cluster_and_threads(options):
    """(the cluster that options name or None, threads of this process)"""
    cluster = cli.cluster_of(options)
    if cluster is None:
        return None, cli.n_threads(options.threads)
    if options.threads is not None:
        raise InputError("--threads: workers have as many as their cluster gives them; leave it out")
    return cluster, 1


def show(options, scorer, measures, figures: dict, last: list[str], results) -> None:
    """Print what was left out and what the predictions are worth, or write it as ``--json`` says, with more figures."""
    if scorer.empty:
        print(f"{options.input}: {scorer.empty:,} blank line{'s' if scorer.empty > 1 else ''} or comments have no "
              "prediction: the predictions are those of the rows, in their order", file=options.stderr)  # fmt: skip
    for note in scorer.coverage.notes:
        print(f"note: {note}", file=options.stderr)
    if scorer.coverage.warning():
        print(scorer.coverage.warning(), file=options.stderr)
    figures = {"model": options.model, "input": options.input, "output": options.output} | figures
    if not emit_json(options, figures | measures.figures() | scorer.coverage.figures()):
        print_results(options, [*measures.sentences(), *last], results)


if __name__ == "__main__":
    run(main)
