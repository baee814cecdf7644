"""The labels of a stream as targets: known or recognised classes, sets of classes, or numbers; and rows without one."""

from collections.abc import Callable

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import STRINGS, CodedLabels, Labels, has_label, label_text, labels_given, listed
from blocksvm.base.row_batch import RecordCounter, RowBatch
from blocksvm.online.learner import NO_TARGETS, NUMBERS, SETS, of_classes
from blocksvm.online.loops import NO_LABEL, SetTable
from blocksvm.online.solver import at_codes
from blocksvm.problems.problem import class_factors

KNOWN_LABELS = ((-1.0, 1.0), (0.0, 1.0))
SHOWN_FAULTS = 10
MOST_SHORT = int(np.iinfo(np.int16).max)  # sets of a piece that sixteen bits tell apart
SKIPPED = NO_LABEL - 1  # in the place of a class: the label is none of the classes, and the row is passed over


class StreamTargets:
    """The targets of a stream with these settings; prior: the model, of this description, that it begins from, or None;
    keeps_unlabelled: rows without a label are to be predicted; on_fault(sentence): of the first rows that are skipped
    for their labels.  InputError for labels that do not fit.

    labels: the classes, None while they are not known, -1 and +1 or 0 and 1; real: labels are numbers; of_rows: labels
    are ignored; again: in a later pass over the same rows, none of which is counted again; sets: of the last rows,
    where labels are sets.
    """

    sets: SetTable | None = None

    def __init__(self, settings, prior, described, on_fault: Callable[[str], None], keeps_unlabelled: bool):
        labels, real = labels_given(settings.labels), not of_classes(settings.targets)
        if labels is not None and len(set(labels)) < 2:
            raise InputError(f"{option('labels')}: name two different labels, or more")
        if real and labels is not None:
            raise InputError(f"{option('labels')}: {option('targets', settings.targets)} has no classes; leave it out")
        if prior is not None and labels is None and not real:
            labels = described.labels
            if not labels:
                cure = f"give {option('targets', NUMBERS)}, or name another prior model"
                raise InputError(f"{prior}: has real targets, and this stream learns classes; {cure}")
        self.labels = None if labels is None else Labels(tuple(sorted(labels)))
        self.real, self.of_rows = real, settings.targets == NO_TARGETS
        self.skip_bad, self.on_fault, self.keeps_unlabelled = settings.skip_bad, on_fault, keeps_unlabelled
        self.skipped = self.unlabelled = 0
        self.again = False

    def known_classes(self) -> Labels | None:
        """The classes as known so far; None where labels are numbers."""
        return None if self.real else self.labels or Labels(KNOWN_LABELS[0])

    def weigh(self, y: np.ndarray, weights: np.ndarray | None, class_weight) -> np.ndarray | None:
        """Weights (n,), None for 1 each, times those of their classes; class_weight: {label: weight}, or None."""
        if class_weight is None:
            return weights
        labels = self.known_classes()
        table = at_codes(class_factors(class_weight, labels, (1.0,) * len(labels.values)), labels)
        factors = table[np.maximum(y, -1) + labels.binary]  # rows without a label are not learned from
        return factors if weights is None else factors * weights

    def skip(self, sentence: str) -> None:
        """Count a line that is passed over; InputError where none is."""
        if not self.skip_bad:
            raise InputError(sentence)
        self.skipped += not self.again
        if not self.again and self.skipped <= SHOWN_FAULTS:
            self.on_fault(sentence)

    def of(self, batch: RowBatch, counter: RecordCounter) -> tuple[np.ndarray, np.ndarray]:
        """y (n,), and which rows (m,) int32 the learner gets.  InputError for a label that does not fit."""
        if self.of_rows:
            return np.zeros(len(batch)), np.arange(len(batch), dtype=np.int32)
        labels = batch.label_array()
        classes = self.labels
        if classes is not None and classes.binary and classes.kind != STRINGS and labels.dtype == np.float64:
            # as nearly all rows of nearly all streams are
            negative, positive = classes.table()
            codes = np.subtract(labels == positive, labels == negative, dtype=np.int16)
            if codes.all():
                return codes, np.arange(len(labels), dtype=np.int32)
        known = np.flatnonzero(has_label(labels)).astype(np.int32)
        self.unlabelled += 0 if self.again else len(batch) - len(known)
        if not self.real:
            y = self._codes(batch, counter, labels, known)
            return y, np.flatnonzero(y > (SKIPPED if self.keeps_unlabelled else NO_LABEL)).astype(np.int32)
        if labels.dtype == object and len(known):
            what = f"the label {label_text(labels[known[0]])} is no number; leave {option('targets')} out"
            raise InputError(counter.at(batch, int(batch.origin.records[known[0]]), what))
        y = np.full(len(labels), np.nan) if labels.dtype == object else labels.astype(np.float64)
        return y, np.arange(len(y), dtype=np.int32) if self.keeps_unlabelled else known

    def _codes(self, batch: RowBatch, counter: RecordCounter, labels: np.ndarray, known: np.ndarray) -> np.ndarray:
        """(n,) int16: the classes of the rows ``known`` to have a label, and NO_LABEL, or SKIPPED, for the others."""
        known_labels = labels[known]
        if self.labels is None and len(known_labels):
            others = known_labels[known_labels != 1.0]
            first = next((pair for pair in KNOWN_LABELS if len(others) and others[0] == pair[0]), None)
            if first is not None:
                self.labels = Labels(first)
        table = self.known_classes()
        codes = np.full(len(batch), NO_LABEL, np.int16)
        codes[known] = table.codes(known_labels)
        bad = known[codes[known] == (0 if table.binary else -1)]
        for row in bad.tolist():
            names = " and ".join(map(label_text, table.values))
            sets = f", or its sets with {option('targets', SETS)}" if isinstance(labels[row], tuple) else ""
            sentence = counter.at(
                batch, int(batch.origin.records[row]),
                f"the label {label_text(labels[row])} is not one of {names}; name the labels with "
                f"{option('labels')}{sets}",
            )  # fmt: skip
            self.skip(sentence)
        codes[bad] = SKIPPED
        return codes


class SetTargets(StreamTargets):
    """Labels that are sets of classes; the classes are named beforehand."""

    def known_classes(self) -> Labels:
        if self.labels is None:
            raise InputError(f"{option('targets', SETS)}: name the labels that sets may hold with {option('labels')}")
        return self.labels

    def of(self, batch: RowBatch, counter: RecordCounter) -> tuple[np.ndarray, np.ndarray]:
        """y (n,), the positions of the rows' sets in ``sets``, and which rows (m,) int32 the learner gets.  InputError
        for a label that is no set, or a set that holds what is none of the classes."""
        classes = {label: c for c, label in enumerate(self.known_classes().values)}
        labels = batch.labels
        if isinstance(labels, np.ndarray):  # none of which is a set
            labels = CodedLabels.of([None if np.isnan(label) else label for label in labels.tolist()])
        of_label, positions = np.full(len(labels.distinct) + 1, NO_LABEL, np.int32), []
        for row in labels.first_rows().tolist():
            good = not self._wrong(labels[row], classes)
            of_label[labels.codes[row]] = len(positions) if good else SKIPPED
            if good:
                positions.append(labels[row])
        codes = of_label[labels.codes]
        self.unlabelled += 0 if self.again else int(np.count_nonzero(codes == NO_LABEL))
        for row in np.flatnonzero(codes == SKIPPED).tolist():
            self.skip(counter.at(batch, int(batch.origin.records[row]), self._wrong(labels[row], classes)))
        self.sets = SetTable.of([classes[member] for member in label_set] for label_set in positions)
        y = codes.astype(np.int16) if len(positions) <= MOST_SHORT else codes
        return y, np.flatnonzero(codes > (SKIPPED if self.keeps_unlabelled else NO_LABEL)).astype(np.int32)

    def _wrong(self, label, classes: dict) -> str:
        if not isinstance(label, tuple):
            return (
                f"the label {label_text(label)} is no set of labels; read them with {option('format', 'multilabel')}, "
                f"or leave {option('targets')} out"
            )
        unknown = [member for member in label if member not in classes]
        if not unknown:
            return ""
        return (
            f"the set holds the label {label_text(unknown[0])}, which is not one of {listed(self.labels.values)}; name "
            f"the labels with {option('labels')}"
        )
