"""The demo's input on a small tree of made-up files."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocksvm.cli import source_windows
from blocksvm.cli.source_windows import WINDOW_LINES, Module, find_modules, windows_of, write_windows


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


def test_windows_are_those_of_their_side_and_label(tmp_path, tree):
    told = []
    made = write_windows(tmp_path / "a", tmp_path / "b", 20_000, lambda *a: told.append(a), [tree])
    modules = {(module.held_out, "+1" if module.is_test else "-1"): set() for module in find_modules([tree])}
    for module in find_modules([tree]):
        modules[module.held_out, "+1" if module.is_test else "-1"].update(windows_of(module, 1))
    for path, held_out, side in ((tmp_path / "a", False, made.train), (tmp_path / "b", True, made.test)):
        rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
        assert len(rows) == side.windows > side.positives > 0
        assert sum(label == "+1" for label, _ in rows) == side.positives
        assert all(text in modules[held_out, label] for label, text in rows)
        assert not {text for _, text in rows} & modules[not held_out, "+1"]
    assert made.train.files + made.test.files <= 80 and told[0] == (0.0, "listing installed Python source")


def test_equal_sources_give_equal_bytes_and_a_file_counts_once(tmp_path, tree):
    for name in ("a", "b"):
        write_windows(tmp_path / name, tmp_path / f"{name}-test", 20_000, roots=[tree])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert len(list(find_modules([tree, tree]))) == len(list(find_modules([tree]))) == 82


def test_labels_by_path():
    for name in ("test/support/__init__.py", "numpy/tests/x.py", "a/test_b.py", "a/b_test.py", "a_test/x.py"):
        assert Module("", name, 1).is_test, name
    for name in ("numpy/testing/utils.py", "unittest/case.py", "a/latest.py", "a/contest.py", "pytest/x.py"):
        assert not Module("", name, 1).is_test, name


@pytest.mark.parametrize("text", [b"", b"\n" * 50, b"x = 1\n" * 2, b"a b " * 3000, b"\xff" * 500])
def test_unusable_text_gives_no_rows(text, tmp_path):
    (tmp_path / "x.py").write_bytes(text)
    assert list(windows_of(Module(str(tmp_path / "x.py"), "x.py", len(text)), 1)) == []


def test_every_line_of_a_file_may_begin_a_window(tmp_path):
    lines = [f"line_{k} = call(argument_{k})" for k in range(20)]
    (tmp_path / "x.py").write_text("\n".join(lines))
    windows = list(windows_of(Module(str(tmp_path / "x.py"), "x.py", 1), 1))
    assert windows == [" ".join(lines[k : k + WINDOW_LINES]) for k in range(20 - WINDOW_LINES + 1)]


def test_too_little_source_is_told(tmp_path, tree):
    with pytest.raises(ValueError, match="too little Python source"):
        write_windows(tmp_path / "a", tmp_path / "b", 1000, roots=[tmp_path / "nothing"])
    for path in (tree / "pack" / "tests").iterdir():
        path.write_text("x = 1\n")  # still listed, but too short for a window
    with pytest.raises(ValueError, match="too little Python source"):
        write_windows(tmp_path / "a", tmp_path / "b", 1000, roots=[tree])
    assert source_windows.default_roots()
