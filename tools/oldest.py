"""Prints the oldest dependencies that pyproject.toml claims, as requirements for pip: every lower bound made a pin.

usage: python tools/oldest.py [EXTRA ...]     (groups of optional-dependencies)
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def pins(requirements: list[str]) -> list[str]:
    """``name>=version`` as ``name==version``; ``name==version`` as it is; anything else raises ValueError."""
    pinned = []
    for requirement in requirements:
        parts = re.fullmatch(r"([A-Za-z0-9._-]+)(>=|==)([0-9.]+[0-9*])", requirement)
        if parts is None:
            raise ValueError(f"pyproject.toml: '{requirement}' names no lower bound; expected name>=version")
        pinned.append(f"{parts[1]}=={parts[3]}")
    return pinned


def oldest(extras: list[str]) -> list[str]:
    """The pins of the package's dependencies and of these groups of optional ones."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = list(project["dependencies"])
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    return pins(requirements)


if __name__ == "__main__":
    print("\n".join(oldest(sys.argv[1:])))
