"""Any bytes in the place of a text: its rows, or one sentence that refuses it; for every format of text."""

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocksvm.cli.console import run
from blocksvm.commands import module_of

CELLS = "0\t" + "\t".join("3" * 13) + "\t0000002a" * 26 + "\n"
# format and options -> a text of it
TEXTS = {"svmlight-named": "ham 1:0.5 7:2\nspam 2:1\n", "multilabel": "a,b 1:1 2:2\nb 3:3\n 1:1\n",
         "vw": "1 0.5 tag|a x:2 y |b:2 z\n-1 |a x\n",
         "documents --ngrams word:1-2": "0\tthe dog ran\n1\tthe cat ran\n",
         "csv": "label,size,colour\n1,0.5,red\n0,1.5,blue\n", "criteo": CELLS + "1" + CELLS[1:],
         "auto": "1 1:0.5 7:2\n-1 2:1\n"}  # fmt: skip
# what texts are made of, and the first bytes of other files
WORDS = [*(bytes([byte]) for byte in b" \t\n\r,;:|#\"'.+-e0123456789\0\xff\xe4"), b"\r\n", b"1", b"-1", b"1:2", b"nan",
         b"inf", b"1e999", b"0x1", b"9223372036854775808", b"qid:1", b"label", b"a", b"\xef\xbb\xbf", b"\xff\xfe",
         b"\x1f\x8b", b"BZh9", b"PK\x03\x04", b"\x93NUMPY", b"PAR1", b"ARROW1", b"\x89HDF\r\n\x1a\n"]  # fmt: skip


def any_bytes(whole: bytes) -> st.SearchStrategy[bytes]:
    """Bytes without any order; pieces of a text and words in any order, behind its first bytes or not."""
    pieces = st.integers(0, len(whole) - 1).map(lambda at: whole[at : at + 16])
    mixed = st.lists(st.one_of(st.sampled_from(WORDS), pieces, st.binary(max_size=4)), max_size=40).map(b"".join)
    return st.one_of(st.binary(max_size=200), mixed, mixed.map(lambda data: whole[:8] + data))


@pytest.mark.slow
@pytest.mark.parametrize("chosen", TEXTS)
def test_any_bytes_are_read_or_refused(tmp_path, chosen):
    text, store = tmp_path / "rows", tmp_path / "store.h5"
    arguments = [str(text), str(store), "--overwrite", "--quiet", "--format", *chosen.split()]

    def split(data: bytes) -> tuple[int, str]:
        """(status, what was said)"""
        text.write_bytes(data)
        said = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            try:
                run(module_of("split").main, arguments)
            except SystemExit as ended:
                return ended.code or 0, said.getvalue()
        return 0, said.getvalue()

    @given(any_bytes(TEXTS[chosen].encode()))
    def judged(data):
        status, said = split(data)
        assert status in (0, 2) and "Traceback" not in said
        assert status == 0 or "error: " in said.rstrip("\n").rsplit("\n", 1)[-1], said

    assert split(TEXTS[chosen].encode())[0] == 0
    judged()
