"""Streams from Python: learners that see each row once."""

from collections.abc import Callable
from pathlib import Path
from typing import Unpack

import numpy as np

from blocksvm.api import WithCost
from blocksvm.base.labels import Labels
from blocksvm.base.settings import split_fields
from blocksvm.files.output import check_output
from blocksvm.files.paths import location, location_given
from blocksvm.formats import AUTO, settings_offered
from blocksvm.streaming.stream_pass import StreamPass, StreamReport, StreamSettings
from blocksvm.streaming.stream_saving import save_stream

HIDDEN = ("learner", "settings", "options", "idf", "scale")  # fields that are not keywords


class Stream(StreamPass):
    """A pass of a learner over inputs, or several: ``Stream("pa1", C=0.1, bits=20).run("rows.svm.gz")``.

    learner: a name, or several with commas between them; '' goes on with the learner of ``start_from``.  settings:
    named as the options of ``blocksvm stream`` are, the learner's and the format's among them.  prior: a model to start
    from and to be regularised towards; start_from: a model with whose learner to go on, as if its rows and the ones
    to come were one stream.  on_report is called with a ``StreamReport`` at doubling numbers of rows and at the end;
    on_fault with a sentence for each of the first lines that are skipped; on_save(stream) at every ``save_every`` rows;
    stop() is polled between pieces; on_predicted gets the decision values (m,), of several classes (m, k), of rows in
    their order, those without a label included, each made before its row was learned from, and the labels (None:
    numbers); on_query 'file:line' of each row without a label whose label the learner queries (``query``).  Raises
    InputError for settings that do not fit, and in ``run`` for a malformed line unless those are skipped.

        >>> stream = blocksvm.Stream("pa1", C=0.1)
        >>> stream.run("rows.svm"), stream.rows  # False where stop() ended it
        (True, 60)
        >>> stream.save("online.h5")
    """

    def __init__(self, learner: str = "", *,
                 prior: str | Path | None = None, start_from: str | Path | None = None,
                 on_report: Callable[[StreamReport], None] = lambda report: None,
                 on_fault: Callable[[str], None] = lambda sentence: None,
                 on_save: Callable[[StreamPass], None] | None = None, stop: Callable[[], bool] = lambda: False,
                 on_predicted: Callable[[np.ndarray, Labels | None], None] | None = None,
                 on_query: Callable[[str], None] | None = None, **settings: Unpack[WithCost]):  # fmt: skip
        values, others = split_fields(StreamSettings, settings, HIDDEN)
        of_format = settings_offered(values.get("format")).names()
        options = {name: others.pop(name) for name in of_format if name in others}
        learner = learner or ("" if start_from else AUTO)
        super().__init__(
            StreamSettings(learner, others, options=options, **values),
            prior=location_given(prior), start_from=location_given(start_from),
            on_report=on_report, on_fault=on_fault, on_save=on_save, stop=stop, on_predicted=on_predicted,
            on_query=on_query,
        )  # fmt: skip

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the model file, whole or not at all, of the learner that leads.  Raises InputError where nothing was
        learned, where ``path`` exists (without ``overwrite``) or cannot be written."""
        check_output(location(path), overwrite, "model")
        save_stream(location(path), self, overwrite)
