"""python -m blocksvm.predict: labels or decision values of text or a store under a model."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from blocksvm.cli.console import Parser, compile_kernels, compile_reader, run, sigterm_interrupts, size
from blocksvm.cli.options import add_format
from blocksvm.cli.standard import is_closed
from blocksvm.errors import InputError

EPILOG = """Without OUTPUT the predictions go to standard output and the accuracy to standard error."""
NUMBERS_AT_ONCE = 8_192  # of labels or decision values whose text is made at once: some 1 MB


def parser() -> Parser:
    p = Parser(
        "predict", "Predict the labels of text (plain or compressed, - for standard input) or of a store.", EPILOG
    )
    p.add_argument("model", metavar="MODEL.h5")
    p.add_argument("input", metavar="INPUT", help="text, with or without labels, or a store")
    p.add_argument("output", metavar="OUTPUT", nargs="?", help="file for the predictions, a line each row")
    add_format(p.add_argument_group("the text"), "the one that the model's training text had")
    what = p.add_argument_group("what to write")
    what.add_argument("--scores", action="store_true", help="write decision values instead of labels (one a class)")
    what.add_argument("--overwrite", action="store_true", help="replace an existing OUTPUT")
    machine = p.add_argument_group("the machine")
    machine.add_argument("--memory", type=size, default=size("1GB"), help="memory to use (default 1GB)")
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from contextlib import ExitStack
    from pathlib import Path

    from blocksvm.model.files import describe_model
    from blocksvm.outputs import check_output, written_whole
    from blocksvm.sources.store.files import open_hdf5

    description = describe_model(options.model)
    output = None if options.output in (None, "-") else Path(options.output)
    if output is not None:
        check_output(output, options.overwrite, "predictions", tuple(description["labels"]))
        if output.resolve() in (Path(options.model).resolve(), Path(options.input).resolve()):
            raise InputError(f"{output}: is also an input; choose another name for the predictions")
    elif is_closed(sys.stdout):
        raise InputError("standard output is closed; name an OUTPUT for the predictions")
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
    compile_kernels("predict", description["values"], options.quiet, options.model)
    from blocksvm.cli.display import Line, megabytes
    from blocksvm.model.scoring import StoreScorer, TextScorer

    if is_store:
        scorer = StoreScorer(options.model, options.input, options.memory, with_values=options.scores)
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
    tally = Tally(scorer.model.labels)
    with ExitStack() as stack:
        target = sys.stdout
        if output is not None:
            target = stack.enter_context(open(stack.enter_context(written_whole(output, options.overwrite)), "w"))
        for scores in pieces:
            for text in written(scores, scorer.model, options.scores):
                target.write(text)
            tally.count(scores)
            line.show(f"{tally.rows:,} rows predicted")
    line.close()
    results = sys.stderr if output is None else sys.stdout
    for sentence in tally.sentences():
        print(sentence, file=results)
    if output is not None:
        print(f"{tally.rows:,} predictions in {output}")
    return 0


def written(scores, model, with_values: bool) -> Iterator[str]:
    """The lines of some rows, in pieces of bounded size: decision values, or labels."""
    from blocksvm.labels import label_text

    n = len(scores.classes)
    if with_values:
        values = scores.values.reshape(n, -1)
        step = max(1, NUMBERS_AT_ONCE // values.shape[1])
        for start in range(0, n, step):
            yield "".join(
                [" ".join([f"{v:.17g}" for v in row]) + "\n" for row in values[start : start + step].tolist()]
            )
    else:
        lines = [label_text(label) + "\n" for label in model.labels]
        for start in range(0, n, NUMBERS_AT_ONCE):
            yield "".join([lines[c] for c in scores.classes[start : start + NUMBERS_AT_ONCE].tolist()])


class Tally:
    """How many rows were predicted, and how many of those with a label rightly.  labels: those that the model knows."""

    SHOWN = 5

    def __init__(self, labels: tuple):
        from blocksvm.labels import Labels

        self.labels = Labels(tuple(labels))
        self.rows = self.labelled = self.correct = self.others = 0
        self.other_labels: set = set()  # some of those that the model does not know

    def count(self, scores) -> None:
        import numpy as np

        from blocksvm.labels import has_label

        codes, there = self.labels.codes(scores.labels), has_label(scores.labels)
        others = there & (codes == self.labels.unknown)
        predicted = 2 * scores.classes - 1 if self.labels.binary else scores.classes
        self.rows += len(there)
        self.labelled += int(there.sum())
        self.correct += int(np.count_nonzero((codes == predicted) & (codes != self.labels.unknown)))
        self.others += int(others.sum())
        if others.any() and len(self.other_labels) <= self.SHOWN:
            self.other_labels.update(list(dict.fromkeys(scores.labels[others].tolist()))[: self.SHOWN + 1])

    def sentences(self) -> list[str]:
        """The accuracy, where it has a meaning, and which labels the model does not know."""
        found = []
        if self.labelled > self.others:
            share = self.correct / self.labelled
            found.append(f"accuracy {share:.6f} ({self.correct:,} of {self.labelled:,} rows)")
        if self.others:
            known, other = self._listed(self.labels.values), self._listed(sorted(self.other_labels))
            found.append(
                f"{'no accuracy: ' if self.others == self.labelled else ''}{self.others:,} of {self.labelled:,} "
                f"labelled rows have a label ({other}) that is none of the model's ({known})"
                f"{'' if self.others == self.labelled else '; they count as wrong'}"
            )
        return found

    def _listed(self, labels) -> str:
        from blocksvm.labels import listed

        return listed(labels[: self.SHOWN]) + (", ..." if len(labels) > self.SHOWN else "")


if __name__ == "__main__":
    run(main)
