"""Any bytes in the place of a file: its rows, or one sentence that refuses it; for every kind of file that is read."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.damage import damaged
from support.damage_files import KINDS, TEXTS, Trial, prepare

# what the formats of text are made of, and the first bytes of others
WORDS = [*(bytes([byte]) for byte in b" \t\n\r,;:|#\"'.+-e0123456789\0\xff\xe4"), b"\r\n", b"1", b"-1", b"1:2", b"nan",
         b"inf", b"1e999", b"0x1", b"9223372036854775808", b"qid:1", b"label", b"a", b"\xef\xbb\xbf", b"\xff\xfe",
         b"\x1f\x8b", b"BZh9", b"PK\x03\x04", b"\x93NUMPY", b"PAR1", b"ARROW1", b"\x89HDF\r\n\x1a\n"]  # fmt: skip
PIECE = 16  # bytes, of the whole file


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    prepare(folder)
    return folder


def any_bytes(whole: bytes) -> st.SearchStrategy[bytes]:
    """Bytes without any order; pieces of a file and words in any order, behind its first bytes or not; and the file,
    damaged."""
    places = st.integers(0, max(len(whole) - 1, 0)).map(lambda at: whole[at : at + PIECE])
    mixed = st.lists(st.one_of(st.sampled_from(WORDS), places, st.binary(max_size=4)), max_size=40).map(b"".join)
    behind = mixed.map(lambda data: whole[: PIECE // 2] + data)
    return st.one_of(st.binary(max_size=200), mixed, behind, st.integers(0, 2**32 - 1).map(partial(damaged, whole)))


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("kind", [*TEXTS, *KINDS])
def test_any_bytes_are_read_or_refused(files, kind):
    if not (files / (KINDS | TEXTS)[kind].name).exists():
        pytest.skip("pyarrow is not installed")
    trial = Trial(kind, files)

    @settings(max_examples=30 if kind in TEXTS else 10, deadline=None, database=None)
    @given(any_bytes(trial.data))
    def judged(data):
        for command, verdict in zip(trial.kind.commands, trial.judged(data), strict=True):
            as_text = command.startswith("predict") and not data.startswith(WORDS[-1])  # a row, perhaps
            held = verdict.held or (as_text and verdict.kind == "other")
            assert held and "no more memory" not in verdict.text, (command, verdict)

    judged()
