"""The memory budget: everything that is allocated is named and counted before the first byte is read."""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_uppercase

from blocksvm.base.errors import Bytes, InputError, option
from blocksvm.base.settings import Setting

# what is expected, and the factors of its units: MB = 10^6 bytes, MiB = 2^20
SIZE = "a size such as 512MB or 2GB", {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KB": 10**3,
    "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip
DURATION = "a duration such as 90, 10m or 2h", {"": 1, "S": 1, "M": 60, "H": 3600, "D": 86400}
BESIDES = 300_000_000  # bytes of interpreter, libraries and loaded kernels, at most
CGROUPS = Path("/sys/fs/cgroup")
OF_PROCESS = Path("/proc/self/cgroup")
OF_MACHINE = Path("/proc/meminfo")


@dataclass(frozen=True)
class SettingWithUnit(Setting):
    """A number, or text with one of ``units``: a size such as '512MB', or a duration such as '10m'."""

    units: tuple[str, Mapping[str, int]] = SIZE

    def checked(self, value):
        if isinstance(value, str) and value != "inf":  # as descriptions of files have it
            (what, factors), given = self.units, value.strip().upper()
            number = given.rstrip(ascii_uppercase)
            try:
                size = float(number) * factors[given.removeprefix(number)]
            except (KeyError, ValueError):
                raise InputError(f"{option(self.name)}: '{value}' is not {what}") from None
            if not 0 < size < math.inf:
                raise InputError(f"{option(self.name)}: '{value}' must be above 0")
            value = self.kind(size)
        return super().checked(value)


MEMORY = SettingWithUnit("memory", "memory to use, in bytes, or as 500MB or 2GB (default 1GB)", default=1_000_000_000,
                       kind=int, least=1, metavar="SIZE")  # fmt: skip


class TooLittleMemory(InputError):
    """``total`` bytes are less than what is needed, ``needs`` by name."""

    def __init__(self, total: int, needs: dict[str, int]):
        self.total, self.needs = total, needs
        parts = ", ".join(f"{key} {megabytes(value)}" for key, value in needs.items() if value)
        super().__init__(
            f"{option('memory', Bytes(total))} is too small: {megabytes(sum(needs.values()))} are needed "
            f"({parts}); raise {option('memory')}"
        )

    def __reduce__(self):
        return type(self), (self.total, self.needs)  # of a process of joblib's


def too_small(total: int, what: str, least: int) -> InputError:
    """The error where it is known how many bytes ``what`` takes at least."""
    given, need = (option("memory", Bytes(n)) for n in (total, least))
    return InputError(f"{given} is too small for {what}; give {need} or more")


@dataclass
class Budget:
    """``total`` bytes, and what has been used of them by name."""

    total: int
    used: dict[str, int] = field(default_factory=dict)

    def take(self, name: str, n_bytes: int) -> None:
        self.used[name] = self.used.get(name, 0) + int(n_bytes)

    @property
    def left(self) -> int:
        return self.total - sum(self.used.values())

    def require(self, name: str, n_bytes: int) -> None:
        """InputError, with the whole need, unless ``n_bytes`` more would fit."""
        if n_bytes > self.left:
            raise TooLittleMemory(self.total, self.used | {name: int(n_bytes)})

    def reserve(self, name: str, n_bytes: int) -> None:
        """``require`` and ``take``."""
        self.require(name, n_bytes)
        self.take(name, n_bytes)


def memory_limit() -> tuple[float, str]:
    """(bytes that this process may take, in words what says so): the memory cgroup that it is in, or what the machine
    has left, whichever is less; infinite where the system tells neither."""
    limit, what = min(_cgroup_limits(), default=math.inf), "the memory cgroup (the container) allows, which is"
    with suppress(OSError, ValueError, IndexError):
        for line in OF_MACHINE.read_text().splitlines():
            if line.startswith("MemAvailable:") and (left := 1024 * int(line.split()[1])) < limit:
                return left, "the machine has left, which is"
    return limit, what


def _cgroup_limits() -> Iterator[int]:
    """Of the cgroup of this process and all above it, by version 2 or 1; a container sees its own at the root."""
    lines: list[str] = []
    with suppress(OSError):
        lines = OF_PROCESS.read_text().splitlines()
    for line in lines:
        if line.count(":") < 2:
            continue
        _, controllers, path = line.split(":", 2)
        if not {"", "memory"} & set(controllers.split(",")):
            continue
        root, name = (CGROUPS / "memory", "memory.limit_in_bytes") if controllers else (CGROUPS, "memory.max")
        location = Path(path.lstrip("/"))
        for folder in (location, *location.parents):
            with suppress(OSError, ValueError):  # "max" is no limit
                yield int((root / folder / name).read_text())


def megabytes(n_bytes: float) -> str:
    """'12.3MB', with the digits that a person wants."""
    value = n_bytes / 1e6
    digits = ".0f" if value >= 100 else ".1f" if value >= 1 else ".2f" if value >= 0.01 else ".1g"
    return f"{value:{digits}}MB"
