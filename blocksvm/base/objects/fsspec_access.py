"""Objects by the library fsspec, of schemes that obstore does not know; read and written whole or in parts by whatever
it has for them.  It cannot demand a state of the object with a request: the state is asked for before each."""

from __future__ import annotations

import asyncio
from pathlib import Path

from blocksvm.base.errors import InputError
from blocksvm.base.objects.access import Access, Changed, Identity, RangeAnswer, Ready, TryAgain
from blocksvm.base.objects.urls import with_secrets


class FsspecAccess(Access):
    def __init__(self, url: str):
        super().__init__(url)
        from fsspec.core import url_to_fs

        try:
            self.files, self.name = url_to_fs(with_secrets(url))
        except (ValueError, ImportError) as error:  # an unknown scheme, a library that is missing
            raise InputError(f"{url}: cannot be opened ({str(error).partition(chr(10))[0]})") from None

    async def get(self, start: int, stop: int, condition: str, ready: Ready) -> RangeAnswer:
        await ready()
        return await asyncio.to_thread(self._told, self._get, start, stop)

    def _get(self, start: int, stop: int) -> RangeAnswer:
        state = self._identity()
        if start >= state.size:
            raise Changed
        return RangeAnswer(start, memoryview(self.files.cat_file(self.name, start, min(stop, state.size))), state)

    async def identity(self) -> Identity:
        return await asyncio.to_thread(self._told, self._identity)

    def _identity(self) -> Identity:
        self.files.invalidate_cache()
        about = self.files.info(self.name)
        if about["type"] != "file":
            raise InputError(f"{self.url}: is a folder; give the name of an object")
        return Identity(about["size"], "", str(about.get("ETag") or about.get("mtime") or about.get("created") or ""))

    async def put(self, path: Path, new: bool) -> None:
        await asyncio.to_thread(self._told, self._put, path, new)

    def _put(self, path: Path, new: bool) -> None:
        if new and self.files.exists(self.name):
            raise FileExistsError(self.url)
        self.files.put_file(str(path), self.name)

    async def delete(self) -> None:
        await asyncio.to_thread(self._told, self.files.rm_file, self.name)

    def _told(self, work, *arguments):
        """What it returns; what it fails with as the protocol has it."""
        try:
            return work(*arguments)
        except FileNotFoundError:
            raise self.missing() from None
        except FileExistsError:
            raise
        except PermissionError as error:
            raise self.denied(str(error)) from None
        except OSError as error:
            raise TryAgain(str(error).partition("\n")[0]) from error
