"""blocksvm ask: the rows of a pool whose labels a model is least sure of."""

import sys

from blocksvm.base.errors import InputError
from blocksvm.base.memory import MEMORY
from blocksvm.base.settings import Setting
from blocksvm.cli import options as cli
from blocksvm.cli.console import Parser, run
from blocksvm.cli.outputs import emit_json, outputs_of, print_written
from blocksvm.formats.choices import PREDICTED, all_choices

ROWS = Setting("n", "rows to ask for", 100, int, least=1, metavar="N")
EPILOG = """Rows that have a label are passed over. A row's number counts the rows from 1 in
the order of reading.

examples:
  blocksvm ask model.h5 pool.svm -n 100
  blocksvm ask model.h5 pool.h5 asked.txt -n 20
"""


def parser() -> Parser:
    p = Parser("ask", "List the rows without a label whose label would tell a model the most: those of\nthe smallest "
               "margins, the smallest first.", EPILOG)  # fmt: skip
    p.add_argument("model", metavar="MODEL.h5", help="a model of classes, by train, stream or import")
    cli.add_inputs(p, "the rows' numbers, one a line")
    p.add("which rows", ROWS)
    p.add("the pool", cli.FORMAT_OF_MODEL)
    p.add("where the pool is written otherwise than the training data", *all_choices().only(PREDICTED), defaults=False)
    p.add("what to write", cli.json_of("the rows and their margins"), cli.OVERWRITE)
    p.add("the machine", MEMORY, cli.THREADS)
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    cli.take_inputs(options)
    outputs = outputs_of(options, [options.model, *options.inputs], {"rows": options.output})
    import numpy as np

    from blocksvm.base.labels import has_label
    from blocksvm.cli.texts import Line
    from blocksvm.files.output import written_text
    from blocksvm.model.decision_values import MARGIN_BYTES, SmallestMargins, margins_of
    from blocksvm.model.scoring import scorer_of

    how = cli.chosen_values(options, all_choices().only(PREDICTED)), cli.n_threads(options.threads)
    scorer = scorer_of(options.model, options.inputs, options.memory, options.format, *how)
    if not scorer.model.labels:
        raise InputError(f"{options.model}: predicts no classes, so no label is more or less sure; name another model")
    scorer.budget.reserve("the rows asked for", MARGIN_BYTES * options.n)
    chosen, line, n_rows = SmallestMargins(options.n), Line(options.stderr), 0
    for scores in scorer.scores():
        missing = np.flatnonzero(~has_label(scores.labels))
        margins = margins_of(scores.values[missing], scorer.model.multilabel)
        chosen.add(margins, n_rows + 1 + missing)
        n_rows += len(scores.labels)
        line.show(f"{n_rows:,} rows scored")
    line.close()
    if not chosen.n_added:
        raise InputError(f"{options.input}: each of its {n_rows:,} rows has a label; there is nothing to ask")
    numbers = chosen.rows.tolist()
    if "rows" in outputs:
        with written_text(outputs["rows"], options.overwrite) as file:
            file.writelines(f"{number}\n" for number in numbers)
    figures = {"pool": options.input, "model": options.model, "rows_without_label": chosen.n_added, "rows": numbers,
               "margins": chosen.margins.tolist()}  # fmt: skip
    if not emit_json(options, figures):
        if "rows" not in outputs:
            print("\n".join(map(str, numbers)))
        told = sys.stdout if "rows" in outputs else sys.stderr
        print(f"{len(numbers):,} of {chosen.n_added:,} rows without a label, with margins from {chosen.margins[0]:.4g} "
              f"to {chosen.margins[-1]:.4g}", file=told)  # fmt: skip
    print_written(options, outputs)
    return 0


if __name__ == "__main__":
    run(main)
