"""Runs experiments of the registry, data included: what is finished is kept, so that a run may be broken off and go on.

A table is one file a piece's output: FOLDER/tables/EXPERIMENT.md; those of experiments/results, with the words between
them, are written by hand from such.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from blocksvm.cli.console import signals_interrupt
from experiments.finished import ROOT, Finished, digest_of_code
from experiments.registry import BY_NAME, EXPERIMENTS, MAKERS, Experiment, files_of, sources_of

PACKED = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
DEFAULT_FOLDER = ROOT / "experiments" / "data"


class Missing(Exception):
    """A file that the user has to bring is not there."""


class Failed(Exception):
    """A command ended with an error, whose text it has printed itself."""


def line_of(command: str) -> list[str]:
    """The words of a command of the registry: how Python is told to run it, and its arguments."""
    program, *arguments = shlex.split(command)
    return [*([str(ROOT / program)] if program.startswith("tools/") else ["-m", program]), *arguments]


class Rerun:
    """Experiments in a folder; sources: where the user's files lie, at any depth."""

    def __init__(self, folder: Path = DEFAULT_FOLDER, sources: Path | None = None):
        self.folder, self.sources = folder.resolve(), sources
        self.finished = Finished(self.folder / "finished")

    def path_of(self, name: str) -> Path:
        return self.folder / "made" / name

    def resolved(self, command: str) -> str:
        """The command with the paths of its files."""

        def path(found: re.Match) -> str:
            name = found[1]
            if name == "@tables":
                return shlex.quote(str(self.folder / "tables"))
            return shlex.quote(str(self.path_of(name.removeprefix("@")) if name[0] == "@" else self.located(name)))

        return re.sub(r"\{([^}]+)\}", path, command)

    def located(self, name: str) -> Path:
        """Where a file is: one that is made, or a source, unpacked where only its packed form was brought."""
        if name in MAKERS or self.path_of(name).exists():
            return self.path_of(name)
        for path in sorted(self.sources.rglob(f"{name}*")) if self.sources else ():
            if path.name == name:
                return path.resolve()
            unpack = PACKED.get(path.suffix)
            if unpack is not None and path.name == name + path.suffix:
                return self._unpacked(path, name, unpack)
        raise Missing(name)

    def _unpacked(self, path: Path, name: str, unpack) -> Path:
        made = self.path_of(name)
        made.parent.mkdir(parents=True, exist_ok=True)
        partial = made.with_name(f"{made.name}.part")
        with unpack(path) as packed, open(partial, "wb") as out:
            shutil.copyfileobj(packed, out)
        os.replace(partial, made)
        return made

    def make(self, name: str) -> None:
        """Make a file, and before it those that it is made of, unless that has been done."""
        made = MAKERS.get(name)
        if made is None:
            self.located(name)
            return
        program = shlex.split(made.command)[0]
        # generators change seldom; a store is the package's own work
        version = (ROOT / program).read_text() if program.startswith("tools/") else digest_of_code()
        asked = ("made", made.command, version)
        if self.finished.get(*asked) and all(self.path_of(file).exists() for file in made.files):
            return
        for file in files_of(made.command):
            if file not in made.files:
                self.make(file)
        for folder in {self.path_of(file).parent for file in made.files}:
            folder.mkdir(parents=True, exist_ok=True)
        print(f"making {', '.join(made.files)}", file=sys.stderr, flush=True)
        _, seconds = self._call(made.command, sys.stderr)
        self.finished.put({"made": list(made.files), "seconds": seconds}, *asked)

    def run(self, experiment: Experiment, again: bool = False) -> Path:
        """Run the pieces of an experiment that are not finished, or all; returns where its table is."""
        for name in (*experiment.needs, *(name for piece in experiment.pieces for name in files_of(piece))):
            self.located(name) if name not in MAKERS else [self.located(source) for source in sources_of([name])]
        answers = []
        for number, piece in enumerate(experiment.pieces, 1):
            asked = ("piece", experiment.name, piece, digest_of_code())
            answer = None if again else self.finished.get(*asked)
            if answer is None:
                for name in (*experiment.needs, *files_of(piece)):
                    self.make(name)
                print(f"{experiment.name}, {number} of {len(experiment.pieces)}: {piece}", file=sys.stderr, flush=True)
                output, seconds = self._call(piece)
                answer = {"experiment": experiment.name, "piece": piece, "seconds": seconds, "output": output,
                          "ended": time.strftime("%Y-%m-%d %H:%M")}  # fmt: skip
                self.finished.put(answer, *asked)
            answers.append(answer)
        return self._write(experiment, answers)

    def _call(self, command: str, stdout=subprocess.PIPE) -> tuple[str, float]:
        """What a command printed, and the seconds that it took."""
        line = [sys.executable, *line_of(self.resolved(command))]
        (self.folder / "tables").mkdir(parents=True, exist_ok=True)
        began = time.perf_counter()
        done = subprocess.run(line, cwd=ROOT, stdout=stdout, text=True, env=dict(os.environ, PYTHONPATH=str(ROOT)))
        if done.returncode == 130:
            raise KeyboardInterrupt
        if done.returncode:
            raise Failed(f"{command}: ended with status {done.returncode}")
        return done.stdout or "", time.perf_counter() - began

    def _write(self, experiment: Experiment, answers: list[dict]) -> Path:
        parts = [f"# {experiment.name}: {experiment.shows}\n"]
        for answer in answers:
            parts.append(f"`{answer['piece']}`, {answer['ended']}, {answer['seconds']:.0f} s\n\n{answer['output']}")
        path = self.folder / "tables" / f"{experiment.name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(parts))
        return path

    def last(self, experiment: Experiment) -> tuple[float, str, int] | None:
        """(seconds, when, pieces) of the newest runs of its pieces, whatever the code was; None where none was run."""
        newest: dict[str, dict] = {}
        for answer in self.finished.all():
            before = newest.get(answer.get("piece"))
            known = answer.get("experiment") == experiment.name and answer["piece"] in experiment.pieces
            if known and (before is None or before["ended"] <= answer["ended"]):
                newest[answer["piece"]] = answer
        if not newest:
            return None
        return sum(a["seconds"] for a in newest.values()), max(a["ended"] for a in newest.values()), len(newest)


def chosen(names: str) -> list[Experiment]:
    """The experiments of 'a,b', or for 'all' those that are not large; SystemExit where a name is none's."""
    if names == "all":
        return [experiment for experiment in EXPERIMENTS if not experiment.large]
    wanted = [name for name in names.split(",") if name]
    if not wanted or set(wanted) - set(BY_NAME):
        raise SystemExit(f"tools/bench: --experiments: choose among {', '.join(BY_NAME)}, or all")
    return [BY_NAME[name] for name in wanted]


def rerun(names: str, folder: Path, sources: Path | None, again: bool) -> int:
    """Run them one after the other, and say what came of each; gives the exit status."""
    runner, code = Rerun(folder, sources), 0
    signals_interrupt()
    for experiment in chosen(names):
        try:
            print(f"{experiment.name}: {runner.run(experiment, again)}", flush=True)
        except Missing as missing:
            print(f"{experiment.name}: left out; put {missing} into a folder and name it by --sources", flush=True)
        except Failed as failed:
            code = 1
            print(f"{experiment.name}: {failed}", flush=True)
        except KeyboardInterrupt:
            print("broken off; the same command goes on where it was", file=sys.stderr)
            return 130
    return code
