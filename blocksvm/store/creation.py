"""New HDF5 files: HDF5 writes into a ``NewFile``, which sees every error."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import h5py

from blocksvm.files.output import NewFile, new_files
from blocksvm.files.paths import Location
from blocksvm.store.hdf5_files import VERSIONS, write_text_attribute


class NewHdf5(h5py.File):
    """A file that is being written; ``sink`` is what its bytes go to."""

    def __init__(self, sink: NewFile):
        creation, access = h5py.h5p.create(h5py.h5p.FILE_CREATE), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        creation.set_obj_track_times(False)  # equal contents are equal files
        access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
        access.set_fileobj_driver(h5py.h5fd.fileobj_driver, sink)
        super().__init__(h5py.h5f.create(os.fsencode(sink.partial), h5py.h5f.ACC_TRUNC, creation, access))
        self.sink = sink


@contextmanager
def create_hdf5(path: Location, kind: str, overwrite: bool = True) -> Iterator[NewHdf5]:
    """A new HDF5 file of the given kind, under its name only when it is whole; without ``overwrite`` InputError where
    there is a file of that name by then."""
    with create_together([path], kind, overwrite) as (file,):
        yield file


@contextmanager
def create_together(
    paths: Sequence[Location], kind: str, overwrite: bool = True, temp: Path | None = None
) -> Iterator[list[NewHdf5]]:
    """The same of several files, of which none takes its name before all are whole; temp: where objects are made."""
    with new_files(paths, overwrite, temp) as sinks:
        files: list[NewHdf5] = []
        try:
            for sink in sinks:
                files.append(NewHdf5(sink))
                write_text_attribute(files[-1], "blocksvm", kind)
                files[-1].attrs["format_version"] = VERSIONS[kind]
            yield files
            for file in files:
                file.close()
        except BaseException as error:
            failed = [sink.error for sink in sinks if sink.error is not None]
            for sink in sinks:
                sink.error = sink.error or error  # from now on nothing is written
            for file in files:
                with suppress(OSError, RuntimeError, ValueError):
                    file.close()
            if failed and error is not failed[0]:  # HDF5 stumbled over what was not written
                raise failed[0] from error
            raise
