"""The lines that ``info`` prints of a store, a model or a checkpoint: a name and a value each."""

from blocksvm.base.errors import printable
from blocksvm.base.labels import listed
from blocksvm.base.settings import shown
from blocksvm.cli.texts import labels_line, loss_text, megabytes, number_of, rows
from blocksvm.store import descriptions
from blocksvm.training.run_settings import FREE

MOST_LABELS_SHOWN = 20


def linear_lines(kind: str, meta: descriptions.RunMeta, n_bytes: int) -> list[tuple[str, str | None]]:
    """What a model and a checkpoint have in common: the method, and the settings that decided what was learned."""
    settings, run, bias = dict(meta.method.settings), meta.settings, meta.constant
    weights = settings.pop("class_weight", None)
    if isinstance(weights, dict):
        weights = ", ".join(f"{label} times {weight:g}" for label, weight in weights.items())
    constant = "free: not regularised" if bias == FREE else f"a constant feature of value {bias:g}" if bias else "none"
    return [
        (kind, megabytes(n_bytes)),
        ("solver", meta.method.name),
        ("settings", shown(settings) or "the defaults"),
        ("bias", constant),
        ("class weights", weights),
        ("prior", getattr(meta, "prior", None)),
        ("schedule", None if meta.method.learner else run.get("schedule")),
        ("seed", str(run.get("seed", 0))),
        ("features", f"{meta.n_features:,}"),
        ("labels", labels_text(meta) if isinstance(meta, descriptions.ModelMeta) else None),
    ]


def labels_text(meta: descriptions.ModelMeta) -> str:
    """Of a model: its labels, the first of many."""
    labels = meta.labels
    if not labels:
        return f"none: {'its targets are real numbers' if meta.radius is None else 'it learned rows'}"
    more = len(labels) - MOST_LABELS_SHOWN
    text = listed(labels[:MOST_LABELS_SHOWN]) + (f", and {more} more" if more > 0 else "")
    return f"sets of {text}" if meta.multilabel else text


def structure_lines(meta: descriptions.StructureMeta, n_bytes: int) -> list[tuple[str, str | None]]:
    labels, certificate = meta.labels, meta.certificate
    gap = f"relative gap {certificate.rel_gap:.3e}, primal {certificate.primal:.10g}" if certificate else None
    return [
        ("structure", f"{megabytes(n_bytes)}, task {meta.task}"),
        ("learner", meta.learner),
        ("settings", shown({k: v for k, v in meta.settings.items() if k != "template"})),
        ("features", f"{meta.n_features:,}, {number_of(meta.n_weights, 'weight')}"),
        ("template", meta.template or None),
        ("labels", f"{len(labels):,}: {' '.join(labels[:MOST_LABELS_SHOWN])}" if labels else None),
        ("trained on", f"{meta.trained_on}, {number_of(meta.epochs, 'epoch')}, {meta.seconds:.1f}s"),
        ("certificate", gap),
    ]


def store_lines(meta: descriptions.StoreMeta, n_bytes: int) -> list[tuple[str, str | None]]:
    nnz, steps = meta.n_nonzeros, meta.history
    text = sum(source.text_bytes for source in meta.sources)
    names, settings = [source.name for source in meta.sources], descriptions.as_json(meta.settings)
    changed = None
    if steps:
        times, added = "once" if len(steps) == 1 else f"{len(steps)} times", meta.n_samples - steps[0].n_samples
        changed = f"{times} since it was split: {rows(added)} added"
    return [
        ("store", f"{megabytes(n_bytes)}, {n_bytes / max(1, nnz):.2f} bytes a nonzero"),
        ("rows", f"{meta.n_samples:,} ({meta.settings.order} order)"),
        ("features", f"{meta.n_features:,}{' with names' if meta.named else ''}"),
        ("nonzeros", f"{nnz:,} ({nnz / meta.n_samples:.1f} a row), values {meta.values}"),
        ("labels", labels_line(meta)),
        ("weights", "rows have weights of their own" if meta.weighted else None),
        ("largest norm", f"{meta.max_norm:.6g}"),
        ("chunks", f"{meta.n_chunks:,} of up to {meta.chunk_nonzeros:,} nonzeros, {meta.codec}"),
        ("made from", f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''} ({megabytes(text)} of text)"),
        ("changed", changed),
        *(("note", note) for note in meta.notes),
        ("settings", ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)),
        ("fingerprint", meta.fingerprint),
    ]


def checkpoint_lines(meta: descriptions.CheckpointMeta, n_bytes: int) -> list[tuple[str, str | None]]:
    progress = meta.progress
    position = f"outer iteration {progress['outer']}, {number_of(progress['visit'], 'block')} visited in it"
    return [*linear_lines("checkpoint", meta, n_bytes), ("position", position)]


def model_lines(meta: descriptions.ModelMeta, n_bytes: int) -> list[tuple[str, str | None]]:
    """Of a linear model, or one with a kernel: how it was trained, and how well it fits."""
    lines = linear_lines("model", meta, n_bytes)
    if (kept := meta.sparse) is not None:
        dropped = f", {kept.n_dropped:,} below {kept.drop_below:g} left out" if kept.n_dropped else ""
        lines.append(("weights", f"{kept.n_weights:,} kept one by one{dropped}"))
    lines.append(("radius", None if meta.radius is None else f"{meta.radius:.6g}"))
    if (told := meta.progress) is not None:
        return [*lines, ("learned from", f"a stream of {rows(told.rows)}: {loss_text(descriptions.as_json(told))}")]
    if meta.status == "imported":
        return [*lines, ("trained by", meta.store)]
    certificate, calibration = meta.certificate, meta.calibration
    if certificate is None:
        return [*lines, ("certificate", "none: the run was interrupted"), ("ended", meta.status)]
    kind = "platt" if isinstance(calibration, descriptions.PlattMeta) else "isotonic"
    accuracy, rmse, where = certificate.accuracy, certificate.rmse, "on the training rows"
    return [
        *lines,
        ("trained on", f"{meta.store} ({rows(meta.n_samples)})"),
        ("certificate", None if certificate.primal is None else certificate_text(certificate)),
        ("accuracy", None if accuracy is None else f"{accuracy:.4f} {where}"),
        ("error", None if rmse is None else f"{rmse:.6g} {where} (root of the mean square)"),
        ("probabilities", None if calibration is None else f"calibrated on rows held out: {kind}"),
        ("ended", f"{meta.status} after {number_of(meta.outer, 'outer iteration')}, {meta.seconds:.1f}s"),
        ("versions", ", ".join(f"{name} {value}" for name, value in meta.versions.items())),
    ]


def certificate_text(certificate: descriptions.CertificateMeta) -> str:
    """The gap and the objectives, of several problems the largest gap."""
    gap = "none"
    if certificate.rel_gap is not None:
        gap = f"relative gap {certificate.rel_gap:.3e}, dual {certificate.dual:.10g}"
    several = certificate.by_class
    if several is not None:
        gap = f"of {len(several['rel_gap'])} problems, the largest " + gap.replace("dual", "sum of duals")
    return f"{gap}, primal {certificate.primal:.10g}"


LINES = {"store": store_lines, "structure": structure_lines, "checkpoint": checkpoint_lines, "model": model_lines}


def description_lines(kind: str, meta: descriptions.Description, n_bytes: int) -> list[tuple[str, str]]:
    """(name, value) lines of a file of this kind."""
    return [(name, value) for name, value in LINES[kind](meta, n_bytes) if value is not None]


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


def all_settings(meta: descriptions.RunMeta) -> dict:
    """The settings of a model or checkpoint by name: those of the run, and those that its solver has of its own."""
    return {"solver": meta.method.name, **meta.method.settings, **meta.settings}
