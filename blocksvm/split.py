"""blocksvm split: text, tables and matrices to a store."""

from contextlib import closing

from blocksvm.base.errors import InputError
from blocksvm.base.memory import MEMORY
from blocksvm.base.settings import Setting
from blocksvm.cli.console import Parser, run, value_of
from blocksvm.cli.options import FORMAT, OVERWRITE, THREADS, chosen_values, files_named, json_of, n_threads
from blocksvm.cli.outputs import emit_json, outputs_of, print_results
from blocksvm.conversion import SKIP_BAD, SPLIT, TEMP
from blocksvm.files.paths import location
from blocksvm.formats import settings_offered
from blocksvm.store.recipe import RECIPE

CHANGES = (
    Setting("append", "add the rows to the store, by the settings it was made with", False, bool),
    Setting("append_once", "the same, but skip an input that was added before (the same name, size and content)", False,
            bool),
)  # fmt: skip
HOLDOUT = Setting("holdout", "write this share of the rows, e.g. 0.1, to a second store", None, str,
                  metavar=("SHARE", "HOLDOUT.h5"), many=2)  # fmt: skip
EPILOG = """examples:
  blocksvm split train.svm.gz store.h5
  blocksvm split day-*.svm.zst store.h5 --memory 4GB --holdout 0.1 test.h5
  zcat clicks.gz | blocksvm split - store.h5 --normalize l2
  blocksvm split today.svm store.h5 --append
  blocksvm split texts.tsv store.h5 --format documents --idf smooth
  blocksvm split table.csv store.h5 --scale max-abs
  blocksvm split test.tsv test.h5 --like store.h5
  blocksvm split clicks.csv store.h5 --label clicked --categorical 'C*'
"""


def parser(format_name: str | None = None) -> Parser:
    p = Parser("split", "Convert text (plain, .gz, .bz2, .xz, .zst, or - for standard input), tables or\n"
               "matrices to a store.", EPILOG)  # fmt: skip
    p.add_argument("inputs", nargs="*", metavar="INPUT", help="files or folders, read one after the other")
    p.add_argument("store", metavar="STORE.h5", help="the store to write, or to add to (--append)")
    p.add("changing a store", *CHANGES)
    p.add("the rows", FORMAT, *RECIPE, *SPLIT, defaults=False)
    p.add("settings of formats", *settings_offered(format_name), defaults=False)
    p.add("what to write", HOLDOUT, SKIP_BAD, json_of("the description of the store"), OVERWRITE)
    p.add("the machine", MEMORY, THREADS, TEMP)
    return p


def main(arguments: list[str]) -> int:
    options = parser(value_of(arguments, "--format")).parse_args(arguments)
    options.inputs = files_named(options.inputs, options.stderr, options.format)

    options.append |= options.append_once
    share, held_out = holdout_of(options)
    # what can be refused is refused before anything is compiled
    check_options(options)
    check_files(options, held_out)
    settings = split_settings(options, share)
    from blocksvm.cli.split_progress import SplitDisplay, split_summary
    from blocksvm.conversion.convert import extend, split_rows
    from blocksvm.formats import said_of_columns
    from blocksvm.store.descriptions import as_json

    with closing(SplitDisplay(options.stderr)) as display:
        if options.append:
            about, skipped = extend(options.inputs, options.store, settings, display.show, options.append_once)
        else:
            about, skipped = split_rows(options.inputs, options.store, settings, held_out, display.show), []
    of_run = {"store": options.store, "holdout": held_out and str(held_out), "seconds": display.seconds}
    of_run |= {"skipped": skipped} if options.append_once else {}
    if not emit_json(options, of_run | as_json(about)):
        unchanged = options.append and set(options.inputs) <= set(skipped)
        end = f"; {options.store} stays as it is" if unchanged else ""
        lines = [f"skipped: {', '.join(skipped)} (added before){end}"] if skipped else []
        if not unchanged:
            lines += split_summary(location(options.store), about, display.seconds)
        print_results(options, lines if held_out is None else [*lines, f"held-out rows in {held_out}"])
    if line := said_of_columns(about.recipe)[0]:
        print_results(options, [line], options.stderr)
    for line in next_steps(options.store, about):
        print(line, file=options.stderr)
    return 0


def split_settings(options, share: float):
    """The settings of the conversion, those of a store that is changed or taken as the model among them."""
    from pathlib import Path

    from blocksvm.conversion.convert import COMMON, settings_from, settings_of_store

    machine = {name: getattr(options, name) for name in ("memory", "weights", "skip_bad")}
    machine |= {"n_jobs": n_threads(options.threads), "codec": options.codec or SPLIT["codec"].default}
    machine["temp"] = None if options.temp is None else Path(options.temp)
    recipe = {name: getattr(options, name) for name in COMMON}
    choices = chosen_values(options, settings_offered(options.format))
    if options.append:
        return settings_of_store(options.store, recipe, choices, **machine)
    machine |= {"holdout": share, "overwrite": options.overwrite}
    if options.like is not None:
        return settings_of_store(options.like, recipe, choices, like=True, **machine)
    return settings_from(recipe, **machine, options=choices)


def holdout_of(options):
    """(share, path) of the held-out rows, 0 and None where there are none."""
    if not options.holdout:
        return 0.0, None
    if options.append:
        raise InputError("--holdout: is for a new store; add held-out rows to their own store")
    try:
        share = float(options.holdout[0])
    except ValueError:
        share = -1.0
    if not 0.0 < share < 1.0:
        raise InputError(f"--holdout {options.holdout[0]}: the share must lie between 0 and 1, e.g. 0.1")
    return share, location(options.holdout[1])


def check_options(options) -> None:
    """InputError where options do not fit each other, or a number is out of range."""
    if not options.inputs:
        what = f"{options.store}: give text to read before the store's name (see --help)"
        raise InputError(f"--append: give the text whose rows are added to {options.store}" if options.append else what)
    if options.append_once and "-" in options.inputs:
        raise InputError("--append-once: what standard input holds is known only once it is read; give a file")
    if options.append and options.like is not None:
        raise InputError("--like: is for a new store; rows are added by the settings of the store itself; leave it out")
    if options.weights is not None and options.skip_bad:
        raise InputError("--weights and --skip-bad: weights are those of all lines; leave one of them out")
    if options.weights == "-" and "-" in options.inputs:
        raise InputError("--weights -: standard input holds the rows already; give the weights as a file")


def check_files(options, held_out) -> None:
    """InputError where an input is missing, or an output cannot be written."""
    from blocksvm.files.output import check_output

    for name in [*options.inputs, *([options.weights] if options.weights else [])]:
        if name != "-" and not location(name).exists():
            raise InputError(f"{name}: no such file")
    if options.append and not location(options.store).exists():
        raise InputError(f"{options.store}: no such store; make it first, without --append")
    stores = [path for path in (location(options.store), held_out) if path is not None]
    outputs_of(options, [*options.inputs, options.weights, *map(str, stores)])
    for path in stores:
        check_output(path, options.overwrite or options.append, "store")


def next_steps(store: str, meta) -> list[str]:
    """The commands that a store can be trained with as it is; none where training would be refused."""
    from blocksvm.base.labels import MANY, NUMBERS, SETS, members_of

    labels, kind = meta.labels, meta.label_kind
    if not meta.n_features or meta.n_unlabelled:
        return []
    solver = ""
    if kind == NUMBERS and (labels is None or len(labels) > MANY):
        solver = " --loss epsilon-insensitive"
    elif len(members_of(labels) if kind == SETS else labels or ()) < 2:
        return []
    if meta.history:
        return [f"next: blocksvm train {store} NEW-MODEL.h5 --from MODEL.h5{solver} (of the rows before)"]
    return [f"next: blocksvm train {store} MODEL.h5{solver}"]


if __name__ == "__main__":
    run(main)
