"""The experiments as data: each result has one, each command is one that its program takes; what is done is kept."""

from __future__ import annotations

import argparse
import json
import lzma
import re
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest
from support.places import ROOT

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from experiments import __main__ as listing  # noqa: E402
from experiments import bench, registry, rerun  # noqa: E402
from experiments.finished import Finished  # noqa: E402
from experiments.registry import EXPERIMENTS, MADE, MAKERS, SOURCES, Experiment, Made  # noqa: E402

COMMANDS = [made.command for made in MADE] + [piece for one in EXPERIMENTS for piece in one.pieces]


def test_each_result_has_an_experiment():
    results = {path.name for path in (ROOT / "experiments/results").glob("*.md")}
    named = [name for experiment in EXPERIMENTS for name in experiment.results]
    assert {*named, "reliability.md"} == results  # which tools/campaigns and tools/faults make
    assert len({experiment.name for experiment in EXPERIMENTS}) == len(EXPERIMENTS)
    # and each program of experiments that is run by itself is in the registry
    programs = {path.stem for path in (ROOT / "experiments").glob("*.py") if "\ndef main(" in path.read_text()}
    called = {command.split()[0].removeprefix("experiments.") for command in COMMANDS}
    assert programs - called == {"__main__", "iteration", "roofline"}  # the benchmark runs the last two


def test_each_file_is_made_or_brought():
    for command in COMMANDS:
        for name in registry.files_of(command):
            assert name in MAKERS or name in SOURCES, (command, name)
    for made in MADE:
        for file in made.files:
            assert f"{{{file}}}" in made.command or "{@" in made.command, made
    for experiment in EXPERIMENTS:
        assert set(experiment.needs) <= set(MAKERS)
    assert set(registry.sources_of(["zipf.vw", "a9a.h5", "imdb-w1.h5"])) == {"a9a", "aclImdb.tar.gz"}


class Parsed(BaseException):
    """The command line was taken."""


@pytest.fixture
def taken(monkeypatch):
    """Runs a command of the registry up to where its arguments have been parsed."""
    parse = argparse.ArgumentParser.parse_args

    def parse_args(self, args=None, namespace=None):
        raise Parsed(parse(self, args, namespace))

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)

    def run(command: str) -> bool:
        command = re.sub(r"\{@?([^}]+)\}", r"/nowhere/\1", command)
        line = rerun.line_of(command)
        try:
            if line[0] == "-m":
                monkeypatch.setattr(sys, "argv", line[1:])
                main = import_module(line[1]).main
                main(line[2:]) if line[1].startswith("blocksvm.") else main()
            else:
                monkeypatch.setattr(sys, "argv", line)
                runpy.run_path(line[0], run_name="__main__")
        except Parsed:
            return True
        except SystemExit:
            return False
        return False

    return run


def test_each_command_is_one_that_its_program_takes(taken, capsys):
    for command in COMMANDS:
        assert taken(command), command
    for wrong in ("experiments.kernel", "experiments.kernel x --no-such-thing", "tools/make_zipf.py"):
        assert not taken(wrong), wrong
    capsys.readouterr()


def test_the_list_tells_all_of_them(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["experiments", "--folder", str(tmp_path)])
    listing.main()
    told = capsys.readouterr().out
    for experiment in EXPERIMENTS:
        assert f"\n{experiment.name}" in f"\n{told}" and experiment.shows in told
        assert all(f"python -m {piece}\n" in told for piece in experiment.pieces)
    assert "made of  20news-bydate.tar.gz" in told and "last run not here" in told
    monkeypatch.setattr(sys, "argv", ["experiments", "kernle"])
    with pytest.raises(SystemExit):
        listing.main()
    assert "no such experiment: kernle" in capsys.readouterr().err


def test_how_long_an_experiment_takes_is_told_by_another_machines_times(monkeypatch, tmp_path):
    monkeypatch.setattr(listing, "TIMES", tmp_path / "times.json")
    two, one = (Experiment(name, "", pieces, ()) for name, pieces in (("two", ("a", "b")), ("one", ("c",))))
    monkeypatch.setattr(listing, "BY_NAME", {"two": two, "one": one})
    here, elsewhere = rerun.Rerun(tmp_path / "here"), rerun.Rerun(tmp_path / "elsewhere")
    assert listing.shown(one, here, {}).endswith("last run not here")
    for experiment, piece, seconds in (("two", "a", 61.0), ("one", "c", 7.4)):
        kept = {"experiment": experiment, "piece": piece, "seconds": seconds, "ended": "2026-01-02 03:04"}
        elsewhere.finished.put(kept, piece)
    listing.keep_times(elsewhere)
    times = listing.kept_times()
    assert list(times) == ["one"], "of two one piece was run"
    assert (times["one"]["seconds"], times["one"]["when"]) == (7, "2026-01-02 03:04")
    told = listing.shown(one, here, times)
    assert "last run not here; elsewhere 7 s (" in told and told.endswith(", 2026-01-02 03:04)")
    assert listing.shown(one, elsewhere, times).endswith("last run 7 s, 2026-01-02 03:04")
    elsewhere.finished.put({"experiment": "two", "piece": "b", "seconds": 59.0, "ended": "2026-01-02 03:05"}, "b")
    listing.keep_times(elsewhere)
    assert list(listing.kept_times()) == ["one", "two"]
    assert "elsewhere 2.0 min (" in listing.shown(two, here, listing.kept_times())


def test_the_times_that_are_kept_are_of_experiments():
    assert set(listing.kept_times()) <= {experiment.name for experiment in EXPERIMENTS}


def test_what_is_broken_off_goes_on(monkeypatch, tmp_path, capsys):
    """Two pieces over a file made of a packed source: each command runs once, however often the run is broken off."""
    sources = tmp_path / "sources" / "deep"
    sources.mkdir(parents=True)
    with lzma.open(sources / "rows.xz", "wt") as out:
        out.write("1 1:1\n")
    made = Made(("twice.svm",), "tools/twice.py {rows} {twice.svm}")
    experiment = Experiment("two", "two pieces", ("experiments.a {twice.svm}", "experiments.b {twice.svm} {rows}"), ())
    lost = Experiment("lost", "what nobody has", ("experiments.a {nothing}",), ())
    monkeypatch.setattr(rerun, "MAKERS", {"twice.svm": made})
    monkeypatch.setattr(registry, "MAKERS", {"twice.svm": made})
    monkeypatch.setattr(rerun, "BY_NAME", {"two": experiment, "lost": lost})
    monkeypatch.setattr(rerun, "EXPERIMENTS", (experiment, lost))
    monkeypatch.setattr(rerun, "ROOT", tmp_path)
    monkeypatch.setattr(rerun, "signals_interrupt", lambda: None)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "twice.py").write_text("the tool\n")
    calls, faults = [], []

    def call(self, command, stdout=None):
        if faults:
            raise faults.pop()
        line = rerun.line_of(self.resolved(command))
        calls.append(command.split()[0])
        if "twice" in command.split()[0]:
            text = Path(line[1]).read_text()
            assert text == "1 1:1\n"
            Path(line[2]).write_text(2 * text)
        return f"| {command.split()[0]} |\n", 1.5

    monkeypatch.setattr(rerun.Rerun, "_call", call)

    def run(again=False):
        return rerun.rerun("all", tmp_path / "data", tmp_path / "sources", again)

    faults.append(KeyboardInterrupt())
    assert run() == 130
    assert calls == [] and "goes on where it was" in capsys.readouterr().err
    first = rerun.Rerun(tmp_path / "data", tmp_path / "sources")
    first.make("twice.svm")
    assert calls == ["tools/twice.py"]

    def failing(self, command, stdout=None):
        if command.startswith("experiments.b"):
            raise rerun.Failed("experiments.b: ended with status 1")
        return call(self, command, stdout)

    monkeypatch.setattr(rerun.Rerun, "_call", failing)
    assert run() == 1
    assert calls == ["tools/twice.py", "experiments.a"]
    assert "ended with status 1" in capsys.readouterr().out
    assert first.last(experiment)[0::2] == (1.5, 1)
    monkeypatch.setattr(rerun.Rerun, "_call", call)
    assert run() == 0
    assert calls == ["tools/twice.py", "experiments.a", "experiments.b"]
    out = capsys.readouterr().out
    assert "lost: left out; put nothing into a folder" in out
    table = (tmp_path / "data/tables/two.md").read_text()
    assert table.index("| experiments.a |") < table.index("| experiments.b |")
    assert run() == 0 and len(calls) == 3  # nothing is left to do
    assert run(again=True) == 0 and calls[3:] == ["experiments.a", "experiments.b"]
    # other code, other figures
    monkeypatch.setattr(rerun, "digest_of_code", lambda: "changed")
    assert run() == 0 and calls[5:] == ["experiments.a", "experiments.b"]
    with pytest.raises(SystemExit, match="choose among two, lost"):
        rerun.chosen("three")


def test_runs_of_the_benchmark_are_kept_until_it_is_whole(monkeypatch, tmp_path):
    """A benchmark that is broken off measures the rest, and once it is whole everything anew."""
    made, left = [], [2]

    def run_module(python, module, *arguments, timeout=None):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        level = arguments[arguments.index("--level") + 1]
        made.append(level)
        return {"seconds": 1.0, "wall_seconds": 1.0, "peak_rss_mb": 1.0, "dual": 1.0, "rel_gap": 1e-6}

    about = {"rows": 3, "nonzeros": 5, "columns": 4, "name": "few", "C": 1.0, "text_bytes": 10**6, "store_bytes": 1,
             "split_seconds": 1.0}  # fmt: skip
    figures = {"primal": 1.1, "train_accuracy": 1.0, "test_accuracy": None}
    monkeypatch.setattr(bench, "run_module", run_module)
    monkeypatch.setattr(bench, "prepare", lambda *given: dict(about))
    monkeypatch.setattr(bench, "drop_from_cache", lambda path: None)
    monkeypatch.setattr(bench, "budget", lambda store, size: 10**6)
    monkeypatch.setattr(bench, "Judge", lambda *given: argparse.Namespace(figures=lambda weights: dict(figures)))
    options = bench.parser().parse_args(["--repeats", "2", "--levels", "2"])
    data = bench.Dataset("few", tmp_path / "few.svm", None)
    solvers = {"blocksvm": {"version": "blocksvm 1", "missing": None, "python": sys.executable, "about": ""}}
    with pytest.raises(KeyboardInterrupt):
        bench.bench(data, tmp_path, {**solvers}, options)
    assert len(made) == 2
    left[0] = 10
    result = bench.bench(data, tmp_path, {**solvers}, options)
    assert len(made) == 5 == 1 + len(result["runs"])  # the reference, and two levels twice
    Finished(tmp_path / bench.UNFINISHED).clear()
    assert not (tmp_path / bench.UNFINISHED).exists()
    bench.bench(data, tmp_path, {**solvers}, options)
    assert len(made) == 10


def test_an_answer_is_found_by_what_was_asked(tmp_path):
    kept = Finished(tmp_path / "kept")
    assert kept.get("a", 1) is None and kept.all() == []
    assert kept.put({"x": 1}, "a", 1) == {"x": 1} == kept.get("a", 1)
    assert kept.get("a", 2) is None
    assert [json.loads(path.read_text()) for path in kept.folder.iterdir()] == kept.all() == [{"x": 1}]
