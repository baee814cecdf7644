"""Rows of svmlight text: -d "svmlight[text=TRAIN.svm,test=TEST.svm]".

multilabel=True where labels are sets (1,3 5:0.2).
"""

from pathlib import Path

from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "svmlight"
    parameters = {"text": [None], "test": [None], "multilabel": [False]}

    def get_data(self):
        paths = {name: getattr(self, name) for name in ("text", "test")}
        for name, path in paths.items():
            paths[name] = None if path is None else str(Path(path).resolve())
        return paths | {"multilabel": self.multilabel}
