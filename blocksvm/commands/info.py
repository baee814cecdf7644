"""blocksvm info: what a store, a model or a checkpoint holds."""

from __future__ import annotations

import sys

from blocksvm.base.errors import InputError, printable
from blocksvm.cli.console import Parser
from blocksvm.cli.json_output import add_json, check_json, told_as_json


def parser() -> Parser:
    p = Parser("info", "Describe a store, a model or a checkpoint.")
    p.add_argument("file", metavar="FILE.h5", help="a store, a model or a checkpoint")
    p.add_argument("--verify", action="store_true", help="read all of the file and compare it with its checksums")
    p.add_argument(
        "--top", type=int, metavar="N", help="for a model: list the N features of the largest weights, by class"
    )
    add_json(p, "the description")
    p.add_argument("--overwrite", action="store_true", help="replace an existing FILE")
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    check_json(options, options.file)
    from pathlib import Path

    from blocksvm.store.hdf5_files import MAKERS, open_hdf5, read_meta, text_attribute, version_attribute

    path = Path(options.file)
    with open_hdf5(path, *MAKERS) as file:
        kind = text_attribute(file, "blocksvm")
        version = version_attribute(file)
        meta = read_meta(file)
    if kind in ("model", "checkpoint"):
        from blocksvm.model.older import of_today

        meta = of_today(meta)
    if options.verify:
        verify(path, kind, options.quiet)
    top = None
    if options.top is not None:
        if options.top < 1:
            raise InputError(f"--top {options.top}: must be 1 or more")
        if kind != "model":
            raise InputError(f"{path}: is a {kind}; --top lists the weights of a model")
        from blocksvm.model.feature_names import strongest

        top = strongest(path, options.top)
    if options.json:
        about = meta if "method" not in meta else meta | {"settings": own_settings(meta)}
        all_of_it = {"kind": kind, "format_version": version, "bytes": path.stat().st_size, **about}
        if top is not None:
            all_of_it["top"] = [{"label": label, "features": [vars(one) for one in own]} for label, own in top]
    if not options.json or not told_as_json(options, all_of_it):
        for name, value in described(kind, meta, path.stat().st_size):
            print(f"{name:<14} {printable(str(value))}")
        if options.verify:
            print(f"{'verified':<14} every checksum matches")
        for line in told_weights(top or []):
            print(line)
    return 0


def told_weights(top: list) -> list[str]:
    """The features of the largest weights, those of each class under its label."""
    from blocksvm.base.labels import listed

    lines = []
    for label, features in top:
        lines += ["", "the largest weights" + ("" if label is None else f", above 0 for {listed([label])}")]
        lines += [f"{one.weight:>+14.6g}  {_named(str(one))}" for one in features]
    return lines


def _named(name: str) -> str:
    """A name on one line, in quotes where a blank is at an end."""
    shown = printable(name)
    return repr(shown) if shown != shown.strip() else shown


def verify(path, kind: str, quiet: bool) -> None:
    """InputError unless all that matters in the file is sound."""
    if kind == "store":
        from blocksvm.cli.display import Line
        from blocksvm.store.reader import Store

        line = Line(sys.stderr, quiet)
        with Store(path) as store:
            store.verify(lambda done, total: line.show(f"verifying chunk {done:,} of {total:,}"))
        line.close()
    elif kind == "structure":
        from blocksvm.structured.structured_model import load_structured

        load_structured(path)
    elif kind == "structure-checkpoint":
        from blocksvm.structured.structured_checkpoint import verify_structured_checkpoint

        verify_structured_checkpoint(path)
    else:
        from blocksvm.model.solver_state import verify_state

        verify_state(path)


def own_settings(meta: dict) -> dict:
    """The settings of a model or checkpoint by name: those of the run, and those that its solver has of its own."""
    return {"solver": meta["method"]["name"], **meta["method"]["settings"], **meta["settings"]}


# settings that have a line of their own
TOLD_ELSEWHERE = ("class_weight",)


def method_lines(meta: dict) -> list[tuple[str, str]]:
    """What trained a model, and all that decided what it learned."""
    from blocksvm.base.settings import shown

    own, run = meta["method"]["settings"], meta["settings"]
    weights = own.get("class_weight")
    if isinstance(weights, dict):
        weights = ", ".join(f"{label} times {weight:g}" for label, weight in weights.items())
    lines = [
        ("solver", meta["method"]["name"]),
        ("settings", shown({k: v for k, v in own.items() if k not in TOLD_ELSEWHERE}) or "the defaults"),
        ("bias", told_bias(run.get("bias") or 0.0)),
        ("class weights", weights),
        ("prior", meta.get("prior")),
        ("schedule", None if meta["method"]["learner"] else run.get("schedule")),
        ("seed", str(run.get("seed", 0))),
    ]
    return [(name, value) for name, value in lines if value is not None]


def told_bias(bias: float | str) -> str:
    """The setting of a run, as a person reads it."""
    from blocksvm.training.run_settings import FREE

    if bias == FREE:
        return "free: not regularised"
    return f"a constant feature of value {bias:g}" if bias else "none"


MOST_LABELS_SHOWN = 20


def told_labels(meta: dict) -> str:
    """Of a model: its labels, the first of many."""
    from blocksvm.base.labels import listed

    labels = meta["labels"]
    if not labels:
        return "none: it predicts rows" if "distance" in meta else "none: its targets are real numbers"
    more = len(labels) - MOST_LABELS_SHOWN
    told = listed(labels[:MOST_LABELS_SHOWN]) + (f", and {more} more" if more > 0 else "")
    return f"sets of {told}" if meta.get("multilabel") else told


def _fit_lines(certificate: dict) -> list[tuple[str, str]]:
    """How well a model fits the rows that it was trained on."""
    if certificate["accuracy"] is not None:
        return [("accuracy", f"{certificate['accuracy']:.4f} on the training rows")]
    if certificate.get("rmse") is not None:
        return [("error", f"{certificate['rmse']:.6g} on the training rows (root of the mean square)")]
    return []


def told_changes(meta: dict) -> str:
    """Of a store whose rows were changed: how often, and how many came and went in all."""
    from blocksvm.cli.display.number_texts import rows

    steps = meta["history"]
    gone = sum(step["n_dropped"] for step in steps)
    added = meta["n_samples"] - steps[0]["n_samples"] + gone
    times = "once" if len(steps) == 1 else f"{len(steps)} times"
    return f"{times} since it was split: {rows(added)} added, {rows(gone)} left out"


def structure_lines(meta: dict, n_bytes: int) -> list[tuple[str, str]]:
    """Of a model of outputs with structure."""
    from blocksvm.base.settings import shown
    from blocksvm.cli.display import megabytes

    labels, found = meta["labels"], meta["certificate"]
    gap = f"relative gap {found['rel_gap']:.3e}, primal {found['primal']:.10g}" if found else None
    lines = [
        ("structure", f"{megabytes(n_bytes)}, task {meta['task']}"),
        ("learner", meta["learner"]),
        ("settings", shown({k: v for k, v in meta["settings"].items() if k != "template"})),
        ("features", f"{meta['n_features']:,}, {meta['n_weights']:,} weights"),
        ("template", meta["template"] or None),
        ("labels", f"{len(labels):,}: {' '.join(labels[:MOST_LABELS_SHOWN])}" if labels else None),
        ("trained on", f"{meta['trained_on']}, {meta['epochs']} epochs, {meta['seconds']:.1f}s"),
        ("certificate", gap),
    ]
    return [(name, value) for name, value in lines if value is not None]


def described(kind: str, meta: dict, n_bytes: int) -> list[tuple[str, str]]:
    """(name, value) lines for a person."""
    from blocksvm.cli.display import labels_line, megabytes
    from blocksvm.cli.display.number_texts import suffered

    if kind == "store":
        nnz = meta["n_nonzeros"]
        text = sum(source["text_bytes"] for source in meta["sources"])
        names = [source["name"] for source in meta["sources"]]
        return [
            ("store", f"{megabytes(n_bytes)}, {n_bytes / max(1, nnz):.2f} bytes a nonzero"),
            ("rows", f"{meta['n_samples']:,} ({meta['settings']['order']} order)"),
            ("features", f"{meta['n_features']:,}{' with names' if meta.get('named') else ''}"),
            ("nonzeros", f"{nnz:,} ({nnz / meta['n_samples']:.1f} a row), values {meta['values']}"),
            ("labels", labels_line(meta)),
            *([("weights", "rows have weights of their own")] if meta.get("weighted") else []),
            ("largest norm", f"{meta['max_norm']:.6g}"),
            ("chunks", f"{meta['n_chunks']:,} of up to {meta['chunk_nonzeros']:,} nonzeros, {meta['codec']}"),
            ("made from", f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''} ({megabytes(text)} of text)"),
            *([("changed", told_changes(meta))] if meta.get("history") else []),
            *(("note", note) for note in meta.get("notes", [])),
            ("settings", ", ".join(f"{name} {value}" for name, value in meta["settings"].items())),
            ("fingerprint", meta["fingerprint"]),
        ]
    if kind == "structure":
        return structure_lines(meta, n_bytes)
    if kind == "structure-checkpoint":
        from blocksvm.base.settings import shown

        own, told = dict(meta["settings"]), meta["progress"]
        return [
            ("checkpoint", f"{megabytes(n_bytes)}, task {own.pop('task')}"),
            ("learner", own.pop("learner")),
            ("settings", shown({name: value for name, value in own.items() if name != "template"})),
            ("position", f"{told['epoch']:,} epochs and {told['visit']:,} blocks, {told['seconds']:.1f}s"),
        ]
    lines = [
        (kind, megabytes(n_bytes)),
        *method_lines(meta),
        ("features", f"{meta['n_features']:,}"),
        *([("labels", told_labels(meta))] if "labels" in meta else []),
        *([("radius", f"{meta['distance']['radius']:.6g}")] if "distance" in meta else []),
    ]
    if kind == "checkpoint":
        told = meta["progress"]
        return [*lines, ("position", f"outer iteration {told['outer']}, {told['visit']} blocks visited in it")]
    if meta["status"] == "stream":
        told = meta["progress"]
        loss = suffered(
            told["rows"],
            told["cumulative_loss"],
            told["mistakes"],
            told.get("squared_errors"),
            told.get("cumulative_cost"),
        )
        return [*lines, ("learned from", f"a stream of {told['rows']:,} rows: {loss}")]
    if meta["status"] == "imported":
        return [*lines, ("trained by", meta["store"])]
    certificate = meta["certificate"]
    if certificate is None:
        return [*lines, ("certificate", "none: the run was interrupted"), ("ended", meta["status"])]
    gap = (
        "none"
        if certificate["rel_gap"] is None
        else f"relative gap {certificate['rel_gap']:.3e}, dual {certificate['dual']:.10g}"
    )
    several = certificate.get("by_class")
    if several is not None:
        gap = f"of {len(several['rel_gap'])} problems, the largest " + gap.replace("dual", "sum of duals")
    calibration = meta.get("calibration")
    return [
        *lines,
        ("trained on", f"{meta['store']} ({meta['n_samples']:,} rows)"),
        *([] if certificate["primal"] is None else [("certificate", f"{gap}, primal {certificate['primal']:.10g}")]),
        *_fit_lines(certificate),
        *([] if calibration is None else [("probabilities", f"calibrated on rows held out: {calibration['kind']}")]),
        ("ended", f"{meta['status']} after {meta['outer']} outer iterations, {meta['seconds']:.1f}s"),
        ("versions", ", ".join(f"{name} {value}" for name, value in meta["versions"].items())),
    ]
