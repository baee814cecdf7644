"""python -m blocksvm.predict: labels or decision values of text or a store under a model."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from blocksvm.cli.console import Parser, run, size
from blocksvm.cli.json_output import add_json, check_json, told_as_json
from blocksvm.cli.options import add_format, add_settings, given
from blocksvm.cli.standard import is_closed
from blocksvm.errors import InputError, called, said
from blocksvm.formats.choices import PREDICTED, all_choices
from blocksvm.named import by_user

EPILOG = """Without OUTPUT the predictions go to standard output, and what they are worth to standard error."""


def parser() -> Parser:
    p = Parser(
        "predict", "Predict the labels of text (plain or compressed, - for standard input) or of a store.", EPILOG
    )
    p.add_argument("model", metavar="MODEL.h5")
    p.add_argument("input", metavar="INPUT", help="text, with or without labels, or a store")
    p.add_argument("output", metavar="OUTPUT", nargs="?", help="file for the predictions, a line each row")
    add_format(p.add_argument_group("the text"), "the one that the model's training text had")
    add_settings(p, "the text, where it is another one than the training text was", all_choices(), PREDICTED)
    what = p.add_argument_group("what to write")
    which = what.add_mutually_exclusive_group()
    which.add_argument("--scores", action="store_true", help="write decision values instead of labels (one a class)")
    which.add_argument(
        "--probabilities", action="store_true",
        help="write the probability of each label, in rising order of labels (a model of the logistic loss, or one "
        "that is calibrated)",
    )  # fmt: skip
    add_json(what, "what they are worth")
    what.add_argument("--overwrite", action="store_true", help="replace an existing OUTPUT")
    about = p.add_argument_group("the model")
    about.add_argument(
        "--joint", metavar="MAP", help="of a model of joint features: their map's place, whose code may then run"
    )
    about.add_argument(
        "--loss",
        metavar="LOSS",
        help="for probabilities by a loss outside the package: its place, whose code may then run",
    )
    machine = p.add_argument_group("the machine")
    machine.add_argument("--memory", type=size, default=size("1GB"), help="memory to use (default 1GB)")
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from contextlib import ExitStack
    from pathlib import Path

    from blocksvm.model.files import describe_model
    from blocksvm.model.probabilities import known_link, link_of
    from blocksvm.outputs import check_output, written_text
    from blocksvm.sources.store.files import MAKERS, open_hdf5, text_attribute

    description = describe_model(options.model)
    by_user(options.loss)
    if options.loss not in (None, own_loss := description["method"]["settings"].get("loss")):
        raise InputError(f"{said('loss', options.loss)}: {options.model} has the loss {own_loss}; leave it out")
    link = link_of(description, options.model) if options.probabilities else known_link(description)
    output = None if options.output in (None, "-") else Path(options.output)
    check_json(options, options.model, options.input, *([options.output] if output else []))
    if output is not None:
        check_output(output, options.overwrite, "predictions", tuple(description["labels"]))
        if output.resolve() in (Path(options.model).resolve(), Path(options.input).resolve()):
            raise InputError(f"{output}: is also an input; choose another name for the predictions")
    elif options.json == "-":
        raise InputError("--json goes to standard output, where the predictions go; name an OUTPUT for these")
    elif is_closed(sys.stdout):
        raise InputError("standard output is closed; name an OUTPUT for the predictions")
    is_store = False
    if options.input != "-":
        if not Path(options.input).exists():
            raise InputError(f"{options.input}: no such file")
        if Path(options.input).is_file():
            from blocksvm.formats.files import HDF5, magic_of
            from blocksvm.inputs import open_input

            with open_input(options.input) as file:
                is_store = file.read(8) == HDF5 and magic_of(options.input) is None
    own = {name: value for name, value in given(options, all_choices()).items() if name in PREDICTED}
    if is_store:
        for name in own:
            raise InputError(f"{called(name)}: {options.input} is a store, which was read already; leave it out")
        with open_hdf5(Path(options.input), *MAKERS) as file:
            kind = text_attribute(file, "blocksvm")
        if kind != "store":
            raise InputError(f"{options.input}: is a {kind}, and rows are predicted; give text, or a store")
    from blocksvm.cli.display import Line, megabytes
    from blocksvm.model.measures import RANK_BYTES, ClassMeasures, DistanceMeasures, RealMeasures, SetMeasures
    from blocksvm.model.scoring import StoreScorer, TextScorer
    from blocksvm.problems.distance import DISTANCE

    sets, real = description.get("multilabel", False), not description["labels"]
    binary = len(description["labels"]) == 2 and not sets
    if is_store:
        by_values = options.scores or real or binary or sets or link is not None
        scorer = StoreScorer(options.model, options.input, options.memory, by_values, options.joint)
        pieces = scorer.scores()
    else:
        scorer = TextScorer(options.model, options.memory, options.format, options.joint, own)
        pieces = scorer.scores([options.input])
    measures = SetMeasures(scorer.model.labels, scorer.model.ranks) if sets else RealMeasures()
    if DISTANCE in description:
        measures = DistanceMeasures(description[DISTANCE]["epsilon"])
    if not (real or sets):
        ranked = binary and scorer.budget.left >= 2 * RANK_BYTES
        if ranked:
            scorer.budget.take("the ROC curve", RANK_BYTES)
        measures = ClassMeasures(scorer.model.labels, link, ranked)
    if not options.quiet:
        taken, total = (megabytes(n) for n in (sum(scorer.budget.taken.values()), options.memory))
        print(f"{options.model}: {description['n_features']:,} features; memory {taken} of {total}", file=sys.stderr)
        if scorer.note:
            print(scorer.note, file=sys.stderr)
    line = Line(sys.stderr, options.quiet)
    with ExitStack() as stack:
        target = sys.stdout
        if output is not None:
            target = stack.enter_context(written_text(output, options.overwrite))
        for scores in pieces:
            numbers = scores.values if options.scores or real else None
            if options.probabilities:
                numbers = link(scores.values)
            for text in written(scores, scorer.model, numbers):
                target.write(text)
            measures.count(scores)
            line.show(f"{measures.rows:,} rows predicted")
    line.close()
    empty = getattr(scorer, "empty", 0)
    if empty and not options.quiet:
        print(f"{options.input}: {empty:,} blank line{'s' if empty > 1 else ''} or comments have no prediction: the "
              "predictions are those of the rows, in their order", file=sys.stderr)  # fmt: skip
    for note in scorer.met.notes:
        print(f"note: {note}", file=sys.stderr)
    if scorer.met.warning():
        print(scorer.met.warning(), file=sys.stderr)
    if options.json:
        told = {
            "model": options.model,
            "input": options.input,
            "output": options.output,
            "rows": measures.rows,
            "lines_without_row": empty,
        }
        if told_as_json(options, told | measures.figures() | scorer.met.figures()):
            return 0
    results = sys.stderr if output is None else sys.stdout
    for sentence in measures.sentences():
        print(sentence, file=results)
    if output is not None:
        print(f"{measures.rows:,} predictions in {output}")
    return 0


def written(scores, model, numbers) -> Iterator[str]:
    """The lines of some rows, in pieces of bounded size: their ``numbers`` (n,) or (n, k), or (None) labels."""
    from dataclasses import replace

    from blocksvm.labels import label_text
    from blocksvm.model.lines import AT_ONCE, label_lines, number_lines

    if numbers is not None:
        yield from number_lines(numbers)
    elif model.multilabel:
        step = max(1, AT_ONCE // len(model.labels))
        for start in range(0, len(scores.classes), step):
            part = replace(scores, values=scores.values[start : start + step])
            yield "".join([label_text(own) + "\n" for own in part.predictions(model)])
    else:
        yield from label_lines(scores.classes, model.labels)


if __name__ == "__main__":
    run(main)
