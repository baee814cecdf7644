"""Compiles the kernels that a command uses, by running it on a few rows; started by the commands in a child process."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

# enough rows and features that every branch of the pipelines is entered, ids out of order and labels of both kinds
VALUED = "".join(f"{1 if i % 3 else -1} {i % 7 + 2}:{i % 5 + 0.5} {i % 2}:{1 + i % 3}\n" for i in range(40))
ONES = "".join(f"{1 if i % 3 else -1} {i % 7 + 2}:1 {i % 2}:1\n" for i in range(40))


def warm(purpose: str, kind: str) -> None:
    """Run the pipeline of ``purpose`` ('split', 'train', 'predict') for values of ``kind``."""
    from blocksvm.ingest.convert import SplitSettings, split

    with tempfile.TemporaryDirectory(prefix="blocksvm-warmup-") as folder:
        text = Path(folder) / "rows.svm"
        store = Path(folder) / "rows.h5"
        dtype = "float64" if kind == "float64" else "float32"
        for content in (ONES, VALUED) if purpose == "split" else (ONES if kind == "ones" else VALUED,):
            text.write_text(content)
            held_out = Path(folder) / "held.h5"
            settings = SplitSettings(dtype=dtype, overwrite=True, holdout=0.3 if purpose == "split" else 0.0)
            split([str(text)], store, settings, held_out if purpose == "split" else None)
        if purpose == "split":
            return
        from blocksvm.outer.settings import TrainSettings
        from blocksvm.outer.training import Trainer
        from blocksvm.scoring import StoreScorer, TextScorer
        from blocksvm.store.reader import Store

        for solver in ("dual-cd", "pegasos"):
            with Store(store) as source, Store(store) as valid:
                trainer = Trainer(source, TrainSettings(solver=solver, schedule="2", max_outer=2), valid=valid)
                result = trainer.run()
        if purpose == "predict":
            from blocksvm.models import save_result

            model = Path(folder) / "model.h5"
            with Store(store) as source:
                save_result(model, source, trainer, result)
            scorer = TextScorer(model, 1_000_000_000)
            for _ in scorer.scores([str(text)]):
                pass
            for _ in StoreScorer(model, store, 1_000_000_000).scores():
                pass


if __name__ == "__main__":
    warm(*sys.argv[1:])
