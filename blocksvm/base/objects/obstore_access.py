"""Objects of S3, Google, Azure and the web, by the library obstore.

Its own retries are off for reading: how often and how soon a request is made again, and how many are under way, is
decided in remote_object.py, which sees each failure.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from blocksvm.base.errors import InputError
from blocksvm.base.objects.access import Access, Changed, Identity, RangeAnswer, Ready, TryAgain
from blocksvm.base.objects.urls import of_web, with_secrets

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https")
STATUS = re.compile(r"status: (\d{3})")
TOO_MANY = 429
PART_BYTES = 8_000_000  # of an upload
MOST_PARTS = 9_000  # S3 allows 10,000
PARTS_AT_ONCE = 4
# what the environment may say of connections, as AWS_ALLOW_HTTP; the library forgets it where it is told anything else
OF_CLOUD = {"s3": "AWS", "s3a": "AWS", "gs": "GOOGLE"}  # others: Azure
CLIENT_SETTINGS = ("allow_http", "allow_invalid_certificates", "proxy_url", "proxy_ca_certificate", "proxy_excludes",
                   "connect_timeout", "http2_only", "user_agent")  # fmt: skip
NO_RANGES = "Range request not supported"
NO_NAME = re.compile(r"(^|/)(\.{0,2}|[^/]*[\x00-\x1f\x7f][^/]*)(/|$)")  # a part of a key that the library cannot name
# what an error that no further try would mend has in its details -> what is wrong, and what to do
OF_SETTINGS = {
    "BadScheme": "its endpoint has no TLS; give one that begins with https://, or allow that ({cloud}_ALLOW_HTTP=true)",
    "InvalidContentType": "its endpoint has no TLS; give it with http://, and {cloud}_ALLOW_HTTP=true",
    "InvalidCertificate": "the certificate of its server is not one that this machine trusts; check the endpoint",
    "Name or service not known": "no machine has the name of its server; check the endpoint, and the region",
    "NoSuchBucket": "there is no such bucket; check its name, the endpoint and the region",
    "ContainerNotFound": "there is no such container; check its name and the account",
}
REASON = re.compile(r'(?:message|error): "([^"]+)"')


class ObstoreAccess(Access):
    """silence: seconds without a byte, after which an answer is given up."""

    def __init__(self, url: str, silence: float):
        super().__init__(url)
        scheme, _, rest = with_secrets(url).partition("://")
        scheme = scheme.lower()
        if of_web(url):
            parts = urlsplit(with_secrets(url))
            folder, _, name = parts.path.rpartition("/")
            self.base, self.name = urlunsplit(parts._replace(path=folder)), unquote(name)
        else:
            bucket, _, self.name = rest.partition("/")
            self.base = f"{scheme}://{bucket}"
        if not self.name:
            raise InputError(f"{url}: names no object; give one with its key, as {url.rstrip('/')}/rows.svm")
        if NO_NAME.search(self.name):
            raise InputError(
                f"{url}: obstore cannot name a key with a part that is empty, '.' or '..', or that has a control "
                "character; give the object another key"
            )
        self.options: Any = {"read_timeout": f"{int(1000 * silence)}ms", "timeout": "1h"}
        self.cloud = OF_CLOUD.get(scheme, "AZURE")
        for setting in CLIENT_SETTINGS:
            if value := os.environ.get(f"{self.cloud}_{setting.upper()}"):
                self.options[setting] = value == "true" if value in ("true", "false") else value
        if scheme == "http":
            self.options["allow_http"] = True
        for name in (f"{self.cloud}_ENDPOINT_URL", f"{self.cloud}_ENDPOINT"):
            if (value := os.environ.get(name)) and not of_web(value):
                raise InputError(f"{name}={value}: is no URL; give it with http:// or https://")
        self.store = self._store(0)

    def _store(self, retries: int) -> Any:
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        try:
            return from_url(self.base, client_options=self.options, retry_config={"max_retries": retries})
        except (BaseError, ValueError) as error:
            raise InputError(
                f"{self.url}: cannot be opened ({_line(error)}); check it, and the settings in the environment"
            ) from None

    async def get(self, start: int, stop: int, condition: str, ready: Ready) -> RangeAnswer:
        import obstore

        options: Any = {"range": (start, stop)}
        if condition:
            options["if_match"] = condition
        try:
            result = await obstore.get_async(self.store, self.name, options=options)
            meta, (begins, _) = result.meta, result.range
        except Exception as error:
            raise self._told(error) from error
        await ready()  # what the server sends meanwhile waits in the system's buffers
        try:
            data = memoryview(await result.bytes_async())
        except Exception as error:
            raise self._told(error) from error
        return RangeAnswer(begins, data, _identity(meta))

    async def identity(self) -> Identity:
        import obstore

        try:
            return _identity(await obstore.head_async(self.store, self.name))
        except Exception as error:
            raise self._told(error) from error

    async def put(self, path: Path, new: bool) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        size = path.stat().st_size
        parts = size > PART_BYTES and not self.url.startswith("http")
        store = self._store(10)
        if parts and new:  # which S3 cannot ask for of an upload in parts
            try:
                await self.identity()
            except FileNotFoundError:
                pass
            else:
                raise FileExistsError(self.url)
        try:
            await obstore.put_async(
                store, self.name, path, mode="create" if new and not parts else "overwrite", use_multipart=parts,
                chunk_size=max(PART_BYTES, -(-size // MOST_PARTS)), max_concurrency=PARTS_AT_ONCE,
            )  # fmt: skip
        except AlreadyExistsError as error:
            raise FileExistsError(self.url) from error
        except NotSupportedError as error:
            raise InputError(f"{self.url}: its server takes no such uploads ({_line(error)})") from None
        except Exception as error:
            raise self._told(error) from error

    async def delete(self) -> None:
        import obstore

        try:
            await obstore.delete_async(self.store, self.name)
        except Exception as error:
            raise self._told(error) from error

    def _told(self, error: Exception) -> Exception:
        """What a failure of the library's means."""
        from obstore import exceptions as known

        if not isinstance(error, known.BaseError | OSError):
            return error
        status = int(found[1]) if (found := STATUS.search(str(error))) else 0
        for sign, told in OF_SETTINGS.items():
            if sign in str(error):
                return InputError(f"{self.url}: {told.format(cloud=self.cloud)}")
        if isinstance(error, FileNotFoundError):
            return self.missing()
        if isinstance(error, known.PreconditionError) or status in (412, 416):
            return Changed(f"status {status or 412}")
        if isinstance(error, known.PermissionDeniedError | known.UnauthenticatedError) or status in (401, 403):
            return self.denied(str(status or _line(error)))
        if NO_RANGES in str(error):
            return self.in_no_parts()
        if status and status < 500 and status != TOO_MANY:
            return InputError(f"{self.url}: its server refuses the request (status {status}); check the URL")
        if "redential" in str(error) and not status:
            return self.denied("no credentials were found")
        return TryAgain(f"status {status}" if status else _line(error))


def _identity(meta) -> Identity:
    return Identity(meta["size"], meta["e_tag"] or "", str(meta["last_modified"]))


def _line(error: BaseException) -> str:
    """A library's sentence without the URL's secrets, which it may quote."""
    reasons = REASON.findall(str(error))  # of the connection, which the first line does not have
    text = reasons[-1] if reasons else str(error).partition("\n")[0]
    return re.sub(r"\S+://\S+", "the object", text)[:200]
