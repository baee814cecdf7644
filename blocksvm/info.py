"""blocksvm info: what a store, a model or a checkpoint holds."""

from blocksvm.base.errors import InputError, printable
from blocksvm.base.settings import Setting
from blocksvm.cli.console import Parser, run
from blocksvm.cli.options import OVERWRITE, json_of
from blocksvm.cli.outputs import emit_json, outputs_of
from blocksvm.files.paths import location

VERIFY = Setting("verify", "read all of the file and compare it with its checksums", False, bool)
TOP = Setting("top", "for a model: list the N features of the largest weights, by class", None, int, least=1)


def parser() -> Parser:
    p = Parser("info", "Describe a store, a model or a checkpoint.")
    p.add_argument("file", metavar="FILE.h5", help="a store, a model or a checkpoint")
    p.add("what to show", VERIFY, TOP, json_of("the description"), OVERWRITE)
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    outputs_of(options, [options.file])

    from blocksvm.store.hdf5_files import MAKERS, VERSIONS, opened

    path = location(options.file)
    with opened(path, *MAKERS) as (file, meta):
        kind = file.kind
    if options.verify:
        verify(path, kind, options)
    top = None
    if options.top is not None:
        from blocksvm.model.explanations import strongest

        if kind != "model":
            raise InputError(f"{path}: is a {kind}; --top lists the weights of a model")
        top = strongest(path, options.top)
    from blocksvm.cli.file_lines import all_settings, description_lines, weight_lines
    from blocksvm.store.descriptions import as_json

    if options.json:
        about = as_json(meta) | ({"settings": all_settings(meta)} if hasattr(meta, "method") else {})
        figures = {"kind": kind, "format_version": VERSIONS[kind], "bytes": path.stat().st_size, **about}
        if top is not None:
            figures["top"] = [{"label": label, "features": [vars(one) for one in features]} for label, features in top]
        if emit_json(options, figures):
            return 0
    for name, value in description_lines(kind, meta, path.stat().st_size):
        print(f"{name:<14} {printable(str(value))}")
    if options.verify:
        print(f"{'verified':<14} every checksum matches")
    for line in weight_lines(top or []):
        print(line)
    return 0


def verify(path, kind: str, options) -> None:
    """InputError unless all that matters in the file is sound."""
    if kind == "store":
        from blocksvm.cli.texts import Line
        from blocksvm.store.reader import Store

        line = Line(options.stderr)
        with Store(path) as store:
            store.verify(lambda done, total: line.show(f"verifying chunk {done:,} of {total:,}"))
        line.close()
    elif kind == "structure":
        from blocksvm.structured.tasks import load_structured

        load_structured(path)
    else:
        from blocksvm.model.solver_state import verify_state

        verify_state(path)


if __name__ == "__main__":
    run(main)
