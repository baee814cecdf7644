"""A map to size a run by: seconds, readings and bytes to a certified gap by disk speed, memory, working set and inner
passes; then what else decides: by what the working set's rows are chosen, and how many nonzeros a chunk has.

    python -m experiments.sizing NAME=TEXT.svm ... [--folder DIR] [--bandwidths 50,150,500,inf] [--shares 8,32]
                                 [--schedules 1,3,10,overlap,auto] [--repeats 1] [--json FILE] [--figure FILE.png]

Shares of the memory are those of ``experiments.working_set``, bandwidths MB/s of compressed bytes at which a reader is
held back.  All runs are made in one process, whose kernels are loaded.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from blocksvm.conversion.convert import SplitSettings, write_store
from blocksvm.kernels.loss_placeholders import AT_REST, FREE, NEAR, conjugate, direction, stationarity, value
from blocksvm.losses import loss as losses
from blocksvm.store.reader import Store
from blocksvm.training.certificate import CertificatePolicy
from blocksvm.training.fit import fit
from experiments.report import machine
from experiments.schedules import seconds_to_gap
from experiments.working_set import budget

SETS = ("auto", "none")
GAP = 1e-3
MOST_READINGS = 24  # of a run that is made again and again with one more, for what is chosen by other rules
CHUNKS = (4_096, 16_384, 65_536, 262_144)


# -- the map -------------------------------------------------------------------------------------------------------


def map_of(store: Path, options) -> list[dict]:
    """A line for each bandwidth, share, working set and schedule; without a set for the first share alone."""
    lines, shares = [], options.shares.split(",")
    for share in shares:
        for kind in SETS if share == shares[0] else SETS[:1]:
            for bandwidth in map(float, options.bandwidths.split(",")):
                for schedule in options.schedules.split(","):
                    asked = (bandwidth * 1e6, schedule, kind, budget(store, share), GAP)
                    runs = [seconds_to_gap(store, *asked) for _ in range(options.repeats)]
                    middle = sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]
                    about = {"share": share, "set": kind, "bandwidth": bandwidth, "schedule": schedule}
                    lines.append(about | middle)
        print(f"  {store.parent.name}: 1/{share} of the memory done", flush=True)
    return lines


def table_of(name: str, lines: list[dict], options) -> str:
    """Markdown: a row for each share, working set and bandwidth."""
    schedules = options.schedules.split(",")
    head = [name, *schedules, "auto / best fixed", "overlap / best fixed"]
    out = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    keys = dict.fromkeys((line["share"], line["set"], line["bandwidth"]) for line in lines)
    for share, kind, bandwidth in keys:
        found = {x["schedule"]: x for x in lines if (x["share"], x["set"], x["bandwidth"]) == (share, kind, bandwidth)}
        best = min(found[s]["seconds"] for s in schedules if s.isdigit())
        speed = "not held back" if bandwidth == float("inf") else f"{bandwidth:g} MB/s"
        cells = [f"{x['seconds']:.2f} ({x['readings']:.0f}, {x['mb_read']:.0f})" for x in found.values()]
        ratios = [f"{found[s]['seconds'] / best:.2f}" if s in found else "" for s in ("auto", "overlap")]
        label = f"1/{share}, {'set' if kind == 'auto' else 'no set'}, {speed}"
        out.append("| " + " | ".join([label, *cells, *ratios]) + " |")
    return "\n".join(out)


def draw(results: dict[str, list[dict]], path: Path) -> None:
    """Seconds by disk speed, a panel a data set, under ``auto``."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(results), figsize=(5.0 * len(results), 3.6), squeeze=False)
    for panel, (name, lines) in zip(panels[0], results.items(), strict=True):
        places = sorted({line["bandwidth"] for line in lines})
        for share in dict.fromkeys(line["share"] for line in lines):
            for kind, style in (("auto", "-o"), ("none", "--s")):
                chosen = [x for x in lines if (x["share"], x["set"], x["schedule"]) == (share, kind, "auto")]
                if not chosen:
                    continue
                chosen.sort(key=lambda x: x["bandwidth"])
                label = f"1/{share} of the memory, {'working set' if kind == 'auto' else 'none'}"
                panel.plot(range(len(chosen)), [x["seconds"] for x in chosen], style, label=label)
        panel.set_yscale("log")
        for ticks in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
            ticks("{x:g}")
        panel.set_xticks(range(len(places)), ["not held back" if p == float("inf") else f"{p:g} MB/s" for p in places])
        panel.set_title(name)
        panel.set_ylabel(f"seconds to a certified gap of {GAP:g}")
        panel.grid(True, which="both", alpha=0.3)
    panels[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


# -- other rules of choice -----------------------------------------------------------------------------------------


def by_gradient(a, z, y, c, p):
    """|G|: how far the row's gradient lies beyond its bound, or from 0 between the bounds."""
    projected, excess = stationarity(a, z, y, c, p)
    return AT_REST if abs(excess) > NEAR else max(abs(projected), FREE)


def at_random(a, z, y, c, p):
    """A number that depends on the decision value's last digits."""
    projected, excess = stationarity(a, z, y, c, p)
    digits = z * 7919.0 * 7919.0
    return AT_REST if abs(excess) > NEAR else max(digits - int(digits), 0.0) + FREE


def free_first(a, z, y, c, p):
    """Rows between their bounds, then the others, each by the share of the gap."""
    projected, excess = stationarity(a, z, y, c, p)
    if abs(excess) > NEAR:
        return AT_REST
    share = max(value(z, y, c, p) + (conjugate(a, y, c, p) + a * direction(y, p) * z), 0.0)
    return share + 1e6 if excess == 0.0 else share


RULES = {"share of the gap": None, "|G|": by_gradient, "at random": at_random, "free rows first": free_first}


def readings_by(store: Path, memory: int, rule) -> int | None:
    """Readings to the gap where the set's rows are chosen by a rule: a run of K iterations of one pass a visit, whose
    certificate is taken at its end, for rising K; None where ``MOST_READINGS`` are not enough."""
    kept, due = losses.share_of_gap, CertificatePolicy.due
    if rule is not None:
        rule.__name__ = rule.__qualname__ = kept.__name__
        losses.share_of_gap = rule
    CertificatePolicy.due = lambda *asked: False
    losses._compiled.cache_clear()
    losses._share_of_gap.cache_clear()
    try:
        with Store(store) as source:
            for outers in range(2, MOST_READINGS):
                fitted = fit(source, memory=memory, schedule="1", tol=1e-4, max_outer=outers)
                if fitted.certificate.rel_gap <= GAP:
                    return outers + 1
    finally:
        losses.share_of_gap, CertificatePolicy.due = kept, due
        losses._compiled.cache_clear()
        losses._share_of_gap.cache_clear()
    return None


def choice_table(stores: dict[str, Path], shares: list[str]) -> str:
    head = ["set's rows chosen by", *(f"{name}, 1/{share}" for name in stores for share in shares)]
    out = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for told, rule in RULES.items():
        found = [readings_by(store, budget(store, share), rule) for store in stores.values() for share in shares]
        out.append("| " + " | ".join([told, *(f"> {MOST_READINGS}" if n is None else str(n) for n in found)]) + " |")
    return "\n".join(out)


def chunk_table(texts: dict[str, Path], folder: Path, repeats: int) -> str:
    head = ["nonzeros of a chunk", *texts]
    out = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for length in CHUNKS:
        cells = []
        for name, text in texts.items():
            store = folder / name / f"chunks-{length}.h5"
            write_store([str(text)], store, SplitSettings(chunk_nonzeros=length, overwrite=True))
            runs = [seconds_to_gap(store, 1e15, "auto", "auto", budget(store, "8"), GAP) for _ in range(repeats)]
            seconds = statistics.median(run["seconds"] for run in runs)
            cells.append(f"{seconds:.2f} s ({statistics.median(run['readings'] for run in runs):.0f})")
            store.unlink()
        out.append("| " + " | ".join([f"{length:,}", *cells]) + " |")
    return "\n".join(out)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", nargs="+", metavar="NAME=TEXT.svm")
    p.add_argument("--folder", type=Path, default=Path(__file__).resolve().parent / "data", metavar="DIR")
    p.add_argument("--bandwidths", default="50,150,500,inf", help="MB/s of compressed bytes")
    p.add_argument("--shares", default="8,32")
    p.add_argument("--schedules", default="1,3,10,overlap,auto")
    p.add_argument("--repeats", type=int, default=1)
    p.add_argument("--json", type=Path, metavar="FILE")
    p.add_argument("--figure", type=Path, metavar="FILE.png")
    options = p.parse_args()
    texts = {name: Path(text).resolve() for name, _, text in (one.partition("=") for one in options.data)}
    stores, results = {}, {}
    for name, text in texts.items():
        folder = options.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        stores[name] = folder / "store.h5"
        if not stores[name].exists():
            write_store([str(text)], stores[name], SplitSettings())
        seconds_to_gap(stores[name], 1e15, "2", "auto", budget(stores[name], "8"), 1e-1)  # loads the kernels
        results[name] = map_of(stores[name], options)
    about = machine()
    print(f"\n{about['cpu']}, {about['cores']} cores, {about['ram_gb']} GB, {about['date']}: seconds to a certified "
          f"gap of {GAP:g} (readings of all rows, MB read), by inner passes of a visit.\n")  # fmt: skip
    for name, lines in results.items():
        print(table_of(name, lines, options) + "\n", flush=True)
    print("Readings to the gap, one inner pass a visit:\n")
    print(choice_table(stores, options.shares.split(",")) + "\n", flush=True)
    print("Seconds at 1/8 of the memory under auto (readings), by the size of chunks:\n")
    print(chunk_table(texts, options.folder, max(3, options.repeats)))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.figure:
        draw(results, options.figure)


if __name__ == "__main__":
    main()
