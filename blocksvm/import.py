"""blocksvm import: a model that LIBLINEAR trained, as a model of ours."""

from blocksvm.base.memory import MEMORY
from blocksvm.cli.console import Parser, run
from blocksvm.cli.options import OVERWRITE
from blocksvm.cli.outputs import outputs_of, print_results

EPILOG = """example:
  blocksvm import liblinear.model model.h5
"""


def parser() -> Parser:
    p = Parser(
        "import", "Convert a model that LIBLINEAR trained, for predict, info, export and --prior.\n"
        "Its labels are put in rising order; its feature indices become feature ids.", EPILOG,
    )  # fmt: skip
    p.add_argument("file", metavar="FILE", help="the model file that LIBLINEAR's train wrote")
    p.add_argument("model", metavar="MODEL.h5", help="the model to write")
    p.add("the machine and the model", MEMORY, OVERWRITE)
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from blocksvm.base.labels import listed
    from blocksvm.exchange.forms import import_model

    outputs_of(options, [options.file], {"model": options.model})
    model = import_model(options.file, memory=options.memory)
    model.save(options.model, options.overwrite)
    labels = model.labels
    what = f"labels {listed(labels[:5])}{', ...' if len(labels) > 5 else ''}" if labels else "real targets"
    features = f"{len(model.feature_ids):,} features with a weight, {what}"
    print_results(options, [features, f"model written to {options.model}"])
    return 0


if __name__ == "__main__":
    run(main)
