"""python -m blocksvm.split: svmlight text to a store."""

from __future__ import annotations

import sys

from blocksvm.cli.console import Parser, compile_kernels, compile_reader, run, seed, sigterm_interrupts, size
from blocksvm.cli.options import add_format
from blocksvm.errors import InputError

EPILOG = """examples:
  python -m blocksvm.split train.svm.gz store.h5
  python -m blocksvm.split day-*.svm.zst store.h5 --memory 4GB --jobs 8 --holdout 0.1 held-out.h5
  zcat clicks.gz | python -m blocksvm.split - store.h5 --normalize l2
"""


def parser() -> Parser:
    p = Parser(
        "split",
        "Convert text (svmlight or Vowpal Wabbit; plain, .gz, .bz2, .xz, .zst, or - for standard input) to a store.",
        EPILOG,
    )
    p.add_argument("inputs", nargs="+", metavar="INPUT", help="text files, read one after the other")
    p.add_argument("store", metavar="STORE.h5", help="the store to write")
    rows = p.add_argument_group("the rows")
    add_format(rows)
    rows.add_argument("--bits", type=int, metavar="BITS", help="hash feature ids to 2^BITS (default: they stay)")
    rows.add_argument(
        "--duplicates",
        choices=("error", "sum"),
        default="error",
        help="a feature id that occurs twice in a row (default error)",
    )
    rows.add_argument(
        "--normalize", choices=("none", "l2"), default="none", help="l2: scale each row to norm 1 (before --min-count)"
    )
    rows.add_argument("--weights", metavar="FILE", help="the weight of each row: a number a line, in the rows' order")
    rows.add_argument(
        "--min-count", type=int, default=1, metavar="N", help="drop features that occur in fewer than N rows"
    )
    rows.add_argument(
        "--dtype", choices=("float32", "float64"), default="float32", help="precision of the values (default float32)"
    )
    rows.add_argument("--seed", type=seed, default=0, help="seed of the rows' random order (default 0)")
    rows.add_argument("--keep-order", action="store_true", help="keep the rows in the order of the text")
    outputs = p.add_argument_group("what to write")
    outputs.add_argument(
        "--holdout",
        nargs=2,
        metavar=("SHARE", "HOLDOUT.h5"),
        help="put this share of the rows, e.g. 0.1, in a second store",
    )
    outputs.add_argument("--overwrite", action="store_true", help="replace existing outputs")
    machine = p.add_argument_group("the machine")
    machine.add_argument("--memory", type=size, default=size("1GB"), help="memory to use, e.g. 512MB (default 1GB)")
    machine.add_argument(
        "--jobs", type=int, metavar="N", help="threads that parse and compress (default: one for each processor)"
    )
    machine.add_argument("--temp", metavar="DIR", help="folder for the shuffle (default: beside the store)")
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    import os
    from pathlib import Path

    jobs = options.jobs if options.jobs is not None else len(os.sched_getaffinity(0))
    if jobs < 1:
        raise InputError(f"--jobs {jobs}: must be 1 or more")
    if options.min_count < 1:
        raise InputError(f"--min-count {options.min_count}: must be 1 or more")
    share, held_out = 0.0, None
    if options.holdout:
        try:
            share = float(options.holdout[0])
        except ValueError:
            share = -1.0
        if not 0.0 < share < 1.0:
            raise InputError(f"--holdout {options.holdout[0]}: the share must lie between 0 and 1, e.g. 0.1")
        held_out = Path(options.holdout[1])
    # what can be refused is refused before anything is compiled
    if options.weights == "-" and "-" in options.inputs:
        raise InputError("--weights -: standard input holds the rows already; give the weights as a file")
    for name in [*options.inputs, *([options.weights] if options.weights else [])]:
        if name != "-" and not os.path.exists(name):
            raise InputError(f"{name}: no such file")
    from blocksvm.outputs import check_output

    for path in filter(None, (Path(options.store), held_out)):
        check_output(path, options.overwrite, "store")
    sigterm_interrupts()
    compile_kernels("split", options.dtype, options.quiet)
    from blocksvm.cli.display import SplitDisplay, split_summary
    from blocksvm.conversion.convert import SplitSettings, split
    from blocksvm.formats import AUTO

    settings = SplitSettings(
        memory=options.memory,
        jobs=jobs,
        seed=options.seed,
        keep_order=options.keep_order,
        dtype=options.dtype,
        sum_duplicates=options.duplicates == "sum",
        normalize=options.normalize,
        min_count=options.min_count,
        holdout=share,
        temp=None if options.temp is None else Path(options.temp),
        overwrite=options.overwrite,
        format=options.format or AUTO,
        bits=options.bits,
        weights=options.weights,
    )
    with SplitDisplay(sys.stderr, options.quiet) as display:
        display.begin(options.inputs, settings)
        ready = compile_reader(options.dtype, options.bits, options.quiet)
        meta = split(options.inputs, options.store, settings, held_out, display.show, ready)
    print(split_summary(Path(options.store), meta, display.seconds))
    if held_out is not None:
        print(f"held-out rows in {held_out}")
    if not options.quiet:
        for line in next_steps(options.store, meta):
            print(line, file=sys.stderr)
    return 0


def next_steps(store: str, meta: dict) -> list[str]:
    """What can be trained on a store as it is; nothing where training would be refused."""
    from blocksvm.cli.display.words import MANY
    from blocksvm.labels import NUMBERS, SETS, members_of

    labels, kind = meta["labels"], meta.get("label_kind", NUMBERS)
    if not meta["n_features"] or meta.get("n_unlabelled"):
        return []
    solver = ""
    if kind == NUMBERS and (labels is None or len(labels) > MANY):
        solver = " --loss epsilon-insensitive"
    elif len(members_of(labels) if kind == SETS else labels or ()) < 2:
        return []
    return [f"next: python -m blocksvm.train {store} MODEL.h5{solver}"]


if __name__ == "__main__":
    run(main)
