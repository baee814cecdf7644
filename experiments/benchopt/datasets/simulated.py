"""Sparse rows of length 1 with a planted hyperplane, some labels flipped; every solver ends in seconds."""

from pathlib import Path

import numpy as np
from benchopt import BaseDataset
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

FOLDER = Path(__file__).resolve().parents[2] / "data" / "benchopt"


class Dataset(BaseDataset):
    name = "simulated"
    requirements = ["pip::scikit-learn"]
    parameters = {"n_samples": [2000], "n_features": [1000], "density": [0.02], "noise": [0.05], "random_state": [0]}

    def get_data(self):
        texts = []
        for rows in ("train", "test"):
            values = "-".join(str(getattr(self, name)) for name in self.parameters)
            text = FOLDER / f"simulated-{values}-{rows}.svm"
            if not text.exists():
                self.write(text, ("train", "test").index(rows))
            texts.append(str(text))
        return {"text": texts[0], "test": texts[1], "multilabel": False}

    def write(self, text, draw):
        """Rows of one draw; both draws have the same hyperplane."""
        rng = np.random.default_rng([self.random_state, draw])
        planted = np.random.default_rng(self.random_state).normal(size=self.n_features)
        X = sparse.random(self.n_samples, self.n_features, self.density, "csr", random_state=rng)
        length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        X = sparse.diags_array(1.0 / np.maximum(length, 1e-12)) @ X
        flipped = rng.random(self.n_samples) < self.noise
        text.parent.mkdir(parents=True, exist_ok=True)
        dump_svmlight_file(X, np.where((X @ planted > 0.0) ^ flipped, 1, -1), str(text), zero_based=False)
