"""blocksvm export: a model as other programs read it."""

from __future__ import annotations

import sys

from blocksvm.cli.console import Parser, run, size

FORMATS = ("liblinear", "table", "parquet", "sklearn", "onnx")
EPILOG = """examples:
  blocksvm export model.h5 model.txt --format liblinear   (its predict reads it)
  blocksvm export model.h5 weights.csv --format table --names store.h5
  blocksvm export model.h5 model.joblib --format sklearn  (for joblib.load)
"""


def parser() -> Parser:
    p = Parser("export", "Write a linear model in the format of another program.", EPILOG)
    p.add_argument("model", metavar="MODEL.h5", help="a linear model")
    p.add_argument("output", metavar="OUT", help="the file to write")
    p.add_argument("--format", choices=FORMATS, required=True,
                   help="liblinear; table or parquet (weights by feature); sklearn (an estimator, or a Pipeline from "
                   "texts or dicts of columns); onnx")  # fmt: skip
    p.add_argument(
        "--names",
        metavar="STORE.h5",
        help="for table, parquet and sklearn: take the features' names from this store (default: from the model)",
    )
    p.add_argument("--memory", type=size, default=size("1GB"), help="memory to use (default 1GB)")
    p.add_argument("--overwrite", action="store_true", help="replace an existing OUT")
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from blocksvm.exchange.forms import export_model

    notes = export_model(
        options.model, options.output, options.format, names=options.names, overwrite=options.overwrite,
        memory=options.memory,
    )  # fmt: skip
    if not options.quiet:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    print(f"written to {options.output}")
    return 0


if __name__ == "__main__":
    run(main)
