"""Files that are written: what may be replaced, where the bytes go, and how a file takes its name.

A file is written under a temporary name beside its own and takes its name when it is whole.  Temporary names tell the
process that owns them, so that a later run over the same output removes what a killed one has left.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path

from xxhash import xxh3_64_hexdigest

from blocksvm.errors import InputError
from blocksvm.labels import label_text

LONGEST_NAME = 230  # bytes; file systems allow 255
LONGEST_STEM = 150  # bytes of an output's name within a temporary one
HDF5_KINDS = ("store", "model", "checkpoint", "structure-checkpoint", "structure")  # none begins as one after it
HDF5 = b"\x89HDF\r\n\x1a\n"
LOOKED_AT = 1 << 16  # bytes at a file's beginning that tell what it is
# kinds of files that are told by their first bytes -> these
BEGINNINGS = {
    "support vectors": b"row,label,alpha,margin",
    "LIBLINEAR model": b"solver_type ",
    "table": b"id,",
    "Parquet table": b"PAR1",
    "estimator": b"\x80",
    "ONNX model": b"\x08",
}
FIGURES = (b"\x89PNG", b"%PDF", b"<?xml", b"<svg", b"%!PS", b"\xff\xd8\xff")


# ------------------------------------------------------------------------------------------------ before the work


def check_outputs(outputs: Mapping[str, Path], overwrite: bool, inputs: Iterable[Path]) -> None:
    """``check_output`` of several by their kinds, none of which may be another, or an input."""
    for kind, path in outputs.items():
        check_output(path, overwrite, kind)
    resolved = [path.resolve() for path in (*outputs.values(), *inputs)]
    if len(set(resolved)) < len(resolved):
        raise InputError(
            f"{next(iter(outputs.values()))}: is given twice, as an input and an output or as two outputs; choose "
            "another name"
        )


def check_output(path: Path, overwrite: bool, kind: str | None = None, labels: tuple = ()) -> None:
    """Refuse an output that cannot be written, or that exists and may not be replaced, before any work is done.

    kind: what will be written, 'store', 'model', 'checkpoint', 'trace', 'predictions', 'questions', 'json', 'report',
    'figure', or one of ``BEGINNINGS``: with ``overwrite`` only such a file is replaced (or an empty one); None: any.
    labels: those that predictions may name.  Text may also go to a pipe, a terminal or a device such as /dev/null,
    which is written into.
    """
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        raise InputError(f"{path}: the name is too long; choose one of at most {LONGEST_NAME} bytes")
    if not path.is_absolute():
        try:
            os.getcwd()
        except OSError:
            raise InputError(f"{path}: the current folder does not exist any more; change to another") from None
    found = _status(path)
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise InputError(f"{path}: is a folder; give the name of a file to write")
    if found is not None and not stat.S_ISREG(found.st_mode):
        if kind in HDF5_KINDS or not (stat.S_ISCHR(found.st_mode) or stat.S_ISFIFO(found.st_mode)):
            raise InputError(
                f"{path}: is {_what(found.st_mode)}, which is not replaced; give the name of a file to write"
            )
        if not os.access(path, os.W_OK):
            raise InputError(f"{path}: no permission to write into it")
        return
    if found is not None and _is_standard(found):
        raise InputError(f"{path}: is where the command's own messages go; give the name of another file")
    if found is not None and not overwrite:
        raise InputError(f"{path}: exists already; choose another name or add --overwrite")
    target = destination(path)
    parent = target.parent
    if not parent.is_dir():
        raise InputError(f"{path}: the folder {parent} does not exist; make it first")
    if not os.access(parent, os.W_OK):
        raise InputError(f"{path}: no permission to write in {parent}; choose another place")
    if found is not None and kind is not None and not _is_ours(target, kind, labels):
        raise InputError(
            f"{path}: is not {_article(kind)} written by blocksvm, and nothing else is replaced; choose another name, "
            "or remove it first"
        )


def destination(path: Path) -> Path:
    """The file that is written for ``path``: where a symbolic link leads, or itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _status(path: Path) -> os.stat_result | None:
    """What lies at ``path``, links followed; None where there is nothing."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path}: is a symbolic link that leads to itself; remove it") from None
        raise InputError(f"{path}: cannot be looked at ({error.strerror}); choose another place") from error


def _what(mode: int) -> str:
    kinds = {stat.S_IFCHR: "a device", stat.S_IFBLK: "a disk", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "no regular file")


def _is_standard(found: os.stat_result) -> bool:
    """The file is standard output or standard error itself, under another name (such as /dev/stdout)."""
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(found, os.fstat(descriptor)):
                return True
    return False


def _article(kind: str) -> str:
    return {
        "predictions": "a file of predictions",
        "questions": "a list of rows",
        "json": "a JSON report",
        "support vectors": "a list of support vectors",
        "structure": "a structured model",
        "structure-checkpoint": "a checkpoint of a structured learner",
    }.get(kind, f"a {kind}")


def _is_ours(path: Path, kind: str, labels: tuple) -> bool:
    """The file looks like one of this kind that we wrote, or is empty.  A damaged one counts as well, as long as it
    begins as ours do: the advice is to make it again."""
    try:
        with open(path, "rb") as file:
            start = file.read(LOOKED_AT)
    except OSError:
        return False
    if not start:
        return True
    if kind in HDF5_KINDS:
        # the attribute that tells the kind lies in the root's header
        kinds = "|".join(HDF5_KINDS).encode()
        named = re.search(rb"blocksvm\0.{0,64}?(" + kinds + rb")", start, re.DOTALL)
        return start.startswith(HDF5) and named is not None and named[1].decode() == kind
    if kind == "figure":
        return start.lstrip().startswith(FIGURES)
    if kind in BEGINNINGS:
        return start.startswith(BEGINNINGS[kind])
    if kind == "report":
        return start.startswith(b"<!doctype html>") and b'content="blocksvm' in start
    if kind == "json":
        ours = any(key in start for key in (b'"learner"', b'"folds"', b'"hard"'))
        return re.match(rb"\s*\{\s*\"", start) is not None and ours
    lines = start.decode("utf-8", "replace").split("\n")
    if len(start) == LOOKED_AT:
        del lines[-1]  # it may be cut
    if kind == "trace":
        return _is_event(lines[0]) if lines else False
    if kind == "questions":
        return all(re.fullmatch(r".+:\d+", line) for line in lines if line)
    texts = {label_text(label) for label in labels}
    return all(
        line in texts or all(part in texts for part in line.split(",")) or _is_numbers(line) for line in lines if line
    )


def _is_event(line: str) -> bool:
    try:
        return "event" in json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return False


def _is_numbers(line: str) -> bool:
    try:
        return [float(word) for word in line.split(" ")] != []
    except ValueError:
        return False


# ------------------------------------------------------------------------------------------------ owners


@cache
def _machine() -> str:
    """Tells machines, and containers with process numbers of their own, apart."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return xxh3_64_hexdigest(f"{socket.gethostname()} {space}".encode())[:8]


def _start_of(pid: int) -> str | None:
    """When a process began, in the system's ticks; None where it does not live."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if fields[0] in "ZX" else fields[19]


def owner() -> str:
    """This process, as temporary names tell it: number, start and machine."""
    return f"{os.getpid()}-{_start_of(os.getpid())}-{_machine()}"


def is_abandoned(name_of_owner: str) -> bool:
    """The process does not live any more; False where that cannot be known (another machine's)."""
    pid, start, machine = name_of_owner.split("-")
    return machine == _machine() and _start_of(int(pid)) != start


def _stem(name: str) -> str:
    return name if len(os.fsencode(name)) <= LONGEST_STEM else xxh3_64_hexdigest(os.fsencode(name))


def remove_abandoned(folder: Path, name: str) -> None:
    """Remove what killed runs that were writing an output of this name have left in ``folder``."""
    pattern = re.compile(rf"\.{re.escape(_stem(name))}\.(\d+-\d+-[0-9a-f]{{8}})(\.\w+)?\.(partial|shuffle)")
    with suppress(OSError):
        for entry in os.scandir(folder):
            found = pattern.fullmatch(entry.name)
            if found and is_abandoned(found[1]):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    with suppress(OSError):
                        os.unlink(entry.path)


@contextmanager
def scratch_folder(place: Path, name: str) -> Iterator[Path]:
    """A folder in ``place`` for what is put aside while an output of this name is made; it goes with its contents."""
    remove_abandoned(place, name)
    folder = tempfile.mkdtemp(prefix=f".{_stem(name)}.{owner()}.", suffix=".shuffle", dir=place)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ------------------------------------------------------------------------------------------------ the writing

_numbers = count()  # of this process's temporary files


@contextmanager
def written_whole(path: Path, overwrite: bool = True) -> Iterator[Path]:
    """A path to write to: a temporary one, which takes the name when the body ends well and vanishes when it does not.

    Without ``overwrite`` the name is taken only where there is no such file: of two runs at once, the later one raises
    InputError.  A symbolic link stays, and the file that it leads to is replaced; a device or pipe is written into.
    Errors of the system name ``path``.
    """
    found = _status(path)
    if found is not None and not stat.S_ISREG(found.st_mode):
        with named_errors(path):
            yield path
        return
    target = destination(path)
    remove_abandoned(target.parent, target.name)
    partial = target.with_name(f".{_stem(target.name)}.{owner()}.{next(_numbers)}.partial")
    try:
        with named_errors(path, target.parent):
            yield partial
            with open(partial, "rb+") as file:
                os.fsync(file.fileno())
            if overwrite:
                os.replace(partial, target)
            else:
                _take_name(partial, target, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def write_json(path: Path, told: Mapping, overwrite: bool) -> None:
    """A report as JSON, see ``written_whole``."""
    with written_whole(path, overwrite) as partial:
        partial.write_text(json.dumps(told, indent=2, allow_nan=False) + "\n")


def _take_name(partial: Path, target: Path, path: Path) -> None:
    """Rename; InputError where there is a file of that name."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise InputError(f"{path}: was made by another run meanwhile; choose another name or add --overwrite") from None
    except OSError:  # a file system without hard links: hold the name by an empty file first
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            raise InputError(
                f"{path}: was made by another run meanwhile; choose another name or add --overwrite"
            ) from None
        os.replace(partial, target)
    else:
        partial.unlink()


def open_text(path: Path, overwrite: bool, going_on: bool = False):
    """A text file to be written line by line under its own name: anew, or ``going_on`` behind what it holds.  Without
    ``overwrite`` it must be new; InputError where another run was faster."""
    found = _status(path)
    special = found is not None and not stat.S_ISREG(found.st_mode)
    mode = "a" if going_on else "w" if overwrite or special else "x"
    try:
        return open(path, mode, encoding="utf-8")
    except FileExistsError:
        raise InputError(f"{path}: was made by another run meanwhile; choose another name or add --overwrite") from None


@contextmanager
def named_errors(path: Path, folder: Path | None = None) -> Iterator[None]:
    """Errors of the system on writing, with ``path`` in them; where ``folder`` has vanished, an InputError says so."""
    try:
        yield
    except OSError as error:
        if folder is not None and error.errno in (errno.ENOENT, errno.ENOTDIR) and not folder.is_dir():
            raise InputError(
                f"{path}: the folder {folder} has vanished; make it again, or choose another place"
            ) from None
        number = error.errno
        if number is None:  # HDF5 tells it in words of its own
            told = re.search(r"errno = (\d+)", str(error))
            number = int(told[1]) if told else None
        if number is None or not (error.filename is None or str(error.filename).endswith(".partial")):
            raise
        raise OSError(number, os.strerror(number), str(path)) from error
    except RuntimeError as error:
        told = re.search(r"errno = (\d+)", str(error))
        if told is None:
            raise
        raise OSError(int(told[1]), os.strerror(int(told[1])), str(path)) from error
