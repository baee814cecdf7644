"""blocksvm export: a model as other programs read it."""

from blocksvm.base.memory import MEMORY
from blocksvm.base.settings import Setting
from blocksvm.cli.console import Parser, run
from blocksvm.cli.options import OVERWRITE

FORMATS = ("liblinear", "table", "parquet", "sklearn", "onnx")
OPTIONS = (
    Setting("format", "liblinear; table or parquet (weights by feature); sklearn (an estimator, or a Pipeline from "
            "texts or dicts of columns); onnx", None, str, FORMATS, metavar="|".join(FORMATS)),
    Setting("names", "for table, parquet and sklearn: take the features' names from this store (default: from the "
            "model)", None, str, metavar="STORE.h5"),
)  # fmt: skip
EPILOG = """examples:
  blocksvm export model.h5 model.txt --format liblinear   (its predict reads it)
  blocksvm export model.h5 weights.csv --format table --names store.h5
  blocksvm export model.h5 model.joblib --format sklearn  (for joblib.load)
"""


def parser() -> Parser:
    p = Parser("export", "Write a linear model in the format of another program.", EPILOG)
    p.add_argument("model", metavar="MODEL.h5", help="a linear model")
    p.add_argument("output", metavar="OUT", help="the file to write")
    p.add("what to write", *OPTIONS, MEMORY, OVERWRITE, required=("format",))
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from blocksvm.exchange.forms import export_model

    how = {name: getattr(options, name) for name in ("names", "overwrite", "memory")}
    for note in export_model(options.model, options.output, options.format, **how):
        print(f"note: {note}", file=options.stderr)
    print(f"written to {options.output}")
    return 0


if __name__ == "__main__":
    run(main)
