"""The settings of reading from object stores, in commands and in Python; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blocksvm.base.settings import Setting, Settings

CONNECTIONS = 64
OBJECT_SETTINGS = Settings((
    Setting("connections", "most requests at once", default=CONNECTIONS, kind=int, least=1),
))  # fmt: skip


@dataclass(frozen=True)
class ObjectSettings:
    """As ``OBJECT_SETTINGS`` describes them."""

    connections: int = CONNECTIONS

    @classmethod
    def of(cls, given: Mapping) -> ObjectSettings:
        """From values by name, None for a default; InputError for a value out of range."""
        wanted = {name: given.get(name) for name in OBJECT_SETTINGS.names()}
        return cls(**OBJECT_SETTINGS.resolve(wanted, "reading of objects"))
