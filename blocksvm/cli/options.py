"""Settings as options of a command line: one declaration serves options, their help, and the values that were given.
Imports nothing heavy, so that ``--help`` is quick: a solver's own settings are only loaded when it is named."""

import glob
import os
import sys
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from blocksvm.base.errors import InputError, option_string
from blocksvm.base.memory import DURATION, SettingWithUnit
from blocksvm.base.settings import Setting, Settings
from blocksvm.cli.console import add_option
from blocksvm.files.paths import is_url, location
from blocksvm.formats import AUTO, FORMATS
from blocksvm.training.run_settings import ROUNDING

MOST_OTHERS = 5  # solvers and learners that a sentence names as those that accept an option
SOLVER_WORDS = ("--solver", "--learner")
UNCONVERGED = 3  # the exit status where a limit that nobody gave has ended a run above its tolerance


def n_threads(threads: int | None, spared: int = 0) -> int:
    """Threads: as many as ``--threads`` says, by default as the process has processors, less those that are spared."""
    from blocksvm.base.threads import n_processors

    return threads if threads is not None else max(1, n_processors() - spared)


def thread_count(value) -> int | None:
    if value == "auto":
        return None
    text = str(value)
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise InputError(f"--threads: '{text}' is neither auto nor a number of 1 or more")
    return int(text)


def name_of_code(value) -> str:
    """A name of ours, or a location, which whoever takes it knows."""
    return str(value)


THREADS = Setting("threads", "a number, or auto (default): one a processor", None, thread_count, metavar="N")
OVERWRITE = Setting("overwrite", "replace existing outputs", False, bool)
FIGURE = Setting("figure", "draw the figures (needs matplotlib)", None, str, metavar="FILE.png")
FORMAT = Setting(
    "format", f"format of the input: {', '.join((AUTO, *FORMATS))}, or module:attribute (default: recognised by its "
    "name or first bytes)", None, name_of_code, (AUTO, *FORMATS), metavar="NAME",
)  # fmt: skip
FORMAT_OF_MODEL = replace(FORMAT, help=FORMAT.help.replace("recognised by its name or first bytes", "the model's"))
CHECKPOINT = (
    Setting("checkpoint", "save the state of the run to FILE at intervals and on Ctrl-C", None, str, metavar="FILE"),
    SettingWithUnit("checkpoint_seconds", "time between two saves (default 10m)", 600.0, above=0.0, metavar="S",
                    units=DURATION),
    Setting("resume", "continue from --checkpoint, if that file exists", False, bool),
)  # fmt: skip
CLUSTER = (
    Setting("cluster", "tcp://HOST:PORT of a Dask scheduler, or local:N", None, str, metavar="ADDRESS"),
    Setting("security", "files for TLS", None, str, metavar=("CA.pem", "CERT.pem", "KEY.pem"), many=3),
    SettingWithUnit("cluster_timeout", "how long to wait for an answer (default 15m)", None, above=0.0, metavar="S",
                    units=DURATION),
)  # fmt: skip


def json_of(what: str) -> Setting:
    """``--json [FILE]``; what: the figures that are written."""
    return Setting(
        "json", f"write {what} as one JSON object: to standard output, in place of the text, or to FILE.json (a file "
        "of another name: --json=FILE)", None, str, metavar="FILE", many="?",
    )  # fmt: skip


def cluster_of(options):
    """The workers that options name, or None; they are sought when a run begins."""
    if options.cluster is None:
        for name in ("security", "cluster_timeout"):
            if getattr(options, name, None) is not None:
                raise InputError(f"{option_string(name)}: is for --cluster; leave it out")
        return None
    from blocksvm.cluster.dask import TIMEOUT, Cluster

    timeout = TIMEOUT if options.cluster_timeout is None else options.cluster_timeout
    return Cluster(options.cluster, options.security, timeout, partial(print, file=sys.stderr, flush=True))


def files_named(names: Sequence[str], stderr=None, format_: str | None = None) -> list[str]:
    """The inputs that are meant, in the order of their names: of a pattern that the shell has left (of * and ? alone,
    since a name may well have brackets) all files that fit it, of a folder all files in it, without hidden and
    temporary ones, which ``stderr`` tells; folders of the format ``folders`` are inputs themselves.  InputError where
    there are none, and where a folder has folders in it, whose rows would be lost."""
    paths: list[str] = []
    for name in names:
        pattern, folder = "*" in name or "?" in name, not is_url(name) and os.path.isdir(name)
        if is_url(name) and pattern and not location(name).exists():
            raise InputError(f"{name}: no such object; patterns are for files of this machine: name each object")
        if format_ == "folders" and not (folder or is_url(name)):
            raise InputError(f"{name}: is no folder, as --format folders reads")
        if is_url(name) or format_ == "folders" or name == "-" or not (folder or pattern and not os.path.exists(name)):
            paths.append(name)
            continue
        found = glob.glob(name.replace("[", "[[]"))
        if folder:
            found = [os.path.join(name, entry) for entry in os.listdir(name)]
            if inner := sorted(os.path.basename(one) for one in found if os.path.isdir(one) and not is_aside(one)):
                raise InputError(
                    f"{name}: has folders in it ({inner[0]}{', ...' if len(inner) > 1 else ''}), which are not "
                    f"read; '{os.path.join(name, '*', '*')}' reads the files in them (a name such as year=2024 is no "
                    f"column of their rows), '{os.path.join(name, '*')}' those beside them; where they are classes, a "
                    "file a text, say --format folders"
                )
            found = list(filter(os.path.isfile, found))
        files = sorted(one for one in found if not os.path.isdir(one))
        left_out = [] if is_aside(name) else list(filter(is_aside, files))
        wanted = sorted(set(files) - set(left_out))
        aside = f"{len(left_out):,} hidden or temporary ones"
        if not wanted:
            what = "the folder has no files" if folder else "no file fits"
            raise InputError(f"{name}: {what}{f' but {aside}; name those that are meant' if left_out else ''}")
        if left_out:
            first = os.path.basename(left_out[0])
            print(f"{name}: {aside} left out ({first} first); name what is to be read", file=stderr or sys.stderr)
        paths += wanted
    return paths


def add_inputs(parser, written: str) -> None:
    """Add the names of inputs, and behind them that of an output; written: what goes to it."""
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="text, plain or compressed (- for standard input), "
                        "folders or quoted patterns of such files, or a store")  # fmt: skip
    parser.add_argument("output", metavar="OUTPUT", nargs="?", help=f"file for {written}; of several names the last (- "
                        "for standard output)")  # fmt: skip


def take_inputs(options) -> None:
    """Tell the output from the inputs, which are named by ``input`` in a sentence."""
    options.output = options.inputs.pop() if len(options.inputs) > 1 else None
    options.input = ", ".join(options.inputs)
    options.inputs = files_named(options.inputs, options.stderr, options.format)


def is_aside(path: str) -> bool:
    """A hidden file, a mark of a program that wrote the others (_SUCCESS), a backup, or one that is not whole yet."""
    name = os.path.basename(path)
    return name.startswith((".", "_", "#")) or name.endswith(("~", ".bak", ".tmp", ".swp", ".part", ".crdownload"))


def unlimited(options, status: str) -> bool:
    """No limit that was given has ended a run of this status above its tolerance."""
    limits = (getattr(options, name, None) for name in ("max_outer", "max_passes", "max_seconds"))
    return status == ROUNDING or not any(limits)


def chosen_values(options, settings: Settings) -> dict:
    values = {name: getattr(options, name, None) for name in settings.names()}
    return {name: value for name, value in values.items() if value is not None}


def refusal(owner: str, settings: Settings) -> Callable[[str], str | None]:
    """The sentence of a parser on an option that ``owner`` does not take, but another solver or learner does."""

    def sentence(flag: str) -> str | None:
        from blocksvm.online.methods import NAMES, get_method

        others = [name for name in NAMES if flag in map(option_string, get_method(name).settings.names())]
        if not others:
            return None
        accepted = ", ".join(map(option_string, settings.names())) or "no settings"
        shown = f"{', '.join(others[:MOST_OTHERS])}{', ...' if len(others) > MOST_OTHERS else ''}"
        return f"{flag}: {owner} does not accept it; it accepts {accepted}; {flag} is an option of {shown}"

    return sentence


def described(name: str, summary: str, settings: Settings, more: Sequence[str] = ()) -> str:
    """A solver or learner with its settings, for ``--help-solver`` and ``--help-learner``."""
    shown = ArgumentParser(usage=SUPPRESS, add_help=False, description=f"{name}: {summary}", epilog=" ".join(more))
    group = shown.add_argument_group("settings")
    for setting in settings:
        add_option(group, setting)
    return shown.format_help().rstrip()
