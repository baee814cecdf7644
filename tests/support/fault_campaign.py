"""Every call of the system that a command makes fails once, and what the command then leaves is judged.

A run without faults counts a command's calls.  Then for each call, errno and mode (once, or from there on) the command
runs on fresh copies of small inputs, with no earlier outputs and over some.  Expected: it ends in time and by no
signal; exit 0 only with every output whole; otherwise one sentence that names the file, gives the cause and advice that
fits, the earlier outputs as they were, and nothing left behind.

One process loads the package, warms the kernels and forks a child for each case.  ``tools/faults --help`` says more.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from support.fault_children import Ended, Server, unmount
from support.fault_judge import Judge
from support.fault_scenarios import PREPARED, SCENARIOS, Scenario, write_texts
from support.faults import (
    ERRNOS,
    FULL,
    KINDS,
    MODES,
    Fault,
    Report,
    Unavailable,
    build,
    environment,
    read_report,
)
from support.places import ROOT

from blocksvm.commands import module_of

POSITIONS = 200  # of each kind of call, at most
PAGE = 4096
STOPPING = (signal.SIGINT, signal.SIGTERM)  # which commands handle
DISKS = 60  # sizes of small disks that are tried


def faults_of(report: Report, per_position: int, every: int) -> Iterator[Fault]:
    """Those of a command that makes so many calls: of each position ``per_position`` of the ten pairs of errno and
    mode, in turn; every: only each so many-th position, but always the first and the last one."""
    pairs = [(name, mode) for name in ERRNOS for mode in MODES]
    for k, kind in enumerate(KINDS):
        last = min(POSITIONS, report.calls[kind])
        for position in range(1, last + 1):
            if position in (1, last) or (position + k) % every == 0:
                for i in range(per_position):
                    # 7 and 10 have no common divisor: the turns pass over all pairs
                    name, mode = pairs[(7 * (position // every) + 3 * k + i) % len(pairs)]
                    yield Fault(kind, position, name, mode)
    step = max(PAGE, report.n_bytes // DISKS) * every
    for n_bytes in range(0, report.n_bytes, step):
        yield Fault(FULL, n_bytes, "ENOSPC", "on")


def run_here(folder: Path, words: list[str]) -> None:
    """A command in this process; RuntimeError where it fails."""
    from blocksvm.cli import console

    main = module_of(words[0]).main
    said, handlers = io.StringIO(), [signal.getsignal(number) for number in STOPPING]
    with contextlib.chdir(folder), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            console.run(main, words[1:])
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(f"{' '.join(words)} fails without faults: {said.getvalue()}") from None
        finally:
            for number, handler in zip(STOPPING, handlers, strict=True):
                signal.signal(number, handler)


def threads() -> int:
    """Of this process, besides this one and one of pyarrow's allocator, which minds forks."""
    names = Counter()
    for number in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            names[Path(f"/proc/self/task/{number}/comm").read_text().strip()] += 1
    return names.total() - names["jemalloc_bg_thd"] - 1


class Campaign:
    def __init__(self, folder: Path):
        self.server = Server(folder)
        self.files: dict[str, bytes] = {}

    def prepare(self) -> None:
        """Make the inputs, in this process, which compiles or loads the kernels for all children."""
        place = self.fresh("template")
        write_texts(place / "in", "a", 1, 40)
        write_texts(place / "in", "b", 2, 30)
        for step in PREPARED:
            for x in "ab":
                run_here(place, step.format(x=x).split())
        self.files = {f"in/{path.name}": path.read_bytes() for path in (place / "in").iterdir()}

    def fresh(self, name: str) -> Path:
        """A folder with an empty in/ and out/."""
        place = self.server.folder / name
        shutil.rmtree(place, ignore_errors=True)
        (place / "in").mkdir(parents=True)
        (place / "out").mkdir()
        return place

    def warm(self, scenario: Scenario) -> None:
        """Run the command here, where its modules and kernels stay; no thread may stay with them."""
        place = self.fresh("warm")
        for name, data in self.earlier(scenario, scenario.variants[0]).items():
            (place / name).write_bytes(data)
        run_here(place, scenario.words(scenario.variants[0]))
        gc.collect()
        patience = time.monotonic() + 5  # the system may still be taking ended threads away
        while threads() and time.monotonic() < patience:
            time.sleep(0.01)
        if threads():
            raise RuntimeError(f"{scenario.name} leaves a thread behind, beside which no child may be forked")

    def earlier(self, scenario: Scenario, variant: str) -> dict[str, bytes]:
        """The files that lie there before the command: inputs, and outputs of an earlier run."""
        files = {name: self.files[name] for name in scenario.inputs()}
        files |= {name: self.files[source] for name, source in scenario.changed.items()}
        if variant == "over":
            words = [re.sub("^in/a", "in/b", word) for word in scenario.command.split()]
            done = self.server.run({name: self.files[name] for name in words if name.startswith("in/")}, words)
            if done.code != 0:
                raise RuntimeError(f"{' '.join(words)} fails without faults: {done.err}")
            left = self.server.left()
            files |= {name: left[name] for name in scenario.outputs}
        return files

    def judge(self, scenario: Scenario, variant: str) -> tuple[Judge, Report]:
        before, words = self.earlier(scenario, variant), scenario.words(variant)
        readings = []
        for _ in range(2):  # the second run shows that what is compared does not differ by itself
            done = self.server.run(before, words)
            if done.code != 0:
                raise RuntimeError(f"{' '.join(words)} fails without faults: {done.code} {done.err}")
            left, report = self.server.left(), read_report(self.server.report)
            readings.append({n: self.server.reading(n, kind, left[n]) for n, kind in scenario.outputs.items()})
        for name, reading in readings[0].items():
            if not reading or reading != readings[1][name]:
                raise RuntimeError(f"{scenario.name}: {name} is not whole, or differs from run to run")
        return Judge(self.server, scenario, variant, before, readings[0], done.out), report

    def cases(self, scenario: Scenario, per_position: int, every: int, kinds: set[str]) -> Iterator[dict]:
        """A record for each case: what failed, and how the command took it."""
        self.warm(scenario)
        gc.collect()
        gc.freeze()
        for variant in scenario.variants:
            judge, report = self.judge(scenario, variant)
            for fault in faults_of(report, per_position, every):
                if fault.kind in kinds:
                    yield self.case(judge, fault)

    def case(self, judge: Judge, fault: Fault, stack: bool = False) -> dict:
        ended = self.server.run(judge.before, judge.scenario.words(judge.variant), fault, stack)
        report = read_report(self.server.report)
        fired = report.fired > 0
        failures = judge.failures(ended, report, fault if fired else None)
        if stack:
            print(ended.out + ended.err, f"exit {ended.code}; the call was on {report.path or 'nothing'}", sep="\n")
        return self._record(judge, str(fault), fault.kind, fired, ended, failures)

    def disks(self, scenario: Scenario) -> Iterator[dict]:
        """The same on real small disks, from one that is full to one on which the command ends well."""
        from blocksvm.conversion import spool

        self.warm(scenario)
        spool.MARGIN_BYTES = 0  # which split leaves free, and so refuses every small disk at once
        for variant in scenario.variants if scenario.outputs else ():
            judge, report = self.judge(scenario, variant)
            judge.before["out/other"] = bytes(PAGE)  # the smallest disk is full (and a tmpfs of no bytes has no limit)
            taken = sum(-(-len(data) // PAGE) * PAGE for name, data in judge.before.items() if name.startswith("out/"))
            step = max(1, report.n_bytes // PAGE // DISKS + 1) * PAGE
            for n in range(DISKS):
                size = taken + n * step
                try:
                    ended = self.server.run(judge.before, scenario.words(variant), None, disk=size)
                    full = None if ended.code == 0 else Fault(FULL, size, "ENOSPC", "on")
                    failures = judge.failures(ended, read_report(self.server.report), full)
                finally:
                    unmount(self.server.case / "out")
                yield self._record(judge, f"disk:{size}", "disk", ended.code != 0, ended, failures)
                if ended.code == 0 and size > taken + 2 * report.n_bytes:
                    break

    def _record(self, judge: Judge, fault: str, kind: str, fired: bool, ended: Ended, failures) -> dict:
        name = f"{judge.scenario.name}/{judge.variant}"
        return {"scenario": name, "fault": fault, "kind": kind, "fired": fired, "code": ended.code,
                "failures": failures, "last": ended.err.rstrip()[-400:]}  # fmt: skip


# ------------------------------------------------------------------------------------------------ what is shown


def table(records: list[dict]) -> str:
    """Scenario x kind: cases, of which a call failed, of which the command took it wrongly."""
    kinds = [kind for kind in (*KINDS, FULL, "disk") if any(r["kind"] == kind for r in records)]
    lines = [f"{'cases/fired/failures':28}" + "".join(f"{kind:>16}" for kind in kinds)]
    for name in [*dict.fromkeys(r["scenario"] for r in records), "all"]:
        row = f"{name:28}"
        for kind in kinds:
            some = [r for r in records if r["kind"] == kind and name in (r["scenario"], "all")]
            figures = len(some), sum(r["fired"] for r in some), sum(bool(r["failures"]) for r in some)
            row += f"{'/'.join(map(str, figures)) if some else '-':>16}"
        lines.append(row)
    return "\n".join(lines)


def groups(records: list[dict]) -> str:
    """Failures that look the same, with how often and how to see one again."""
    seen: dict[str, dict[str, list[dict]]] = {}
    for record in records:
        for what, detail in dict.fromkeys(map(tuple, record["failures"])):
            seen.setdefault(what, {}).setdefault(detail, []).append(record)
    lines = []
    for what, details in sorted(seen.items(), key=lambda item: -sum(map(len, item[1].values()))):
        lines.append(f"\n{what}: {sum(map(len, details.values()))}")
        for detail, some in sorted(details.items(), key=lambda item: -len(item[1])):
            places = ", ".join(dict.fromkeys(r["scenario"] for r in some))
            lines.append(f"{len(some):6} {detail[:300]}\n       {places[:200]}")
            lines.append(f"       tools/faults --scenario {some[0]['scenario']} --case {some[0]['fault']}")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="tools/faults", description=__doc__.split("\n\n")[0])
    p.add_argument(
        "--scenario", action="append", metavar="NAME", help="only this one (NAME or NAME/VARIANT); repeatable"
    )
    p.add_argument("--case", metavar="KIND:POSITION:ERRNO:once|on", help="one case of a scenario, shown with its stack")
    p.add_argument("--kind", action="append", choices=(*KINDS, FULL), help="only this kind of call; repeatable")
    p.add_argument("--per-position", type=int, default=10, metavar="N", help="errnos and modes of a position (of 10)")
    p.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th position")
    p.add_argument("--part", action="store_true", help="the part that the tests run")
    p.add_argument("--disks", action="store_true", help="small disks (as root, who may mount them) in place of faults")
    p.add_argument("--records", metavar="FILE", help="write a JSON line for each case")
    p.add_argument("--list", action="store_true", help="list the scenarios")
    return p


def start(arguments: list[str]) -> int:
    """Build the library and run the campaign in a process that has it loaded; the exit code: 1 where a case failed."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="blocksvm-faults-", dir=base))
    try:
        library = build(folder)
        more = environment(library) | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-P", "-m", "support.fault_campaign", "--folder", str(folder), *arguments]
        return subprocess.run(command, env=os.environ | more).returncode
    finally:
        with contextlib.suppress(OSError):
            unmount(folder / "case" / "out")
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: list[str]) -> int:
    p = parser()
    p.add_argument("--folder", help=argparse.SUPPRESS)
    options = p.parse_args(arguments)
    if options.list:
        print("\n".join(f"{s.name:20} {s.command}" for s in SCENARIOS))
        return 0
    wanted = [name.partition("/") for name in options.scenario or ()]
    scenarios = [s for s in SCENARIOS if not wanted or s.name in [name for name, _, _ in wanted]]
    if options.part:
        scenarios = [s for s in scenarios if s.part]
    if not scenarios or (options.case and len(scenarios) > 1):
        p.error("name one scenario that there is (--list)")
    if options.folder is None:
        try:
            return start(arguments)
        except Unavailable as error:
            print(f"tools/faults: error: {error}", file=sys.stderr)
            return 2
    campaign = Campaign(Path(options.folder))
    campaign.prepare()
    began = time.monotonic()
    if options.case:
        campaign.warm(scenarios[0])
        variant = wanted[0][2] or scenarios[0].variants[0]
        judge, _ = campaign.judge(scenarios[0], variant)
        record = campaign.case(judge, Fault.parse(options.case), stack=True)
        print("\n".join(f"{what}: {detail}" for what, detail in record["failures"]) or "taken well")
        return int(bool(record["failures"]))
    kinds = set(options.kind or (*KINDS, FULL))
    records: list[dict] = []
    with open(options.records or os.devnull, "w") as log:
        for scenario in scenarios:
            if options.disks:
                found = campaign.disks(scenario)
            else:
                density = (1, scenario.part) if options.part else (options.per_position, options.every)
                found = campaign.cases(scenario, *density, kinds)
            for record in found:
                records.append(record)
                print(json.dumps(record), file=log, flush=True)
    failed = sum(bool(r["failures"]) for r in records)
    fired = sum(r["fired"] for r in records)
    print(table(records), groups(records), "", sep="\n")
    print(f"{len(records)} cases, {fired} with a call that failed, {failed} taken wrongly, "
          f"{time.monotonic() - began:.0f} seconds")  # fmt: skip
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
