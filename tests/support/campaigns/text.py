"""Numbers as text: svmlight, Vowpal Wabbit and csv lines against Python's float() and scikit-learn's loader.

A case is a text of 100,000 lines with one number each: short and long ones, those that lie halfway between two doubles,
exponents to beyond both ends, and a hundredth that is mistyped.  Which lines are read, and every value bit by bit, must
be what float() says of a plain decimal number that is finite: what float() takes besides (1_0, inf, nan) is refused,
and the table counts these lines, and the lines that scikit-learn takes where we refuse or refuses where we take.
"""

from __future__ import annotations

import io
import math
import random
import re
from collections import Counter
from decimal import Decimal, getcontext
from functools import partial
from pathlib import Path

import numpy as np
from support.campaigns import Case

CASES = 100
LINES = 100_000
SQUARE_FITS = 1.3e154
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
MISTYPED = "eE+-._xX,'\"0naif"
FORMATS = ("svmlight", "svmlight", "svmlight", "vw", "csv")
getcontext().prec = 1200


def token(draw: random.Random) -> str:
    """A number as text."""
    kind = draw.random()
    if kind < 0.25:
        text = f"{draw.randrange(10 ** draw.randrange(1, 26))}"
    elif kind < 0.5:
        text = f"{draw.randrange(10 ** draw.randrange(1, 12))}.{'0' * draw.randrange(3)}{draw.randrange(10**6)}"
    elif kind < 0.75:
        text = repr(math.ldexp(draw.random(), draw.randrange(-1074, 510)))
    elif kind < 0.76:  # halfway between two doubles, or a digit beside it
        low = math.ldexp(draw.random(), draw.randrange(-60, 60))
        text = str((Decimal(low) + Decimal(math.nextafter(low, math.inf))) / 2) + draw.choice(("", "1", "000001"))
        text = text if "E" not in text or text[-1] != "1" else text.replace("E", "1E", 1)[:-1]
    else:
        text = f"{draw.randrange(10 ** draw.randrange(1, 20))}e{draw.randrange(-345, 130)}"
        if draw.random() < 0.005:
            text = f"{draw.randrange(1000)}e{draw.randrange(130, 400)}"
        if draw.random() < 0.3:
            text = text[:1] + "." + text[1:]
    return draw.choice(("", "", "-", "+")) + text


def mistyped(text: str, draw: random.Random) -> str:
    """One character put in, taken out or in the place of another."""
    at, kind = draw.randrange(len(text)), draw.randrange(4)
    if kind == 3:
        return draw.choice(("nan", "inf", "-inf", "NaN", "1_0", "0x10", "1e", "e5", ".", "--1", "1.2.3", "1,5", "1d3"))
    return text[:at] + (draw.choice(MISTYPED) if kind else "") + text[at + (kind != 1) :]


def tokens(seed: tuple[int, int], n: int) -> list[str]:
    draw = random.Random(f"{seed}")
    return [mistyped(one, draw) or "?" if draw.random() < 0.01 else one for one in (token(draw) for _ in range(n))]


def expected(text: str) -> float | None:
    """The value of a plain decimal number that is finite; None of all else."""
    if not NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def read(name: str, lines: list[str], n: int) -> tuple[np.ndarray, np.ndarray]:
    """(read (n,) bool, values (n,) float64) of lines of one number each."""
    from blocksvm.formats.format import ReaderOptions, parse_skipping
    from blocksvm.formats.recipe import Recipe
    from blocksvm.formats.tables.cells import CSV
    from blocksvm.formats.text.svmlight import SVMLIGHT
    from blocksvm.formats.text.text_source import TextPiece, TextSource
    from blocksvm.formats.text.vw import VW

    head = "y,x\n" if name == "csv" else ""
    options = CSV.settled({"label": "y"}, (head + "".join(lines[:9])).encode(), "f.csv") if name == "csv" else {}
    form = {"svmlight": SVMLIGHT, "vw": VW, "csv": CSV}[name]
    reader = form.reader(ReaderOptions(Recipe(name, dtype="float64", options=options), True, offers=()))
    data = (head + "".join(lines)).encode()
    text = np.frombuffer(data + bytes(200), np.uint8)
    piece = TextPiece(TextSource("text", None), text, len(data), None, begins=True)
    there, values, line = np.zeros(n, bool), np.zeros(n), -(name == "csv")
    for batch in parse_skipping(reader, piece):
        rows = line + batch.origin.records
        there[rows] = True
        filled = np.diff(batch.indptr) == 1
        values[rows[filled]] = 1.0 if batch.values is None else batch.values
        line += batch.origin.n_records
    return there, values


def compared(name: str, seed: tuple[int, int], n: int, folder: Path) -> str | None:
    words = tokens(seed, n)
    right = [expected(word) for word in words]
    if name == "csv":  # what is no number there is a category
        pairs = zip(words, right, strict=True)
        pairs = [(word, value) for word, value in pairs if value is not None and abs(value) < SQUARE_FITS]
        words, right = [word for word, _ in pairs], [value for _, value in pairs]
    form = {"svmlight": "1 1:{}\n", "vw": "1 | a:{}\n", "csv": "1,{}\n"}[name]
    lines = [form.format(word) for word in words]
    there, values = read(name, lines, len(words))
    wanted = np.array([value is not None for value in right])
    wrong = np.flatnonzero(there != wanted)
    # a row whose square overflows is refused with a sentence of its own
    wrong = [i for i in wrong.tolist() if right[i] is None or abs(right[i]) < SQUARE_FITS]
    assert not wrong, f"{len(wrong)} lines: {[(words[i], bool(there[i])) for i in wrong[:5]]}"
    known = np.array([0.0 if value is None else value for value in right])
    off = np.flatnonzero(there & (values != known))
    assert not len(off), f"{len(off)} values: {[(words[i], values[i], known[i]) for i in off[:5].tolist()]}"
    if name != "svmlight":
        return None
    return beside_sklearn(words, lines, there, values)


def beside_sklearn(words: list[str], lines: list[str], there: np.ndarray, values: np.ndarray) -> None:
    """The values of the lines that we read, and one by one which of the others scikit-learn takes."""
    from sklearn.datasets import load_svmlight_file

    rows = np.flatnonzero(there)
    X, _ = load_svmlight_file(io.BytesIO("".join(lines[i] for i in rows).encode()), n_features=1, zero_based=False)
    off = np.flatnonzero(X.toarray().ravel() != values[rows])
    assert not len(off), f"scikit-learn reads {len(off)} otherwise: {[words[rows[i]] for i in off[:5].tolist()]}"
    for i in np.flatnonzero(~there).tolist():
        try:
            X, _ = load_svmlight_file(io.BytesIO(lines[i].encode()), zero_based=False)
        except (ValueError, OverflowError):
            DIFFERENCES["both refuse"] += 1
            continue
        DIFFERENCES[why(words[i])] += 1


DIFFERENCES: Counter = Counter()  # of lines that we refuse: what scikit-learn does


def why(word: str) -> str:
    try:
        value = float(word)
    except ValueError:
        return "scikit-learn reads what is no number"
    if math.isfinite(value):
        return "a row whose square overflows" if abs(value) >= SQUARE_FITS else "scikit-learn reads 1_0 and the like"
    return "scikit-learn reads inf, nan and what overflows"


def summed(folder: Path) -> str:
    """The differences of all cases before."""
    return ", ".join(f"{what} {n:,}" for what, n in sorted(DIFFERENCES.items()))


def cases(n: int, seed: int, lines: int = LINES) -> list[Case]:
    names = [FORMATS[k % len(FORMATS)] for k in range(n)]
    found = [
        Case(f"{name}, {lines:,} lines a case", partial(compared, name, (seed, k), lines))
        for k, name in enumerate(names)
    ]
    return [*found, Case("svmlight lines that are refused", summed)]
