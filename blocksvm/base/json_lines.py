"""A log of JSON objects, one a line, which never ends the run that it tells of."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from blocksvm.base.objects.remote_path import RemotePath


class JsonLines:
    """Writes to an open text file, to be closed by ``close``.

    Where it cannot be written any more (a full disk), warn(sentence) is called once, the file keeps its whole lines,
    and what comes later is left out: a training does not lose its model for want of a log.
    """

    def __init__(self, path: Path, file: TextIO, warn: Callable[[str], None]):
        self.path = path
        self.warn = warn
        self.file: TextIO | None = file
        self.n_bytes = os.fstat(file.fileno()).st_size  # of whole lines

    def write(self, event: Mapping) -> None:
        """ValueError where the event is not JSON."""
        line = json.dumps(event, allow_nan=False) + "\n"
        if self.file is None:
            return
        try:
            self.file.write(line)
            self.file.flush()
            self.n_bytes += len(line)
        except OSError as error:
            self._give_up(self.file, error)

    def close(self) -> None:
        if self.file is not None:
            try:
                self.file.close()
            except OSError as error:
                self._give_up(self.file, error)

    def _give_up(self, file: TextIO, error: OSError) -> None:
        self.file = None
        with suppress(OSError):
            file.close()  # it tries to write what is left, and fails again
        with suppress(OSError):
            if not isinstance(self.path, RemotePath) and self.path.is_file():
                os.truncate(self.path, self.n_bytes)
        what = (error.strerror or str(error)).lower()
        self.warn(f"{self.path}: {what}; the log ends here, the run goes on")
