"""Planted rows of experiments.make_data, few enough for every solver to end in seconds."""

import subprocess
import sys

from benchmark_utils import ROOT, scratch_folder
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "simulated"
    parameters = {"n_samples": [2000], "n_features": [1000], "noise": [0.05], "seed": [0]}

    def get_data(self):
        folder, n = scratch_folder(), self.n_samples
        given = ["--rows", 2 * n, "--features", self.n_features, "--noise", self.noise, "--seed", self.seed]
        line = [sys.executable, "-m", "experiments.make_data", "zipf", folder / "rows.svm", *given]
        subprocess.run([*map(str, line), "--mean-nonzeros", "20"], check=True, cwd=ROOT)
        lines = (folder / "rows.svm").read_text().splitlines(keepends=True)
        texts = {"text": lines[:n], "test": lines[n:]}
        for name, chosen in texts.items():
            (folder / f"{name}.svm").write_text("".join(chosen))
        return {name: str(folder / f"{name}.svm") for name in texts} | {"multilabel": False}
