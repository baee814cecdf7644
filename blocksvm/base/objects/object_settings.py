"""The settings of reading from object stores, in commands and in Python; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blocksvm.base.memory import SettingWithUnit
from blocksvm.base.settings import Setting, Settings

GB = 1e9

OBJECT_SETTINGS = Settings((
    Setting("connections", "most requests at once", default=128, kind=int, least=1),
    Setting("price_per_request", "price of a request in dollars; by default that of S3", default=4e-7, least=0.0),
    SettingWithUnit("cache", "bytes of the store to keep in a file of this machine, in bytes, or as 50GB", default=0,
                  kind=int, least=0),
    Setting("cache_dir", "folder of that file, which then stays for the next run", kind=str, metavar="DIR"),
    Setting("price_per_gb", "price of 10^9 bytes in dollars; by default that within a region", default=0.0, least=0.0),
))  # fmt: skip
PRICES = ("price_per_request", "price_per_gb")


def dollars(price: float) -> str:
    """'$0.0012' or '$12.30'."""
    return f"${price:.2f}" if price >= 1.0 else f"${price:.2g}"


@dataclass(frozen=True)
class ObjectSettings:
    """As ``OBJECT_SETTINGS`` describes them."""

    connections: int = 128
    cache: int = 0
    cache_dir: str | None = None
    price_per_request: float = 4e-7
    price_per_gb: float = 0.0

    @classmethod
    def of(cls, given: Mapping) -> ObjectSettings:
        """From values by name, None for a default; InputError for what is none."""
        wanted = {name: given.get(name) for name in OBJECT_SETTINGS.names()}
        return cls(**OBJECT_SETTINGS.resolve(wanted, "reading of objects"))

    def price(self, requests: int, n_bytes: int) -> float:
        """Dollars."""
        return requests * self.price_per_request + n_bytes / GB * self.price_per_gb
