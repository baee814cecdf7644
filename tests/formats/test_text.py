"""Text to rows: every number as Python reads it, every fault at its line, whatever the pieces."""

import bz2
import fcntl
import gzip
import itertools
import lzma
import math
import os
import random
import re
import struct
from contextlib import suppress
from decimal import Decimal, getcontext

import numpy as np
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st
from reference import BadLine, parse_svmlight
from support import parsed_text
from xxhash import xxh3_128_hexdigest

from blocksvm.base.errors import InputError
from blocksvm.base.row_batch import RecordCounter
from blocksvm.files.input import PIPE_BYTES, Pipe
from blocksvm.formats.format import ReaderOptions
from blocksvm.formats.text.svmlight import SVMLIGHT
from blocksvm.formats.text.text_source import LineLimit, TextInputs
from blocksvm.store.recipe import Recipe

getcontext().prec = 1200
ZSTD = zstandard.ZstdCompressor(write_checksum=True)
FLOAT64 = Recipe(dtype="float64")
ROOMY = LineLimit.share(1 << 26, 64)
SQUARES = "squares"  # of the sentence for a row whose norm float64 cannot hold


def triples(parsed) -> list[tuple]:
    """(label, ids, values) of each row, as reference.parse_svmlight gives them; None for no label."""
    bounds = zip(parsed.labels.tolist(), parsed.indptr[:-1].tolist(), parsed.indptr[1:].tolist(), strict=True)
    return without_nan((label, parsed.ids[a:b].tolist(), parsed.values[a:b].tolist()) for label, a, b in bounds)


def parse(data: bytes, recipe: Recipe = Recipe(), labelled: bool = True):
    return parsed_text.parse(SVMLIGHT, data, recipe, b"7:1 9", labelled=labelled, offers=("duplicates", "dtype"))


def without_nan(rows) -> list[tuple]:
    return [(None if math.isnan(label) else label, *row) for label, *row in rows]


def agrees(data: bytes, recipe: Recipe) -> None:
    """Assert that rows, or the line of the first fault, are the reference's."""
    parsed, how = parse(data, recipe), (recipe.duplicates, recipe.dtype)
    if parsed.fault is not None and SQUARES in parsed.fault[1]:
        # the reference has no such fault: it must read the line, and find squares that overflow
        lines = data.split(b"\n")[: parsed.fault[0] + 1]
        *before, (_, _, values) = parse_svmlight(b"\n".join(lines), *how)
        assert triples(parsed) == without_nan(before)
        assert math.isinf(sum(v * v for v in values))
        return
    expected, bad_line = [], None
    try:
        expected = parse_svmlight(data, *how)
    except BadLine as bad:
        bad_line = bad.line
    assert bad_line == (None if parsed.fault is None else parsed.fault[0] + 1)
    assert bad_line is not None or triples(parsed) == without_nan(expected)


READABLE = {"cr at the end": (b"1 1:1\r", [(1, [1], [1])]),
            "tabs and runs of spaces": (b" \t1\t 1:1  \t2:3 \t\n", [(1, [1, 2], [1, 3])]),
            "comments": (b"\n# no\n \t\n1 1:1 # 2:2\n1 3:3#x\n", [(1, [1], [1]), (1, [3], [3])]),
            "label alone": (b"-1\n1 # c\n0.25 qid:1\n", [(-1, [], []), (1, [], []), (0.25, [], [])]),
            "underflow is zero": (b"1 1:1e-400 2:2 3:-0.0\n", [(1, [2], [2])]),
            "unsorted, the largest id": (b"1 9223372036854775807:2 0:1\n", [(1, [0, 2**63 - 1], [1, 2])]),
            "leading zeros": (b"1 " + b"0" * 5000 + b"7:1\n", [(1, [7], [1])]),
            "number forms": (b"1e0 1:+.5 2:5. 3:-1E+2\n", [(1, [1, 2, 3], [0.5, 5, -100])]),
            # as in LIBSVM's own set protein
            "blanks after the colon, plus before an id": (
                b"1 63: .50 +64:1e0 65:\t2\n0 66:1 7:  -3\n", [(1, [63, 64, 65], [0.5, 1, 2]), (0, [7, 66], [-3, 1])]),
            "empty": (b"", [])}  # fmt: skip


@pytest.mark.parametrize("name", READABLE)
def test_rows_by_hand(name):
    data, rows = READABLE[name]
    parsed = parse(data, FLOAT64)
    assert parsed.fault is None and triples(parsed) == rows


FORMATS = ("%r", "%.6g", "%.17e", "%.17g", "%+.3e", "%.25e", "%.40g", "%.1f")
finite = st.floats(allow_nan=False, allow_infinity=False)
printed = st.builds(lambda form, x: (form % x).encode(), st.sampled_from(FORMATS), finite)
typed = st.from_regex(r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,4})?", fullmatch=True,
                      alphabet=st.characters(codec="ascii")).map(str.encode)  # fmt: skip


def halfway(x: float, nudge: int) -> bytes:
    """The decimal halfway between ``x`` and the next float, or its neighbour in the last place."""
    middle = (Decimal(x) + Decimal(math.nextafter(x, math.inf))) / 2
    return format(middle.next_plus() if nudge > 0 else middle.next_minus() if nudge < 0 else middle, "e").encode()


halves = st.builds(halfway, st.floats(0, 1e308), st.integers(-1, 1))


@pytest.mark.slow
@given(st.lists(st.one_of(printed, typed, halves), min_size=1, max_size=30))
@example([b"+1", b".5", b"5.", b"-0", b"0e999999", b"4.9e-324", b"2.4703282292062327e-324", b"1e-400", b"1e23"])
@example([b"9007199254740993", b"9007199254740992.9999999999999999", b"1.7976931348623158e308", b"0" * 50 + b"1"])
@example([b"0." + b"0" * 400 + b"1e401", b"1" + b"0" * 400 + b"e-400", b"9" * 19, b"9" * 20, b"18446744073709551616"])
@example([b"0." + b"0" * 100_005 + b"5e100006", b"1e-" + b"9" * 60])
def test_numbers_are_rounded_as_python_rounds_them(tokens):
    tokens = [token for token in tokens if math.isfinite(float(token))]
    # a label that is a whole number must be one, but for a point
    tokens = [token + b"." * (token.strip(b"+-").isdigit() and int(token) != float(token)) for token in tokens]
    parsed = parse(b"\n".join(tokens))
    assert parsed.fault is None
    expected = [float(token) + 0.0 for token in tokens]  # a label of -0 is 0
    assert struct.pack(f"{len(expected)}d", *expected) == parsed.labels.tobytes()


def test_random_bit_patterns_come_back_bit_for_bit():
    random.seed(3)
    numbers = np.array([random.getrandbits(64) for _ in range(60_000)], np.uint64).view(np.float64)
    numbers = numbers[np.isfinite(numbers)].tolist()
    numbers += [random.uniform(0, 1e-307) for _ in range(3000)]  # subnormal
    parsed = parse("\n".join(f"{x!r}\n{x:.17g}" for x in numbers).encode())
    assert parsed.fault is None
    assert parsed.labels.tobytes() == np.repeat(numbers, 2).tobytes()
    random.shuffle(numbers)
    tokens = [f"{random.randrange(10**18, 10**20)}e{random.randrange(-340, 280)}" for _ in range(30_000)]
    parsed = parse("\n".join(tokens).encode())
    assert parsed.labels.tolist() == [float(token) for token in tokens]


ids = st.one_of(st.integers(0, 9), st.integers(0, 10**6), st.sampled_from([2**31, 2**32 + 1, 2**62, 2**63 - 1]))
values = st.one_of(printed, st.sampled_from([b"1", b"0", b"-0.0", b"+1", b".5", b"5.", b"1e-50", b"3.5e38", b"-1"]))
blanks = st.sampled_from([b" ", b"  ", b"\t", b" \t "])


@st.composite
def lines(draw) -> bytes:
    """A line of a well-formed row (which may repeat an id), a comment, or nothing."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.sampled_from([b"", b" ", b"# 1 2:3", b"\t#", b"  # x:y"]))
    line = draw(st.sampled_from([b"1", b"-1", b"+1", b"0", b"2.5", b"-0", b"?"]))
    line = draw(st.sampled_from([b"", b"", b" "])) + line
    if kind == 1:
        line += b" qid:12"
    for i in draw(st.lists(ids, max_size=5, unique=kind < 8)):
        line += draw(blanks) + b"%d:" % i + draw(values)
    return line + draw(st.sampled_from([b"", b"", b" ", b" # 5:6", b"#c"]))


@st.composite
def texts(draw) -> bytes:
    newline = draw(st.sampled_from([b"\n", b"\r\n"]))
    return newline.join(draw(st.lists(lines(), max_size=8))) + draw(st.sampled_from([b"", newline]))


JUNK = st.sampled_from([bytes([c]) for c in b"0123456789:.+-eE# \t\n\rqidnaf,x?\x00\xff"])


@pytest.mark.slow
@given(texts(), st.booleans(), st.sampled_from(["float32", "float64"]))
def test_rows_are_the_references(data, add_up, dtype):
    # float32 sums are rounded once here, after each addition there: that has a test of its own
    agrees(data, Recipe(duplicates="sum" if add_up and dtype == "float64" else "error", dtype=dtype))


@pytest.mark.slow
@given(texts(), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 3), JUNK), max_size=4), st.booleans())
@example(b"1 qid:a 1:1", [], False)
@example(b"1 qid:1:2 1:1", [], False)
@example(b"1 3:1 : 4:1", [], False)
@example(b"1 9223372036854775808:1", [], False)
@example(b"1 00000000000000000000007:1 +8:1", [], False)
@example(b"1 1:0x10", [], False)
@example(b"1 2:3\n-1e400 1:1", [], False)
@example(b"1 2:3\n1.7976931348623159e308 1:1", [], False)
@example(b"1 1:1_0", [], False)
@example(b"1:1 2:1", [], False)
@example(b"? 2:1\n?\n?? 2:1", [], False)
@example(b"?1 2:1", [], False)
@example(b"1 1:2\n2 1:1 1:0\n3", [], False)
def test_faults_are_found_on_the_references_line(data, edits, add_up):
    for at, cut, junk in edits:
        at %= len(data) + 1
        data = data[:at] + junk + data[at + cut :]
    # a carriage return amid a line is a blank here and a letter there
    agrees(re.sub(rb"\r(?!\n|\Z)", b"r", data), Recipe(duplicates="sum" if add_up else "error", dtype="float64"))


# Values at the edges of what is read in one go: 16 and 17 digits, 2^53, points at either end, leading zeros.
EDGES = (
    b"0.1 1 -1 0 -0 0.0 5. .5 -.5 . - 12.5 -3.25 9007199254740992 9007199254740993 0.9007199254740993 1234567890123456 "
    b"12345678901234567 0.1234567890123456 0.12345678901234567 0.123456789012345678 0.1234567890123456789 "
    b"7.123456789012345678 0.0000001234567890123456 0.00000012345678901234567 0.00000000000000000000001 "
    b"1.0000001234567890123456 0.014178866666666667 9.999999999999999999 -9.007199254740993 1e-5 1e5 +2 00.5 1.2.3 0x1 "
    b"0.1234567890123456789012 0.0000999999999999999999 x.5 ..5 -.-5 0.99991234567890123456 "
    b"1e309 -1e400 1.7976931348623159e308 179769313486231580793e289 "
    b"0.12a4567 0.123456789012a456 0.1a34567890123456 0.1a345678901234567 :1 1: 1#2 999999999999999999999999"
).split()
LONG_IDS = ("7", "00000007", "1234567890123456", "12345678901234567", "9223372036854775807", "9223372036854775808")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tail", [b" 99:0.5\n", b"\n", b" \n", b"\t99:1\r\n", b" # 1:2\n"])
def test_every_form_is_read_alike_amid_usual_pairs(tail, dtype):
    for token in EDGES:
        line = b"1 " + b" ".join(b"%d:0.25" % i for i in range(1, 9)) + b" 20:" + token + tail
        agrees(b"1 5:0.5 6:1\n" + line + b"1 7:3\n", Recipe(dtype=dtype))
    for before, number in itertools.product((b"", b"3:0.5 ", b"3:0.5 4:1 "), LONG_IDS):
        agrees(b"1 5:0.5 6:1\n1 " + before + number.encode() + b":0.5" + tail + b"1 7:3\n", FLOAT64)


@pytest.mark.slow
@given(st.data())
def test_long_texts_of_usual_and_unusual_pairs_are_the_references(data):
    """More separators than are looked for at once, pieces of any alignment, a usual pair after any other."""
    seed = data.draw(st.integers(0, 2**32 - 1))
    draw = random.Random(seed)
    forms = ["%.6g", "%d", "%r", "%.17g", "%.3e", "%.16g", "%.2f", "0%.1f"]
    forms = draw.sample(forms, draw.randint(1, 4)) + draw.choice([[], ["%.6g"] * 30])
    rows = []
    for _ in range(draw.choice([3, 40])):
        count = draw.choice([0, 1, 5, 20, 400])
        ids = sorted(draw.sample(range(10 ** draw.choice([4, 9, 17])), count))
        if draw.random() < 0.1:
            draw.shuffle(ids)
        pairs = [f"{i}:{draw.choice(forms)}" % draw.uniform(-2, 2 ** draw.choice([1, 1, 40])) for i in ids]
        rows.append(" ".join([draw.choice(["1", "-1", "+1"]), *pairs]) + draw.choice(["", "", " ", " # 1:2"]))
    text = "\n".join(rows).encode()
    for _ in range(draw.choice([0, 0, 1])):
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice([b":", b" ", b".", b"-", b"e", b"x", b"#", b"\n", b"\x80", b""]) + text[at + 1 :]
    agrees(text, Recipe(dtype=draw.choice(["float32", "float64"])))


def test_duplicates_are_summed_in_float64_and_rounded_once():
    parsed = parse(b"1 7:0.1 3:1 7:0.2 7:0.3 9:1 9:-1", Recipe(duplicates="sum"))
    assert triples(parsed) == [(1.0, [3, 7], [1.0, float(np.float32(0.1 + 0.2 + 0.3))])]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12))
@example([1.5e308, -1.5e308])
@example([5e-324, 5e-324])
@example([0.0])
def test_l2_rows_have_norm_one_whatever_their_scale(numbers):
    text = "1 " + " ".join(f"{i}:{v!r}" for i, v in enumerate(numbers))
    parsed = parse(text.encode(), Recipe(normalize="l2", dtype="float64"))
    assert parsed.fault is None
    largest = max(map(abs, numbers))
    scaled = [v / largest for v in numbers] if largest else []
    norm = math.sqrt(math.fsum(v * v for v in scaled))
    expected = {i: v / norm for i, v in enumerate(scaled) if v / norm != 0.0}
    assert parsed.ids.tolist() == list(expected)
    np.testing.assert_allclose(parsed.values, list(expected.values()), rtol=1e-14)


def test_rows_without_labels_are_read_where_none_are_asked_for():
    parsed = parse(b"1:2 3:4\n-1 5:6\nqid:3 7:1\n", labelled=False)
    assert np.isnan(parsed.labels[[0, 2]]).all()
    assert parsed.labels[1] == -1
    assert parsed.ids.tolist() == [1, 3, 5, 7]


SAMPLE = (
    b"# made by hand\r\n+1 5:1.5 2:-.25\r\n\r\n-1 qid:7 9223372036854775807:1e-3 # last id\n1\n"
    b"-1 3:1 4:0 5:1.00000000000000000000000001 1000000:3.0e+1\n\n0.5 0:7"
)


def read_all(names, piece_bytes):
    counter = RecordCounter()
    reader = SVMLIGHT.reader(ReaderOptions())
    rows, sources = [], []
    with TextInputs(names) as text:
        for piece in text.pieces(piece_bytes, ROOMY):
            parsed = reader.parse(piece)
            counter.check(parsed)
            rows += triples(parsed)
            sources.append(piece.source)
    return rows, sources, counter


@pytest.mark.parametrize("tail", [b"", b"\n", b"\r\n", b"\n\n# end"])
def test_pieces_of_any_size_give_the_same_rows(tmp_path, tail):
    data = SAMPLE + tail
    path = tmp_path / "rows.svm"
    path.write_bytes(data)
    expected = parse_svmlight(data, dtype=np.float32)
    assert len(expected) == 5
    for piece_bytes in [*range(1, len(data) + 3), 1 << 16]:
        rows, sources, _ = read_all([str(path)], piece_bytes)
        assert rows == expected
        assert sources[-1].text_bytes == sources[-1].stored_bytes == len(data)
        assert sources[-1].fingerprint == xxh3_128_hexdigest(data)


def test_a_fault_has_its_files_line_for_any_piece(tmp_path):
    good, bad = tmp_path / "good.svm", tmp_path / "bad.svm"
    good.write_bytes(SAMPLE)
    bad.write_bytes(SAMPLE + b"\n\n1 4:1\n1 x\n")
    line = SAMPLE.count(b"\n") + 4
    for piece_bytes in range(1, 200, 3):
        with pytest.raises(InputError, match=rf"bad\.svm:{line}: 'x' is not id:value"):
            read_all([str(good), str(bad)], piece_bytes)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, ZSTD.compress])
def test_compressed_text_is_read_and_damage_is_told(tmp_path, compress):
    random.seed(1)
    data = "".join(f"1 {random.randrange(10**9)}:{random.random():.5f}\n" for _ in range(3000)).encode()
    path = tmp_path / "rows"  # told by its first bytes, not by its name
    expected = parse_svmlight(data, dtype=np.float32)
    whole = compress(data)
    path.write_bytes(whole)
    assert read_all([str(path)], 1000)[0] == expected
    path.write_bytes(compress(data) + compress(data))  # as cat a.gz b.gz makes
    assert read_all([str(path)], 50_000)[0] == 2 * expected
    damaged = [whole[: len(whole) // 2] + junk + whole[len(whole) // 2 + 40 :] for junk in (b"\x00" * 40, b"\xff" * 40)]
    for before in (b"", whole):  # what is behind the first whole stream must not be dropped
        for cut in [4, len(whole) // 3, len(whole) // 2, len(whole) - 20, len(whole) - 1]:
            path.write_bytes(before + whole[:cut])
            told = "rows: the compressed file is truncated; get it again|rows: cannot be decompressed .*; get it again"
            with pytest.raises(InputError, match=told if before else told + "|is not a number"):
                read_all([str(path)], 1 << 20)
        for data in (*damaged, b"\xff" * 40) if before else damaged:
            path.write_bytes(before + data)
            with pytest.raises(InputError, match="rows: cannot be decompressed .*; get it again"):
                read_all([str(path)], 1 << 20)


def test_zstd_text_cut_behind_a_line_is_not_taken_for_whole(tmp_path):
    """zstandard's own reader ends without a word where the file does."""
    packer = zstandard.ZstdCompressor().compressobj()
    start = packer.compress(b"1 1:1\n" * 10) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    path = tmp_path / "rows.svm.zst"
    path.write_bytes(start)
    with pytest.raises(InputError, match="truncated"):
        read_all([str(path)], 1000)
    path.write_bytes(start + packer.flush())
    assert len(read_all([str(path)], 1000)[0]) == 10


def test_all_that_a_pipe_has_ready_is_read_at_once():
    """Linux' pipes are made larger, so that pieces of text need not be small; the end is told once and for good."""
    reading, writing = os.pipe()
    with Pipe(reading, lambda: False, owned=True) as pipe:
        with suppress(AttributeError, OSError):  # no Linux; or the user has too many pipes
            size = fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ)
            fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, PIPE_BYTES)  # allowed here: so it was before
            assert size == PIPE_BYTES
        for part in (b"ab\n" * 5_000, b"cd\n" * 5_000):
            os.write(writing, part)
        room = bytearray(100_000)
        assert pipe.readinto(room) == 30_000
        assert room[14_997:15_003] == b"ab\ncd\n"
        os.write(writing, b"last")
        assert pipe.readinto(memoryview(room)[:3]) == 3
        os.close(writing)
        assert (pipe.readinto(room), room[0]) == (1, ord("t"))
        assert (pipe.readinto(room), pipe.readinto(room)) == (0, 0)
    reading, writing = os.pipe()  # one that is stopped gives nothing more
    os.write(writing, b"ready")
    with Pipe(reading, lambda: True, owned=True) as pipe:
        assert pipe.readinto(bytearray(9)) == 0
    os.close(writing)
