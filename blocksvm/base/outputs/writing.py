"""Writing of files that take their name only when all of it was written and is on the disk.

A file is written under a temporary name beside its own.  At the end it is synced and closed, takes its name by one
rename, and the folder is synced: after any fault there is the old file or the new one.  An object is made in the
folder for temporary files, and takes its name when all of it has been uploaded.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from blocksvm.base.errors import InputError, option
from blocksvm.base.inputs import note_written
from blocksvm.base.objects.remote_path import RemotePath
from blocksvm.base.outputs.checks import destination, status_of
from blocksvm.base.outputs.temporary import create_alone, temporary_name
from blocksvm.base.outputs.uploads import RemoteText

PIECE = 1 << 20  # bytes that are written at a time
NOT_FOR_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # of a file system that cannot sync a folder


class NewFile(io.RawIOBase):
    """A file under a temporary name, written from its beginning to its end; its errors name the output.

    path: the output; overwrite: whether it may exist when the file takes its name; temp: where an object is made.
    """

    def __init__(self, path: Path, overwrite: bool, temp: Path | None = None):
        self.path = path
        self.overwrite = overwrite
        self.position = 0
        if isinstance(path, RemotePath):
            self.descriptor, name = tempfile.mkstemp(prefix=".blocksvm-", dir=temp)
            self.target = self.partial = Path(name)
        else:
            self.target = destination(path)
            self.partial = temporary_name(self.target)
            with named_errors(path, self.target.parent):
                self.descriptor = create_alone(self.partial, path)
        self.lock = os.dup(self.descriptor)  # until the file has its name, or is gone

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def fileno(self) -> int:
        return self.descriptor

    def tell(self) -> int:
        return self.position

    def write(self, data) -> int:
        """Write all of ``data``."""
        return self._put(memoryview(data).cast("B"))

    def _put(self, view: memoryview) -> int:
        if self.closed:
            raise ValueError(f"{self.path}: is closed")
        done = 0
        with named_errors(self.path, self.target.parent):
            while done < len(view):
                done += os.pwrite(self.descriptor, view[done:], self.position + done)
        self.position += done
        return done

    def finish(self) -> None:
        """Sync and close the file; raises OSError where that fails."""
        with named_errors(self.path, self.target.parent):
            try:
                os.fsync(self.descriptor)
            finally:
                self.close()

    def close(self) -> None:
        """Close the descriptor; raises what closing fails with."""
        if not self.closed:
            super().close()
            with named_errors(self.path):
                os.close(self.descriptor)

    def discard(self) -> None:
        """Close and remove what was written, whatever its state."""
        with suppress(OSError):
            self.close()
        with suppress(OSError):
            os.unlink(self.partial)
        self.release()

    def release(self) -> None:
        """Let other runs write the output."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


@contextmanager
def written_whole(path: Path, overwrite: bool = True) -> Iterator[IO[bytes]]:
    """A binary file to write to, which takes the name ``path`` when the body ends well and vanishes when it does not.

    Without ``overwrite`` the name is taken only where there is no such file: of two runs at once, the later one raises
    InputError.  A symbolic link stays, and the file that it leads to is replaced; a device or pipe is written into.
    """
    status = status_of(path)
    if status is not None and not stat.S_ISREG(status.st_mode):
        with named_errors(path), open(path, "wb") as file:
            yield file
        return
    new = NewFile(path, overwrite)
    try:
        buffered = io.BufferedWriter(new, PIECE)
        yield buffered
        buffered.flush()
        new.finish()
        take_names([new])
    except BaseException:
        new.discard()
        raise


@contextmanager
def written_text(path: Path, overwrite: bool = True) -> Iterator[IO[str]]:
    """The same for text, as UTF-8 with lines as they are given."""
    with written_whole(path, overwrite) as file, as_text(file) as text:
        yield text


@contextmanager
def as_text(file: IO[bytes]) -> Iterator[IO[str]]:
    """A binary file as text in UTF-8, lines as they are given; what is written is in ``file`` when the body ends."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    yield text
    text.detach()


def write_json(path: Path, figures: Mapping, overwrite: bool) -> None:
    """A report as JSON, see ``written_whole``."""
    with written_text(path, overwrite) as file:
        file.write(json.dumps(figures, indent=2, allow_nan=False) + "\n")


def take_names(files: Sequence[NewFile]) -> None:
    """Give finished files their names; where one fails, those before it get back what they had."""
    undo: list[tuple[Callable[[], None], Path]] = []
    old: list[Path] = []
    try:
        for file in files:
            with named_errors(file.path, file.target.parent):
                remote = isinstance(file.path, RemotePath)
                before = _second_name(file.target) if len(files) > 1 and file.overwrite and not remote else None
                if before is not None:
                    old.append(before)
                _take_name(file)
            if remote and file.overwrite:
                undo.append((partial(note_written, file.path), file.path))  # it stays as it is now
            elif before is None:
                undo.append((partial(file.path.unlink if remote else file.target.unlink), file.path))
            else:
                undo.append((partial(os.replace, before, file.target), file.path))
    except BaseException:
        for restore, path in reversed(undo):
            try:
                restore()
            except OSError:
                note_written(path)
        raise
    finally:
        for path in old:
            with suppress(OSError):
                path.unlink()
    for file in files:
        file.release()
        note_written(file.path)
    for folder in {file.target.parent for file in files if not isinstance(file.path, RemotePath)}:
        _sync_folder(folder, files[0].path)


def _second_name(target: Path) -> Path | None:
    """Another name of the file that is going to be replaced; None where there is none, or the disk has no links."""
    second = temporary_name(target, "before")
    try:
        second.unlink(missing_ok=True)
        os.link(target, second)
    except OSError:
        return None
    return second


def _take_name(file: NewFile) -> None:
    """Rename, or upload; InputError where there is a file of that name which may not be replaced."""
    message = _made_meanwhile(file.path)
    if isinstance(file.path, RemotePath):
        try:
            file.path.remote.write(file.partial, new=not file.overwrite)
        except FileExistsError:
            raise InputError(message) from None
        os.unlink(file.partial)
        return
    if file.overwrite:
        os.replace(file.partial, file.target)
        return
    try:
        os.link(file.partial, file.target)
    except FileExistsError:
        raise InputError(message) from None
    except OSError:  # a file system without hard links: hold the name by an empty file first
        try:
            os.close(os.open(file.target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            raise InputError(message) from None
        try:
            os.replace(file.partial, file.target)
        except BaseException:
            with suppress(OSError):
                os.unlink(file.target)
            raise
    else:
        with suppress(OSError):  # the file is whole under its name
            os.unlink(file.partial)


def _sync_folder(folder: Path, path: Path) -> None:
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


def open_text(path: Path, overwrite: bool, going_on: bool = False):
    """A text file to be written line by line under its own name: from its beginning, or ``going_on`` at its end.
    Without ``overwrite`` it must be new; InputError where another run was faster."""
    try:
        if isinstance(path, RemotePath):
            return RemoteText(path, overwrite, going_on)
        status = status_of(path)
        special = status is not None and not stat.S_ISREG(status.st_mode)
        return open(path, "a" if going_on else "w" if overwrite or special else "x", encoding="utf-8")
    except FileExistsError:
        raise InputError(_made_meanwhile(path)) from None


def _made_meanwhile(path: Path) -> str:
    return f"{path}: was made by another run meanwhile; choose another name or add {option('overwrite', True)}"


@contextmanager
def named_errors(path: Path, folder: Path | None = None) -> Iterator[None]:
    """Errors of the system on writing, with ``path`` in them; where ``folder`` has vanished, an InputError says so."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        number = system_number(error)
        if number in (errno.ENOENT, errno.ENOTDIR) and folder is not None and not folder.is_dir():
            raise InputError(
                f"{path}: the folder {folder} has vanished; make it again, or choose another place"
            ) from None
        filename = getattr(error, "filename", None)
        if number is None or not (filename is None or str(filename).endswith(".partial")):
            raise
        words = error.strerror if isinstance(error, OSError) and error.strerror else os.strerror(number)
        raise OSError(number, words, str(path)) from error


def system_number(error: BaseException) -> int | None:
    """The system's number of an error; HDF5 has it in a sentence."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    named = re.search(r"errno = (\d+)", str(error))
    return int(named[1]) if named else None
