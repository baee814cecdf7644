"""python -m blocksvm.predict: labels or decision values of text or a store under a model."""

from __future__ import annotations

import sys

from blocksvm.cli.console import Parser, compile_kernels, compile_reader, run, sigterm_interrupts, size
from blocksvm.cli.options import add_format
from blocksvm.errors import InputError

EPILOG = """Without OUTPUT the predictions go to standard output and the accuracy to standard error."""


def parser() -> Parser:
    p = Parser(
        "predict", "Predict the labels of text (plain or compressed, - for standard input) or of a store.", EPILOG
    )
    p.add_argument("model", metavar="MODEL.h5")
    p.add_argument("input", metavar="INPUT", help="text, with or without labels, or a store")
    p.add_argument("output", metavar="OUTPUT", nargs="?", help="file for the predictions, a line each row")
    add_format(p, "the one that the model's training text had")
    p.add_argument("--scores", action="store_true", help="write decision values instead of labels (one a class)")
    p.add_argument("--memory", type=size, default=size("1GB"), help="memory to use (default 1GB)")
    p.add_argument("--overwrite", action="store_true", help="replace an existing OUTPUT")
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from contextlib import ExitStack
    from pathlib import Path

    from blocksvm.model.files import describe_model
    from blocksvm.sources.store.files import check_output, open_hdf5, written_whole

    description = describe_model(options.model)
    output = None if options.output in (None, "-") else Path(options.output)
    if output is not None:
        check_output(output, options.overwrite)
        if output.resolve() in (Path(options.model).resolve(), Path(options.input).resolve()):
            raise InputError(f"{output}: is also an input; choose another name for the predictions")
    is_store = False
    if options.input != "-":
        if not Path(options.input).exists():
            raise InputError(f"{options.input}: no such file")
        if Path(options.input).is_file():
            with open(options.input, "rb") as file:
                is_store = file.read(8) == b"\x89HDF\r\n\x1a\n"
    if is_store:
        open_hdf5(Path(options.input), "store").close()
    sigterm_interrupts()
    compile_kernels("predict", description["values"], options.quiet)
    import numpy as np

    from blocksvm.cli.display import Line, megabytes
    from blocksvm.model.scoring import StoreScorer, TextScorer

    if is_store:
        scorer = StoreScorer(options.model, options.input, options.memory)
        pieces = scorer.scores()
    else:
        ready = compile_reader(description["text"]["dtype"], description.get("bits"), options.quiet)
        scorer = TextScorer(options.model, options.memory, options.format, ready)
        pieces = scorer.scores([options.input])
    if not options.quiet:
        taken, total = (megabytes(n) for n in (sum(scorer.budget.taken.values()), options.memory))
        print(f"{options.model}: {description['n_features']:,} features; memory {taken} of {total}", file=sys.stderr)
        if scorer.note:
            print(scorer.note, file=sys.stderr)
    line = Line(sys.stderr, options.quiet)
    rows = labelled = correct = 0
    with ExitStack() as stack:
        target = sys.stdout
        if output is not None:
            target = stack.enter_context(open(stack.enter_context(written_whole(output)), "w"))
        for scores in pieces:
            predicted = scores.predictions(scorer.model)
            if options.scores:
                rows_of_values = scores.values.reshape(len(scores.values), -1).tolist()
                target.write("".join([" ".join([f"{v:.17g}" for v in row]) + "\n" for row in rows_of_values]))
            else:
                lines = {label: label_text(label) + "\n" for label in scorer.model.labels}
                target.write("".join([lines[label] for label in predicted.tolist()]))
            known = ~np.isnan(scores.labels)
            rows += len(predicted)
            labelled += int(known.sum())
            correct += int(np.count_nonzero(predicted[known] == scores.labels[known]))
            line.show(f"{rows:,} rows predicted")
    line.close()
    results = sys.stderr if output is None else sys.stdout
    if labelled:
        print(f"accuracy {correct / labelled:.6f} ({correct:,} of {labelled:,} rows)", file=results)
    if output is not None:
        print(f"{rows:,} predictions in {output}")
    return 0


def label_text(label: float) -> str:
    """A label as a person writes it: 1, -1, 0.1."""
    return str(int(label)) if label.is_integer() and abs(label) < 1e15 else repr(label)


if __name__ == "__main__":
    run(main)
