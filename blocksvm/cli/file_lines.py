"""The lines that ``info`` prints of a store, a model or a checkpoint: a name and a value each."""

from __future__ import annotations

from blocksvm.base.errors import printable
from blocksvm.base.labels import listed
from blocksvm.base.settings import shown
from blocksvm.cli.texts import labels_line, loss_text, megabytes, number_of, rows
from blocksvm.store.descriptions import (
    CertificateMeta,
    CheckpointMeta,
    Description,
    ModelMeta,
    PlattMeta,
    RunMeta,
    StoreMeta,
    StructureMeta,
    as_json,
)
from blocksvm.training.run_settings import FREE

# settings that have a line of their own
ELSEWHERE = ("class_weight",)


def method_lines(meta: RunMeta) -> list[tuple[str, str]]:
    """The lines on the method of a model, and on the settings that decided what it learned."""
    settings, run = meta.method.settings, meta.settings
    weights = settings.get("class_weight")
    if isinstance(weights, dict):
        weights = ", ".join(f"{label} times {weight:g}" for label, weight in weights.items())
    lines = [
        ("solver", meta.method.name),
        ("settings", shown({k: v for k, v in settings.items() if k not in ELSEWHERE}) or "the defaults"),
        ("bias", bias_text(meta.constant)),
        ("class weights", weights),
        ("prior", getattr(meta, "prior", None)),
        ("schedule", None if meta.method.learner else run.get("schedule")),
        ("seed", str(run.get("seed", 0))),
    ]
    return [(name, value) for name, value in lines if value is not None]


def bias_text(bias: float | str) -> str:
    """The setting of a run, as a person reads it."""
    if bias == FREE:
        return "free: not regularised"
    return f"a constant feature of value {bias:g}" if bias else "none"


MOST_LABELS_SHOWN = 20


def labels_text(meta: ModelMeta) -> str:
    """Of a model: its labels, the first of many."""
    labels = meta.labels
    if not labels:
        return f"none: {'its targets are real numbers' if meta.radius is None else 'it learned rows'}"
    more = len(labels) - MOST_LABELS_SHOWN
    text = listed(labels[:MOST_LABELS_SHOWN]) + (f", and {more} more" if more > 0 else "")
    return f"sets of {text}" if meta.multilabel else text


def fit_lines(certificate: CertificateMeta) -> list[tuple[str, str]]:
    """The lines on the fit of a model to the rows that it was trained on."""
    if certificate.accuracy is not None:
        return [("accuracy", f"{certificate.accuracy:.4f} on the training rows")]
    if certificate.rmse is not None:
        return [("error", f"{certificate.rmse:.6g} on the training rows (root of the mean square)")]
    return []


def history_text(meta: StoreMeta) -> str:
    """Of a store to which rows were added: how often, and how many in all."""
    steps = meta.history
    added = meta.n_samples - steps[0].n_samples
    return f"{'once' if len(steps) == 1 else f'{len(steps)} times'} since it was split: {rows(added)} added"


def structure_lines(meta: StructureMeta, n_bytes: int) -> list[tuple[str, str]]:
    labels, certificate = meta.labels, meta.certificate
    gap = f"relative gap {certificate.rel_gap:.3e}, primal {certificate.primal:.10g}" if certificate else None
    lines = [
        ("structure", f"{megabytes(n_bytes)}, task {meta.task}"),
        ("learner", meta.learner),
        ("settings", shown({k: v for k, v in meta.settings.items() if k != "template"})),
        ("features", f"{meta.n_features:,}, {number_of(meta.n_weights, 'weight')}"),
        ("template", meta.template or None),
        ("labels", f"{len(labels):,}: {' '.join(labels[:MOST_LABELS_SHOWN])}" if labels else None),
        ("trained on", f"{meta.trained_on}, {number_of(meta.epochs, 'epoch')}, {meta.seconds:.1f}s"),
        ("certificate", gap),
    ]
    return [(name, value) for name, value in lines if value is not None]


def store_lines(meta: StoreMeta, n_bytes: int) -> list[tuple[str, str]]:
    nnz = meta.n_nonzeros
    text = sum(source.text_bytes for source in meta.sources)
    names, settings = [source.name for source in meta.sources], as_json(meta.settings)
    return [
        ("store", f"{megabytes(n_bytes)}, {n_bytes / max(1, nnz):.2f} bytes a nonzero"),
        ("rows", f"{meta.n_samples:,} ({meta.settings.order} order)"),
        ("features", f"{meta.n_features:,}{' with names' if meta.named else ''}"),
        ("nonzeros", f"{nnz:,} ({nnz / meta.n_samples:.1f} a row), values {meta.values}"),
        ("labels", labels_line(meta)),
        *([("weights", "rows have weights of their own")] if meta.weighted else []),
        ("largest norm", f"{meta.max_norm:.6g}"),
        ("chunks", f"{meta.n_chunks:,} of up to {meta.chunk_nonzeros:,} nonzeros, {meta.codec}"),
        ("made from", f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''} ({megabytes(text)} of text)"),
        *([("changed", history_text(meta))] if meta.history else []),
        *(("note", note) for note in meta.notes),
        ("settings", ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)),
        ("fingerprint", meta.fingerprint),
    ]


def linear_lines(kind: str, meta: RunMeta, n_bytes: int) -> list[tuple[str, str]]:
    """The lines that a model and a checkpoint have in common."""
    return [
        (kind, megabytes(n_bytes)),
        *method_lines(meta),
        ("features", f"{meta.n_features:,}"),
        *([("labels", labels_text(meta))] if isinstance(meta, ModelMeta) else []),
    ]


def checkpoint_lines(meta: CheckpointMeta, n_bytes: int) -> list[tuple[str, str]]:
    progress = meta.progress
    position = f"outer iteration {progress['outer']}, {number_of(progress['visit'], 'block')} visited in it"
    return [*linear_lines("checkpoint", meta, n_bytes), ("position", position)]


def model_lines(meta: ModelMeta, n_bytes: int) -> list[tuple[str, str]]:
    """Of a linear model, or one with a kernel: how it was trained, and how well it fits."""
    lines = linear_lines("model", meta, n_bytes)
    if (kept := meta.sparse) is not None:
        dropped = f", {kept.n_dropped:,} below {kept.drop_below:g} left out" if kept.n_dropped else ""
        lines.append(("weights", f"{kept.n_weights:,} kept one by one{dropped}"))
    lines += [] if meta.radius is None else [("radius", f"{meta.radius:.6g}")]
    if (told := meta.progress) is not None:
        figures = (told.rows, told.cumulative_loss, told.mistakes, told.squared_errors, told.cumulative_cost)
        return [*lines, ("learned from", f"a stream of {rows(told.rows)}: {loss_text(*figures)}")]
    if meta.status == "imported":
        return [*lines, ("trained by", meta.store)]
    certificate, calibration = meta.certificate, meta.calibration
    if certificate is None:
        return [*lines, ("certificate", "none: the run was interrupted"), ("ended", meta.status)]
    kind = "platt" if isinstance(calibration, PlattMeta) else "isotonic"
    certified = [] if certificate.primal is None else [("certificate", certificate_text(certificate))]
    return [
        *lines,
        ("trained on", f"{meta.store} ({rows(meta.n_samples)})"),
        *certified,
        *fit_lines(certificate),
        *([] if calibration is None else [("probabilities", f"calibrated on rows held out: {kind}")]),
        ("ended", f"{meta.status} after {number_of(meta.outer, 'outer iteration')}, {meta.seconds:.1f}s"),
        ("versions", ", ".join(f"{name} {value}" for name, value in meta.versions.items())),
    ]


def certificate_text(certificate: CertificateMeta) -> str:
    """The gap and the objectives, of several problems the largest gap."""
    gap = "none"
    if certificate.rel_gap is not None:
        gap = f"relative gap {certificate.rel_gap:.3e}, dual {certificate.dual:.10g}"
    several = certificate.by_class
    if several is not None:
        gap = f"of {len(several['rel_gap'])} problems, the largest " + gap.replace("dual", "sum of duals")
    return f"{gap}, primal {certificate.primal:.10g}"


LINES = {"store": store_lines, "structure": structure_lines, "checkpoint": checkpoint_lines, "model": model_lines}


def description_lines(kind: str, meta: Description, n_bytes: int) -> list[tuple[str, str]]:
    """(name, value) lines of a file of this kind."""
    return LINES[kind](meta, n_bytes)


def weight_lines(top: list) -> list[str]:
    """The features of the largest weights, a line each; of several classes those of each on the line of its label."""
    if len(top) > 1:
        texts = [", ".join(f"{one.weight:+.4g} {quoted_name(str(one))}" for one in features) for _, features in top]
        labels = [listed([label]) for label, _ in top]
        width = max(map(len, labels))
        lines = [f"{label:<{width}}  {text}" for label, text in zip(labels, texts, strict=True)]
        return ["", "the largest weights of each label", *lines]
    lines = []
    for label, features in top:
        lines += ["", "the largest weights" + ("" if label is None else f", above 0 for {listed([label])}")]
        lines += [f"{one.weight:>+14.6g}  {quoted_name(str(one))}" for one in features]
    return lines


def quoted_name(name: str) -> str:
    """A name on one line, in quotes where a blank is at an end."""
    shown = printable(name)
    return repr(shown) if shown != shown.strip() else shown


def all_settings(meta: RunMeta) -> dict:
    """The settings of a model or checkpoint by name: those of the run, and those that its solver has of its own."""
    return {"solver": meta.method.name, **meta.method.settings, **meta.settings}
