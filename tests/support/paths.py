"""Where the checkout's folders are."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
GOLDEN = TESTS / "golden"
DATA = ROOT.parent / "shared" / "data"  # real data sets, which not every machine has
