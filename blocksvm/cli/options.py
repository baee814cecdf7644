"""Settings as options of a command line: one declaration serves options, their help, and the values that were given.

Imports nothing heavy, so that ``--help`` is quick: a solver's own settings are only loaded when it is named.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from blocksvm.base.errors import InputError, option_string
from blocksvm.base.settings import Settings
from blocksvm.base.user_code import by_user
from blocksvm.cli.console import Known, duration, threads
from blocksvm.files.paths import OBJECT_SETTINGS, is_url, location
from blocksvm.formats import AUTO, FORMATS, settings_offered
from blocksvm.training.run_settings import ROUNDING

if TYPE_CHECKING:
    from pathlib import Path

MOST_OTHERS = 5  # solvers and learners that a sentence names as those that accept an option
SOLVER_WORDS = ("--solver", "--learner")
UNCONVERGED = 3  # the exit status where a limit that nobody gave has ended a run above its tolerance


def value_of(arguments: Sequence[str], *flags: str) -> str | None:
    """The value of an option among arguments that have not been parsed: '--solver pa1' or '--solver=pa1'."""
    last_value = None
    for number, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag in flags:
            if equals:
                last_value = value
            elif number + 1 < len(arguments):
                last_value = arguments[number + 1]
    by_user({flag[2:].replace("-", "_"): last_value for flag in flags})
    return last_value


def n_threads(threads: int | None, spared: int = 0) -> int:
    """Threads: as many as ``--threads`` says, by default as the process has processors, less those that are spared."""
    from blocksvm.base.threads import n_processors

    return threads if threads is not None else max(1, n_processors() - spared)


def add_threads(parser, auto: str = "one a processor") -> None:
    """Add ``--threads``."""
    parser.add_argument("--threads", type=threads, metavar="N", help=f"a number, or auto (default): {auto}")


def add_cluster(parser, what: str = "read the store", copies: bool = False) -> None:
    """Add the options of a Dask cluster; copies: its workers may read copies of the store."""
    group = parser.add_argument_group(f"a cluster, whose workers {what}")
    group.add_argument("--cluster", metavar="ADDRESS", help="tcp://HOST:PORT of a Dask scheduler, or local:N")
    group.add_argument("--security", nargs=3, metavar=("CA.pem", "CERT.pem", "KEY.pem"), help="files for TLS")
    group.add_argument("--cluster-timeout", type=duration, metavar="S",
                       help="how long no worker may answer (default 5m)")  # fmt: skip
    if copies:
        group.add_argument("--store-copy", action="append", metavar="PATH",
                           help="where workers may have a copy of the store; may be repeated")  # fmt: skip


def add_objects(parser) -> None:
    """Add the options of stores that are objects; the parser applies them."""
    add_settings(parser, "stores that are objects (s3://, gs://, az://, https://)", OBJECT_SETTINGS)


def cluster_of(options):
    """The workers that options name, or None; they are sought when a run begins."""
    if not is_on_cluster(options):
        return None
    from blocksvm.cluster.cluster import Cluster
    from blocksvm.cluster.dask_workers import DaskWorkers

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    copies = tuple(options.store_copy or ())
    return Cluster(DaskWorkers(options.cluster, options.security, say), cluster_timeout(options), say, copies)


def cluster_timeout(options) -> float:
    """Seconds."""
    from blocksvm.cluster.cluster import TIMEOUT

    return TIMEOUT if options.cluster_timeout is None else options.cluster_timeout


def is_on_cluster(options) -> bool:
    """Options name a cluster."""
    if options.cluster is None:
        for name in ("security", "cluster_timeout", "store_copy"):
            if getattr(options, name, None) is not None:
                raise InputError(f"{option_string(name)}: is for --cluster; leave it out")
    return options.cluster is not None


def add_format(parser, default: str = "recognised by its name or first bytes") -> None:
    """Add ``--format``."""
    names = ", ".join((AUTO, *FORMATS))
    parser.add_argument(
        "--format", metavar="NAME", choices=Known((AUTO, *FORMATS)),
        help=f"format of the input: {names}, or module:attribute (default: {default})",
    )  # fmt: skip


def add_choices(parser, name: str | None = None) -> None:
    """Add the settings of formats; name: of the format that was named, if one was."""
    add_settings(parser, "settings of formats", settings_offered(name))


def files_named(names: Sequence[str], quiet: bool = False) -> list[str]:
    """The inputs that are meant, in the order of their names: of a pattern that the shell has left ('day-*.svm': of *
    and ? alone, since a name may well have brackets) all files that fit it, of a folder all files in it; without hidden
    and temporary ones, which standard error tells.  InputError where there are none, and where a folder has folders in
    it, whose rows would be lost."""
    import glob
    import os

    paths: list[str] = []
    for name in names:
        if is_url(name):
            if ("*" in name or "?" in name) and not location(name).exists():
                raise InputError(f"{name}: no such object; patterns are for files of this machine: name each object")
            paths.append(name)
            continue
        if os.path.isdir(name):
            candidates = [entry.path for entry in os.scandir(name) if entry.is_file()]
            _check_folders(name)
        elif name != "-" and not os.path.exists(name) and ("*" in name or "?" in name):
            candidates = [path for path in glob.glob(name.replace("[", "[[]")) if not os.path.isdir(path)]
        else:
            paths.append(name)
            continue
        wanted = candidates if is_aside(name) else [path for path in candidates if not is_aside(path)]
        if not wanted:
            what = "the folder has no files" if os.path.isdir(name) else "no file fits"
            aside = (
                f" but {len(candidates):,} hidden or temporary ones; name those that are meant" if candidates else ""
            )
            raise InputError(f"{name}: {what}{aside}")
        if len(wanted) < len(candidates) and not quiet:
            first = os.path.basename(min(path for path in candidates if is_aside(path)))
            n = len(candidates) - len(wanted)
            print(f"{name}: {n:,} hidden or temporary file{'s' if n > 1 else ''} left out ({first}"
                  f"{', ...' if n > 1 else ''}); name {'them' if n > 1 else 'it'} to read "
                  f"{'them' if n > 1 else 'it'}", file=sys.stderr)  # fmt: skip
        paths += sorted(wanted)
    return paths


def is_aside(path: str) -> bool:
    """A hidden file, a mark of a program that wrote the others (_SUCCESS), a backup, or one that is not whole yet."""
    import os

    name = os.path.basename(path)
    return name.startswith((".", "_", "#")) or name.endswith(("~", ".bak", ".tmp", ".swp", ".part", ".crdownload"))


def _check_folders(name: str) -> None:
    """InputError where a folder has folders in it, which are not read."""
    import os

    folders = sorted(entry.name for entry in os.scandir(name) if entry.is_dir() and not is_aside(entry.name))
    if not folders:
        return
    inner, pattern_beside = os.path.join(name, "*", "*"), os.path.join(name, "*")
    column, equals, _ = folders[0].partition("=")
    if equals:
        raise InputError(
            f"{name}: is divided by the column {column} ({folders[0]}, ...), which no file contains; '{inner}' reads "
            "the files without it, or write the column into them"
        )
    raise InputError(
        f"{name}: has folders in it ({folders[0]}{', ...' if len(folders) > 1 else ''}), which are not read; '{inner}' "
        f"reads the files in them, '{pattern_beside}' those beside them; docs/recipes/text-folder.md makes one "
        "file of a folder for each class"
    )


def chosen_in(options) -> dict:
    """The settings of formats among parsed options, by name; None for one that was not given."""
    return {name: getattr(options, name) for name in settings_offered(options.format).names()}


def add_settings(
    parser,
    title: str,
    settings: Settings,
    only: Sequence[str] | None = None,
    types: Mapping[str, Callable] | None = None,
) -> None:
    """Add a group of options to a parser, each None (or False) where it is not given; values are checked by whoever
    takes the settings.  only: names of those wanted; types: parsers of values that people write in their own way."""
    group = parser.add_argument_group(title)
    for setting in settings:
        if only is not None and setting.name not in only:
            continue
        if setting.kind is bool:
            group.add_argument(option_string(setting.name), dest=setting.name, action="store_true", default=None,
                               help=setting.described().replace("%", "%%"))  # fmt: skip
            continue
        metavar = setting.metavar or {str: "NAME", int: "N"}.get(setting.kind, "X")
        if setting.choices and len(setting.choices) <= 3:
            metavar = "|".join(map(str, setting.choices))
        group.add_argument(option_string(setting.name), dest=setting.name, type=(types or {}).get(setting.name, str),
                           metavar=metavar, choices=Known(map(str, setting.choices)) if setting.choices else None,
                           help=setting.described().replace("%", "%%"))  # fmt: skip


def add_checkpoint(group, saved: str) -> None:
    """Add ``--checkpoint``, which keeps what ``saved`` says, ``--checkpoint-seconds`` and ``--resume`` to a group."""
    from blocksvm.cli.console import duration

    group.add_argument("--checkpoint", metavar="FILE", help=f"save {saved} to FILE at intervals and on Ctrl-C")
    group.add_argument(
        "--checkpoint-seconds", type=duration, default=600.0, metavar="S", help="time between two saves (default 10m)"
    )
    group.add_argument("--resume", action="store_true", help="continue from --checkpoint, if that file exists")


def resumes(options, checkpoint: Path | None) -> bool:
    """There is a checkpoint to go on from; says so where there is none yet."""
    if options.resume and not checkpoint.exists():
        if not options.quiet:
            print(f"{checkpoint}: no checkpoint yet; starting afresh", file=sys.stderr)
        return False
    return options.resume


def unlimited(options, status: str) -> bool:
    """No limit that was given has ended a run of this status above its tolerance."""
    limits = ("max_outer", "max_passes", "max_seconds")
    return status == ROUNDING or not any(getattr(options, name, None) for name in limits)


def saved_in(checkpoint: Path | None) -> str:
    """The end of the sentence on an interrupted run: where its state was saved, or would be."""
    if checkpoint is None:
        return "; nothing was saved (--checkpoint FILE saves the state)"
    return f"; state saved in {checkpoint}, go on with --resume"


def chosen_values(options, settings: Settings) -> dict:
    """The settings that were given among parsed options."""
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
    from textwrap import fill

    wrapped = partial(fill, width=80, break_long_words=False, break_on_hyphens=False)
    rows = []
    for setting in settings:
        metavar = setting.metavar or {str: "NAME", int: "N", bool: ""}.get(setting.kind, "X")
        rows.append((f"{option_string(setting.name)} {metavar}".rstrip(), setting.described()))
    width = max((len(flag) for flag, _ in rows), default=0)
    lines = [wrapped(line, subsequent_indent="  ") for line in (f"{name}: {summary}", *more)]
    lines += [""] if rows else []
    indent = " " * (width + 4)
    lines += [wrapped(text, initial_indent=f"  {flag.ljust(width)}  ", subsequent_indent=indent) for flag, text in rows]
    return "\n".join(lines)
