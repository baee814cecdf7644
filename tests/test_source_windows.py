"""Tests of blocksvm.cli.source_windows on a small tree of made-up files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from blocksvm.cli import source_windows as sw

MASK = 2**64 - 1


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Eighty modules, half of them tests, and four files that must be skipped."""
    root = tmp_path / "site"
    (root / "pack" / "tests").mkdir(parents=True)
    for k in range(40):
        work = "def work_{}_{}(x, y={}):\n    return x ** 2.5 + y // {} if x != y else 'ü'\n"
        body = [work.format(k, i, i, i + k) for i in range(40)]
        (root / "pack" / f"mod{k}.py").write_text("\n".join(body), encoding="utf-8")
        body = [f"def test_{k}_{i}():\n    assert work({i}) == {k * i}, 'not {i}'\n" for i in range(40)]
        (root / "pack" / "tests" / f"test_mod{k}.py").write_text("\n".join(body))
    (root / "pack" / "empty.py").write_text("")
    (root / "pack" / "latin.py").write_bytes(b"# caf\xe9\n" + b"x = f(1) + g(2)\n" * 40)
    (root / "pack" / "tiny.py").write_text("x = 1\n")
    (root / "pack" / "dangling.py").symlink_to(root / "nowhere.py")
    return root


def rows_of(path: Path) -> list[tuple[int, list[tuple[int, int]]]]:
    text = path.read_text("ascii")
    assert text.endswith("\n") and "\n\n" not in text
    rows = []
    for line in text.splitlines():
        label, *pairs = line.split(" ")
        rows.append((int(label), [(int(i), int(v)) for i, v in (pair.split(":") for pair in pairs)]))
    return rows


def make(tmp_path: Path, tree: Path, name: str = "a", target: int = 100_000, **options):
    train, test = tmp_path / f"{name}.train", tmp_path / f"{name}.test"
    return sw.write_windows(train, test, target_nonzeros=target, roots=[tree], **options), train, test


def grams_by_hand(lines: list[str]) -> list[tuple[int, int]]:
    """(id, count) of a window by plain Python integers."""
    hashes = [sw._hash64(t) for t in sw._TOKEN.findall("\n".join(lines)) if t != "\n"]
    odd, other = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
    counts: Counter[int] = Counter()
    for i in range(len(hashes)):
        mixed = 0
        for n, h in enumerate(hashes[i : i + 3]):
            mixed = h if n == 0 else ((mixed ^ (mixed >> 29)) * odd + h * other) & MASK
            counts[(mixed * odd & MASK) >> (64 - sw.ID_BITS)] += 1
    return sorted((i + 1, c) for i, c in counts.items())


def test_rows_labels_and_summary(tmp_path, tree):
    calls = []
    summary, train, test = make(tmp_path, tree, progress=lambda *a: calls.append(a), jobs=1)
    for path, side in ((train, "train"), (test, "test")):
        rows = rows_of(path)
        assert {label for label, _ in rows} == {-1, 1} == set(summary.labels)
        assert len(rows) == getattr(summary, f"windows_{side}")
        assert sum(len(pairs) for _, pairs in rows) == getattr(summary, f"nonzeros_{side}")
        assert sum(label > 0 for label, _ in rows) == getattr(summary, f"positives_{side}")
        for _, pairs in rows:
            ids = [i for i, _ in pairs]
            assert ids == sorted(set(ids)) and ids[0] >= 1 and ids[-1] <= summary.max_id
            assert all(v >= 1 for _, v in pairs)
    assert summary.bytes_text == train.stat().st_size + test.stat().st_size
    assert abs(summary.nonzeros_train + summary.nonzeros_test - 100_000) <= 20_000
    assert summary.reached_target and summary.roots == (str(tree),)
    assert calls[0][0] == 0.0 and calls[-1] == (1.0, summary.note)
    assert all(0 <= fraction <= 1 for fraction, _ in calls)


@pytest.mark.parametrize("target", [20_000, 10_000_000])
def test_every_row_is_a_window_of_its_side_of_the_split(tmp_path, tree, target):
    """Both sparse windows (tokenised alone) and overlapping ones hold what counting by hand finds."""
    summary, train, test = make(tmp_path, tree, target=target, jobs=1)
    assert (summary.stride > sw.WINDOW_LINES) == (target == 20_000)
    expected: dict[bool, set] = {False: set(), True: set()}
    for source in sw._find_sources([tree], 0):
        lines = sw._read(source).split("\n")
        for at in range(max(1, len(lines) - sw.WINDOW_LINES + 1)):
            window = lines[at : at + sw.WINDOW_LINES]
            expected[source.held_out].add((source.label, tuple(grams_by_hand(window))))
    for path, held_out in ((train, False), (test, True)):
        made = [(label, tuple(pairs)) for label, pairs in rows_of(path)]
        assert made and set(made) <= expected[held_out]
        assert not set(made) & expected[not held_out]


def test_skips_what_it_cannot_use_and_says_when_source_runs_out(tmp_path, tree):
    summary, _, _ = make(tmp_path, tree, target=50_000_000, jobs=1)
    assert (summary.files, summary.files_skipped) == (80, 2)  # skipped: latin.py, tiny.py
    assert summary.stride == sw.MIN_STRIDE and not summary.reached_target
    assert "all there is" in summary.note


def test_same_bytes_for_any_jobs_and_other_bytes_for_another_seed(tmp_path, tree, monkeypatch):
    monkeypatch.setattr(sw, "_INLINE_BELOW", 0)
    made = {}
    for name, options in {"one": {"jobs": 1}, "two": {"jobs": 2}, "seed": {"jobs": 1, "seed": 1}}.items():
        summary, train, test = make(tmp_path, tree, name, **options)
        made[name] = (summary, train.read_bytes(), test.read_bytes())
    assert made["one"] == made["two"]
    assert made["one"][1:] != made["seed"][1:]


def test_split_does_not_depend_on_seed_or_root(tmp_path, tree):
    held = [{s.name for s in sw._find_sources([tree], seed) if s.held_out} for seed in (0, 1)]
    assert held[0] == held[1] and 0 < len(held[0]) < 30
    twice = list(sw._find_sources([tree, tree], 0))
    assert len(twice) == len({s.name for s in twice}) == len(list(sw._find_sources([tree], 0)))


def test_labels_by_path():
    for name in ("test/support/__init__.py", "numpy/tests/x.py", "a/test_b.py", "a/b_test.py", "a_test/x.py"):
        assert sw._is_test(name), name
    for name in ("numpy/testing/utils.py", "unittest/case.py", "a/latest.py", "a/contest.py", "pytest/x.py"):
        assert not sw._is_test(name), name


@pytest.mark.parametrize("text", ["", "\n" * 50, "x", "a b", "x = 1\n" * 2, "a b " * 3000])
def test_unusable_text_gives_no_rows(text):
    assert list(sw._counted(text, 12345, 1)) == list(sw._counted(text, 12345, 500)) == []


def test_formats_every_length_of_id_and_caps_counts():
    ids = [1, 42, 9_999, 10_000, 10_001, 999_999, 1_000_000, 2**22]
    counts = [1, 9, 10, 99, 100, 999, 1000, 7]
    starts = sw.np.array([0, 3])
    text = sw._format(-1, starts, sw.np.array(ids), sw.np.array(counts)).decode()
    assert text == "-1 1:1 42:9 9999:10\n-1 10000:99 10001:100 999999:999 1000000:999 4194304:7\n"


def test_errors_leave_no_file_behind(tmp_path, tree):
    with pytest.raises(ValueError, match="too little Python source"):
        make(tmp_path, tmp_path / "nothing")
    for path in (tree / "pack" / "tests").iterdir():
        path.write_text("x = 1\n")  # still listed, but too short for a window
    with pytest.raises(ValueError, match="too little Python source"):
        make(tmp_path, tree, jobs=1)
    with pytest.raises(ValueError, match="at least 1"):
        make(tmp_path, tree, target=0)
    assert not list(tmp_path.glob("a.*"))


def test_installed_source_is_enough_for_a_small_set(tmp_path):
    train, test = tmp_path / "train", tmp_path / "test"
    summary = sw.write_windows(train, test, target_nonzeros=200_000)
    assert sw.default_roots() and summary.reached_target
    assert 160_000 <= summary.nonzeros_train + summary.nonzeros_test <= 240_000
