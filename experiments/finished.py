"""What of a long measurement is done: a file for each piece, so that it can be broken off and goes on later."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@cache
def digest_of_code() -> str:
    """Of all that a figure may depend on: the package and the experiments."""
    found = hashlib.blake2b(digest_size=8)
    for folder in ("blocksvm", "experiments"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()


class Finished:
    """Answers (JSON objects) by what was asked (anything that JSON can say), in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def _path(self, asked) -> Path:
        text = json.dumps(asked, sort_keys=True, default=str)
        return self.folder / f"{hashlib.blake2b(text.encode(), digest_size=10).hexdigest()}.json"

    def get(self, *asked) -> dict | None:
        try:
            return json.loads(self._path(asked).read_text())
        except FileNotFoundError:
            return None

    def put(self, answer: dict, *asked) -> dict:
        """Keep an answer, under its name when it is whole; returns it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(asked)
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(answer) + "\n")
        os.replace(partial, path)
        return answer

    def all(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))]

    def clear(self) -> None:
        """Forget everything: the next time all is measured anew."""
        for path in self.folder.glob("*.json"):
            path.unlink()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()
