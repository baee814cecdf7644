"""Checks of outputs, before any work is done: what may be written where."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from blocksvm.base.errors import InputError, option
from blocksvm.base.inputs import open_input
from blocksvm.base.objects.remote_path import RemotePath

LONGEST_NAME = 230  # bytes; file systems allow 255
HDF5_KINDS = ("store", "model", "checkpoint", "structure")
HDF5 = b"\x89HDF\r\n\x1a\n"
HEAD_BYTES = 1 << 16  # bytes at a file's beginning that tell what it is
CONTINUED = ("checkpoint", "log")


def check_outputs(outputs: Mapping[str | None, Path], overwrite: bool, inputs: Iterable[Path], resumed=False) -> None:
    """``check_output`` of several by their kinds, none of which may be another, or an input; resumed: checkpoints and
    traces are continued."""
    for kind, path in outputs.items():
        continued = resumed and kind in CONTINUED
        # the content of a checkpoint that is continued is checked when it is opened
        check_output(path, overwrite or continued, None if continued and kind != "log" else kind)
    known = {path.resolve(): "an input" for path in inputs} if outputs else {}
    for kind, path in outputs.items():
        what = _article(kind)
        if (other := known.setdefault(path.resolve(), what)) != what:
            raise InputError(f"{path}: is also {other}; choose another name for {what.replace('a ', 'the ', 1)}")


def check_output(path: Path, overwrite: bool, kind: str | None = None) -> None:
    """Refuse an output that cannot be written, or that exists and may not be replaced, before any work is done.

    kind: what will be written.  In the place of a store, model, checkpoint or log only such a file is replaced, or an
    empty one: a name that was forgotten is often that of an input.  Text may also go to a pipe, a terminal or a device
    such as /dev/null, which is written into.
    """
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        raise InputError(f"{path}: the name is too long; choose one of at most {LONGEST_NAME} bytes")
    if not path.is_absolute():
        try:
            os.getcwd()
        except OSError:
            raise InputError(f"{path}: the current folder does not exist any more; change to another") from None
    status = status_of(path)
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise InputError(f"{path}: is a folder; give the name of a file to write")
    if status is not None and not stat.S_ISREG(status.st_mode):
        if kind in HDF5_KINDS or not (stat.S_ISCHR(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
            raise InputError(
                f"{path}: is {_what(status.st_mode)}, which is not replaced; give the name of a file to write"
            )
        if not os.access(path, os.W_OK):
            raise InputError(f"{path}: no permission to write into it")
        return
    if status is not None and _is_standard(status):
        raise InputError(f"{path}: is where the command's own messages go; give the name of another file")
    if status is not None and not overwrite:
        raise InputError(f"{path}: exists already; choose another name or add {option('overwrite', True)}")
    target = destination(path)
    parent = target.parent
    if not isinstance(path, RemotePath):
        if not parent.is_dir():
            raise InputError(f"{path}: the folder {parent} does not exist; make it first")
        if not os.access(parent, os.W_OK):
            raise InputError(f"{path}: no permission to write in {parent}; choose another place")
    if status is not None and kind is not None and not _is_ours(target, kind):
        raise InputError(
            f"{path}: is not {_article(kind)} written by blocksvm, so it is not replaced; choose another name, "
            "or remove it first"
        )


def destination(path: Path) -> Path:
    """The file that is written for ``path``: where a symbolic link leads, or itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def status_of(path: Path) -> os.stat_result | None:
    """The status of the file at ``path``, links followed; None where there is nothing."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path}: is a symbolic link that leads to itself; remove it") from None
        raise InputError(f"{path}: cannot be looked at ({error.strerror}); choose another place") from error


def _what(mode: int) -> str:
    kinds = {stat.S_IFCHR: "a device", stat.S_IFBLK: "a disk", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "no regular file")


def _is_standard(status: os.stat_result) -> bool:
    """The file is standard output or standard error itself, under another name (such as /dev/stdout)."""
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(status, os.fstat(descriptor)):
                return True
    return False


def _article(kind: str | None) -> str:
    """The kind of file with its article, as sentences name it."""
    if kind is None:
        return "the output"
    return {"log": "a trace", "rows": "a list of rows", "structure": "a structured model"}.get(
        kind, f"{'an' if kind[0] in 'aeioO' else 'a'} {kind}"
    )


def _is_ours(path: Path, kind: str) -> bool:
    """The file may be one of this kind that we wrote, damaged or not, or is empty; of other kinds any may."""
    if kind not in (*HDF5_KINDS, "log"):
        return True
    with open_input(path) as file:
        start = file.read(HEAD_BYTES)
    if not start:
        return True
    if kind == "log":
        try:
            return "event" in json.loads(start.partition(b"\n")[0])
        except (ValueError, TypeError, RecursionError):
            return False
    # the attribute that tells the kind lies in the root's header
    named = re.search(rb"blocksvm\0.{0,64}?(" + "|".join(HDF5_KINDS).encode() + rb")", start, re.DOTALL)
    return start.startswith(HDF5) and named is not None and named[1].decode() == kind
