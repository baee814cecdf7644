"""How many requests are under way at once: from a few on, more while that brings more bytes a second and somebody
waits for them, half as many where the server asks for fewer.  Without input or output: events come in with the clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FIRST = 16
GAIN = 1.1  # in bytes a second over the best so far, for which the depth is doubled


@dataclass
class Depth:
    """most: a limit that the user has set.  ``limit`` is the depth now, ``deepest`` the largest so far."""

    most: int
    limit: int = field(init=False)
    deepest: int = field(init=False)
    best: float = 0.0  # bytes a second, over a round of as many answers as requests may be under way
    began: float | None = None
    n_bytes: int = 0
    answers: int = 0
    waited: bool = False

    def __post_init__(self) -> None:
        self.limit = self.deepest = min(FIRST, self.most)

    def asked(self, now: float) -> None:
        """A request goes out."""
        if self.began is None:
            self.began = now

    def waits(self) -> None:
        """Somebody waits for an answer."""
        self.waited = True

    def answered(self, n_bytes: int, now: float) -> None:
        """An answer has come, whole."""
        self.n_bytes += n_bytes
        self.answers += 1
        if self.answers < self.limit or self.began is None or now <= self.began:
            return
        rate = self.n_bytes / (now - self.began)
        if rate > GAIN * self.best:
            self.best = rate
            if self.waited:
                self.limit = min(self.most, 2 * self.limit)
                self.deepest = max(self.deepest, self.limit)
        self._new_round(now)

    def idle(self) -> None:
        """Nothing is under way: the time until the next request is nobody's."""
        self._new_round(None)

    def too_many(self, now: float) -> None:
        """The server asks for fewer."""
        self.limit = max(1, self.limit // 2)
        self.best = 0.0
        self._new_round(now)

    def _new_round(self, now: float | None) -> None:
        self.began, self.n_bytes, self.answers, self.waited = now, 0, 0, False
