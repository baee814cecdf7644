"""Outputs that are objects: made in the folder for temporary files, and uploaded."""

from __future__ import annotations

import errno
import io
import math
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from blocksvm.base.errors import InputError
from blocksvm.base.inputs import open_input
from blocksvm.base.objects.remote_path import RemotePath

SHARE = 1 / 20  # of the time, at most, that a text which grows is uploaded in
PIECE = 1 << 20


class RemoteText(io.TextIOWrapper):
    """An object that text is written to, line by line: uploaded whole now and then, and when it is closed; going_on: at
    the end of what it has."""

    def __init__(self, path: RemotePath, overwrite: bool, going_on: bool):
        self.path = path
        self.overwrite = overwrite or going_on
        descriptor, name = tempfile.mkstemp(prefix=".blocksvm-")
        self.partial = Path(name)
        super().__init__(io.FileIO(descriptor, "r+"), encoding="utf-8", newline="")
        self.due = math.inf
        try:
            if going_on and path.exists():
                with open_input(path) as file:
                    while piece := file.read(PIECE):
                        self.buffer.write(piece)
            if not self.overwrite:
                self._upload()  # of two runs at once, the later one is told at once
        except BaseException:
            self._end()
            raise
        self.due = 0.0

    def flush(self) -> None:
        super().flush()
        if not self.closed and time.monotonic() >= self.due:
            self._upload()

    def _upload(self) -> None:
        began = time.monotonic()
        try:
            self.path.remote.write(self.partial, new=not self.overwrite)
        except InputError as error:
            raise OSError(errno.EIO, str(error)) from error
        self.overwrite = True
        now = time.monotonic()
        self.due = now + (now - began) / SHARE

    def close(self) -> None:
        if not self.closed:
            self.due = 0.0
            self._end()

    def _end(self) -> None:
        try:
            super().close()  # which flushes, and so uploads what is due
        finally:
            with suppress(OSError):
                os.unlink(self.partial)
