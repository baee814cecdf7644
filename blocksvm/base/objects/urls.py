"""URLs of objects as names: what of them is shown and written down, and what is a secret (a signature, a password),
which stays in this process.

A URL of the web goes by the web's rules: percent-encoding, a query, a fragment.  In every other scheme all that follows
the bucket is the object's key, character by character.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from blocksvm.base.errors import InputError

URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
FILE = "file://"
WEB = ("http", "https")
READ_AHEAD = 20_000_000  # bytes, at most, of an object that is read from its beginning to its end

_given: dict[str, str] = {}  # a URL without its secrets -> as it was given


def is_url(name: str) -> bool:
    """Whether a name is the URL of an object, and no file of this machine."""
    return URL.match(name) is not None and not name.startswith(FILE)


def of_web(url: str) -> bool:
    """Whether a URL goes by the web's rules."""
    return url.partition("://")[0].lower() in WEB


def without_secrets(url: str) -> str:
    """A URL of the web without its query (which may be a signature), user and password; this process remembers the
    whole of it for requests.  Any other as it is."""
    if not of_web(url):
        return url
    parts = urlsplit(url)
    shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    if shown != url:
        _given[shown] = url
    return shown


def arguments_without_secrets(arguments: list[str]) -> list[str]:
    """The words of a command with their URLs as ``without_secrets`` has them, '--log=https://...' too; InputError where
    two of them would not be told apart any more."""
    whole: dict[str, str] = {}
    shown = []
    for word in arguments:
        option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        if is_url(value):
            clean = without_secrets(value)
            if whole.setdefault(clean, value) != value:
                raise InputError(f"{clean}: is given twice with different queries; name one object in one way")
            value = clean
        shown.append(option + equals + value)
    return shown


def with_secrets(url: str) -> str:
    """The URL as it was given."""
    return _given.get(url, url)
