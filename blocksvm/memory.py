"""Memory as a promise: everything that is allocated is named and counted before the first byte is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from blocksvm.errors import InputError, called, said


@dataclass
class Budget:
    """``total`` bytes, and what has been taken of them by name."""

    total: int
    taken: dict[str, int] = field(default_factory=dict)

    def take(self, name: str, n_bytes: int) -> None:
        self.taken[name] = self.taken.get(name, 0) + int(n_bytes)

    @property
    def left(self) -> int:
        return self.total - sum(self.taken.values())

    def require(self, name: str, n_bytes: int) -> None:
        """InputError, with the whole need, unless ``n_bytes`` more would fit."""
        if n_bytes <= self.left:
            return
        needs = self.taken | {name: int(n_bytes)}
        parts = ", ".join(f"{key} {megabytes(value)}" for key, value in needs.items() if value)
        raise InputError(
            f"{said('memory', megabytes(self.total))} is too small: {megabytes(sum(needs.values()))} are needed "
            f"({parts}); raise {called('memory')}"
        )


def megabytes(n_bytes: float) -> str:
    """'12.3MB', with the digits that a person wants."""
    value = n_bytes / 1e6
    return f"{value:.0f}MB" if value >= 100 else f"{value:.1f}MB" if value >= 1 else f"{value:.2f}MB"
