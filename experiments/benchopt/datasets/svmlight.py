"""Rows of svmlight text: -d "svmlight[text=TRAIN.svm,test=TEST.svm]".

multilabel=True where labels are sets (1,3 5:0.2).
"""

from pathlib import Path

from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "svmlight"
    parameters = {"text": [None], "test": [None], "multilabel": [False]}

    def get_data(self):
        text, test = (None if path is None else str(Path(path).resolve()) for path in (self.text, self.test))
        return {"text": text, "test": test, "multilabel": self.multilabel}
