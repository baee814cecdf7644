"""Files that are written: under a temporary name in the same folder, synced and closed, every error seen, then renamed,
so that after any fault there is the old file or the new one.  An object is made in the folder for temporary files, and
takes its name when all of it has been uploaded.

A temporary file has one name for each output, and a lock that ends with its process: the next run over the same output
takes what a killed one has left.
"""

import errno
import fcntl
import io
import json
import math
import os
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from xxhash import xxh3_64_hexdigest

from blocksvm.base.errors import InputError, option
from blocksvm.files.input import named_errors, open_input
from blocksvm.files.paths import Location, ObjectUrl, note_written

LONGEST_NAME, LONGEST_STEM = 230, 150  # bytes of an output's name, and within a temporary one; file systems allow 255
KINDS = {None: "output", "log": "trace", "rows": "list of rows", "structure": "structured model"}  # with other names
HDF5_KINDS = ("store", "model", "checkpoint", "structure")
TRACE = b'{"event":'  # how one begins
PIECE = 1 << 20  # bytes that are written at a time
NOT_FOR_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # of a file system that cannot sync a folder
UPLOAD_SHARE = 1 / 20  # of the time, at most, that a text which grows is uploaded in


def check_outputs(
    outputs: Mapping[str | None, Location], overwrite: bool, inputs: Iterable[Location], resumed=False
) -> None:
    """``check_output`` by kinds, of which none may be another, or an input; resumed: checkpoints and traces go on."""
    for kind, path in outputs.items():
        continued = resumed and kind in ("checkpoint", "log")
        check_output(path, overwrite or continued, kind)
        if continued and kind == "log" and path.is_file() and not overwrite:
            with open_input(path) as file:
                if not TRACE.startswith(file.read(len(TRACE))):
                    raise InputError(f"{path}: is not a trace written by blocksvm, so it is not continued; choose "
                                     "another name, or remove it first")  # fmt: skip
    known = {path.resolve(): "an input" for path in inputs} if outputs else {}
    for kind, path in outputs.items():
        what = f"the {KINDS.get(kind, kind)}"
        if (other := known.setdefault(path.resolve(), what)) != what:
            raise InputError(f"{path}: is also {other}; choose another name for {what}")


def check_output(path: Location, overwrite: bool, kind: str | None = None) -> None:
    """Refuse an output that cannot be written, or that exists and may not be replaced, before any work is done.

    kind: what will be written.  Text may also go into a pipe, a terminal or a device such as /dev/null.
    """
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        raise InputError(f"{path}: the name is too long; choose one of at most {LONGEST_NAME} bytes")
    mode = _mode(path)
    if stat.S_ISDIR(mode):
        raise InputError(f"{path}: is a folder; give the name of a file to write")
    if mode and not stat.S_ISREG(mode):
        if kind in HDF5_KINDS or not (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
            raise InputError(f"{path}: is no regular file, so it is not replaced; give the name of a file to write")
        if not os.access(path, os.W_OK):
            raise InputError(f"{path}: no permission to write into it")
        return
    if mode and not overwrite:
        raise InputError(f"{path}: exists already; choose another name or add {option('overwrite', True)}")
    if isinstance(path, Path):
        parent = _target(path).parent
        if not parent.is_dir():
            raise InputError(f"{path}: the folder {parent} does not exist; make it first")
        if not os.access(parent, os.W_OK):
            raise InputError(f"{path}: no permission to write in {parent}; choose another location")


def _target(path: Path) -> Path:
    """The file that is written for ``path``: where a symbolic link leads, or itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _mode(path: Location) -> int:
    """What is at ``path``, links followed; 0 where there is nothing."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise InputError(f"{path}: cannot be looked at ({error.strerror}); choose another location") from error


def _is_special(path: Location) -> bool:
    return not stat.S_ISREG(_mode(path) or stat.S_IFREG)


def temporary_folder(path: Location, temp: Path | None = None) -> Path:
    """Where an output is made: beside it, of an object in ``temp`` (None: the system's folder for temporary files)."""
    return path.parent if isinstance(path, Path) else temp or Path(tempfile.gettempdir())


def _locked(path: Path, output: Location) -> int:
    """A descriptor of the file at ``path``, made or emptied, and locked; InputError where another run holds it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            busy = f"{output}: is being made by another run now; choose another name, or wait for it"
            raise InputError(busy) from None
        except OSError:  # a file system without locks
            pass
        with suppress(OSError):  # it may have taken another name, or gone, before it was locked
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                os.ftruncate(descriptor, 0)
                return descriptor
        os.close(descriptor)


class TemporaryFolder:
    """A folder in ``parent`` (None: the system's); it goes at the end of a ``with``, or when nothing refers to this."""

    def __init__(self, parent: str | Path | None = None):
        self.path = Path(tempfile.mkdtemp(prefix=".blocksvm-", dir=parent))
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error) -> None:
        self.remove()


class NewFile(io.RawIOBase):
    """A file under a temporary name, written at any position.  No write raises: an HDF5 whose writing fails crashes, or
    loses the error when it closes the file.  The first error, which names the output, is stored, later ones are
    dropped; ``check``, ``finish`` raise.

    path: the output; overwrite: whether it may exist when the file takes its name; temp: where an object is made.
    """

    def __init__(self, path: Location, overwrite: bool, temp: Path | None = None):
        self.path, self.overwrite = path, overwrite
        self.position = 0
        self.error: BaseException | None = None
        if isinstance(path, ObjectUrl):
            self.descriptor, name = tempfile.mkstemp(prefix=".blocksvm-", dir=temp)
            self.target = self.partial = Path(name)
        else:
            self.target = _target(path)
            name = os.fsencode(self.target.name)
            stem = self.target.name if len(name) <= LONGEST_STEM else xxh3_64_hexdigest(name)
            self.partial = self.target.with_name(f".{stem}.partial")
            with named_errors(path):
                self.descriptor = _locked(self.partial, path)
        self.lock = os.dup(self.descriptor)  # until the file has its name, or is gone

    def writable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.position}.get(whence)
        self.position = offset + (os.fstat(self.descriptor).st_size if base is None else base)
        return self.position

    def attempt(self, act: Callable[[], Any]) -> Any:
        """What ``act`` returns, None after an error."""
        try:
            if self.error is None:
                with named_errors(self.path):
                    return act()
        except BaseException as error:
            self.error = error
        return None

    def write(self, data) -> int:
        view = memoryview(data).cast("B")
        self.attempt(lambda: self._put(view, self.position))
        self.position += len(view)
        return len(view)

    def _put(self, view: memoryview, start: int) -> None:
        while view:
            done = os.pwrite(self.descriptor, view, start)
            view, start = view[done:], start + done

    def readinto(self, buffer) -> int:
        """The bytes that were written; zeros where there are none, as HDF5's own drivers give them."""
        view = memoryview(buffer).cast("B")
        data = self.attempt(lambda: os.pread(self.descriptor, len(view), self.position)) or b""
        view[: len(data)] = data
        view[len(data) :] = bytes(len(view) - len(data))
        self.position += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        size = self.position if size is None else size
        self.attempt(lambda: os.ftruncate(self.descriptor, size))
        return size

    def check(self) -> None:
        """Raise what writing has failed with."""
        if self.error is not None:
            raise self.error

    def finish(self) -> None:
        """Sync and close the file; raises what anything has failed with."""
        self.attempt(lambda: os.fsync(self.descriptor))
        self.attempt(self.close)
        self.check()

    def close(self) -> None:
        if not self.closed:
            super().close()
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)

    def discard(self) -> None:
        """Close and remove what was written, whatever its state."""
        with suppress(OSError):
            self.close()
        with suppress(OSError):
            os.unlink(self.partial)
        os.close(self.lock)

    def take_name(self) -> None:
        """Rename, or upload; InputError where there is a file of that name which may not be replaced."""
        try:
            if isinstance(self.path, ObjectUrl):
                self.path.remote.write(self.partial, new=not self.overwrite)
                os.unlink(self.partial)
            elif not self.overwrite and self.target.exists():
                raise FileExistsError
            else:
                with named_errors(self.path):
                    os.replace(self.partial, self.target)
        except FileExistsError:
            raise InputError(_made_meanwhile(self.path)) from None
        note_written(self.path)


class Checked(io.BufferedWriter):
    """The same for Python's writers, which raise as soon as writing fails."""

    raw: NewFile

    def write(self, data) -> int:
        done = super().write(data)
        self.raw.check()
        return done


@contextmanager
def new_files(paths: Iterable[Location], overwrite: bool, temp: Path | None = None) -> Iterator[list[NewFile]]:
    """Files to write to, which take their names together when the body ends well, and vanish when it does not."""
    files: list[NewFile] = []
    taken: list[NewFile] = []
    try:
        for path in paths:
            files.append(NewFile(path, overwrite, temp))
        yield files
        for file in files:
            file.finish()
        for file in files:
            file.take_name()
            taken.append(file)
    except BaseException:
        for file in taken:  # new ones are removed again
            with suppress(OSError, InputError):
                if not file.overwrite:
                    file.path.unlink()
        for file in files:
            file.discard()
        raise
    for file in files:
        os.close(file.lock)
    for folder in {file.target.parent for file in files if not isinstance(file.path, ObjectUrl)}:
        sync_folder(folder, files[0].path)


def sync_folder(folder: Path, path: Location) -> None:
    """Make renames last; OSError says that the file is there all the same."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in NOT_FOR_FOLDERS:
            what = f"was written, but its folder could not be synced ({os.strerror(error.errno or errno.EIO).lower()})"
            raise OSError(error.errno, what, str(path)) from error


@contextmanager
def written_whole(path: Location, overwrite: bool = True) -> Iterator[IO[bytes]]:
    """A binary file to write to, which takes the name ``path`` when the body ends well and vanishes when it does not.

    Without ``overwrite`` the name is taken only where there is no such file: of two runs at once, the later one raises
    InputError.  A symbolic link stays, and the file that it leads to is replaced; a device or pipe is written into.
    """
    if _is_special(path):
        with named_errors(path), open(path, "wb") as file:
            yield file
        return
    with new_files([path], overwrite) as (new,):
        buffered = Checked(new, PIECE)
        yield buffered
        buffered.flush()


@contextmanager
def written_text(path: Location, overwrite: bool = True) -> Iterator[IO[str]]:
    """The same for text, as UTF-8 with lines as they are given."""
    with written_whole(path, overwrite) as file, as_text(file) as text:
        yield text


@contextmanager
def as_text(file: IO[bytes]) -> Iterator[IO[str]]:
    """A binary file as text in UTF-8, lines as they are given; what is written is in ``file`` when the body ends."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    yield text
    text.detach()


def write_json(path: Location, figures: Mapping, overwrite: bool) -> None:
    """A report as JSON, see ``written_whole``."""
    with written_text(path, overwrite) as file:
        file.write(json.dumps(figures, indent=2, allow_nan=False) + "\n")


class JsonLines:
    """A log of JSON objects, one a line, written under its own name: from its beginning, or ``going_on`` at its end.
    An object is uploaded whole now and then, and by ``close``.

    overwrite: whether there may be one already; InputError where another run was faster.  Where it cannot be written
    any more (a full disk), warn(sentence) is called once, the file keeps its whole lines, and what comes later is left
    out: a training does not lose its model for want of a log.
    """

    def __init__(self, path: Location, warn: Callable[[str], None], overwrite: bool, going_on: bool = False):
        self.path, self.warn, self.new = path, warn, not (overwrite or going_on)
        self.due = 0.0  # when an object is uploaded next
        try:
            if isinstance(path, ObjectUrl):
                self.file: IO[bytes] | None = self._begun(path, going_on)
            else:
                mode = "ab" if going_on else "xb" if self.new and not _is_special(path) else "wb"
                self.file = open(path, mode)  # noqa: SIM115
        except FileExistsError:
            raise InputError(_made_meanwhile(path)) from None
        self.n_bytes = os.fstat(self.file.fileno()).st_size  # of whole lines

    def _begun(self, path: ObjectUrl, going_on: bool) -> IO[bytes]:
        file = tempfile.NamedTemporaryFile(prefix=".blocksvm-")  # noqa: SIM115
        try:
            if going_on and path.exists():
                with open_input(path) as old:
                    shutil.copyfileobj(old, file)
            if self.new:  # of two runs at once, the later one is told at once
                self._upload(path, file.name)
        except BaseException:
            file.close()
            raise
        return file

    def _upload(self, path: ObjectUrl, made: str) -> None:
        began = time.monotonic()
        try:
            path.remote.write(Path(made), new=self.new)
        except InputError as error:
            raise OSError(errno.EIO, str(error)) from error
        self.new = False
        now = time.monotonic()
        self.due = now + (now - began) / UPLOAD_SHARE

    def _flush(self, at: float) -> None:
        if self.file is not None:
            self.file.flush()
            if isinstance(self.path, ObjectUrl) and at >= self.due:
                self._upload(self.path, self.file.name)

    def write(self, event: Mapping) -> None:
        """ValueError where the event is not JSON."""
        line = json.dumps(event, allow_nan=False) + "\n"
        if self.file is None:
            return
        try:
            self.file.write(line.encode())
            self._flush(time.monotonic())
            self.n_bytes += len(line)
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        try:
            self._flush(math.inf)
            if self.file is not None:
                self.file.close()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        with suppress(OSError):
            self.file.close()  # it tries to write what is left, and fails again
        self.file = None
        with suppress(OSError):
            if isinstance(self.path, Path) and self.path.is_file():
                os.truncate(self.path, self.n_bytes)
        what = (error.strerror or str(error)).lower()
        self.warn(f"{self.path}: {what}; the log ends here, the run goes on")


def _made_meanwhile(path: Location) -> str:
    return f"{path}: was made by another run meanwhile; choose another name or add {option('overwrite', True)}"
