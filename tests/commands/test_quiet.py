"""``--quiet``, and the command that is named as the next one."""

import gzip

import numpy as np
import pytest
from support.training_cases import random_rows, svmlight

# in their order, in a folder with rows.svm and tags.txt: each prints one line at most
QUIET = ["split rows.svm store.h5 --holdout 0.2 test.h5",
         "train store.h5 model.h5 --valid test.h5 --calibrate platt --checkpoint run.ckpt --resume",
         "train store.h5 far.h5 --max-outer 1 --schedule 1 --tol 1e-12", "predict model.h5 test.h5 out.txt",
         "predict model.h5 rows.svm probabilities.txt --probabilities",
         "stream rows.svm --model online.h5 --predictions p.txt --passes 2", "stream rows.svm --learner pa1,arow",
         "export model.h5 model.liblinear --format liblinear", "import model.liblinear again.h5",
         "structure train tags.txt tags.h5 --task tags", "report trace.jsonl -o page.html"]  # fmt: skip
# these are asked for figures: they print their table, and no word about files
TABLES = ["cv store.h5 -C 1 --folds 2 --refit best.h5", "margin store.h5 -C 1", "regret store.h5 --learner pa1",
          "structure evaluate tags.h5 tags.txt"]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quiet")
    X, y = random_rows(n=80, d=12, seed=5, dtype=np.float32)
    (folder / "rows.svm").write_text(svmlight(X, y))
    (folder / "tags.txt").write_text("the DT\ndog NN\nran VB\n\n" * 4)
    return folder


def test_quiet_leaves_one_line_of_each_command_or_its_table(folder, succeeds, monkeypatch):
    monkeypatch.chdir(folder)
    for line in (*QUIET[:2], QUIET[1].replace("model", "m2") + " --log trace.jsonl", *QUIET[2:], *TABLES):
        name, *arguments = line.split()
        done = succeeds(name, *arguments, "--quiet", "--overwrite")
        assert done.err == "", line
        if line in TABLES:
            assert "written to" not in done.out and "next:" not in done.out, (line, done.out)
        else:
            assert len(done.out.splitlines()) <= 1, (line, done.out)
        assert line != QUIET[2] or done.out.startswith("not converged: ")


@pytest.mark.parametrize(
    ("text", "name", "options", "rows"),
    [("1 1:1\n-1 2:1\n" * 2, "rows.svm", "", "NEW.svm"), ("1 1:1\n-1 2:1\n" * 2, "rows.v1.svm", "", "NEW.svm"),
     ("1 1:1\n-1 2:1\n" * 2, "rows", "", "NEW-TEXT"), ("label,a\n1,2\n-1,3\n", "rows.csv", "--format csv", "NEW.csv"),
     ("pos\tgood film\nneg\tdull film\n" * 2, "reviews.tsv", "--format documents", "NEW.tsv"),
     ("1 | a b\n-1 | c\n" * 2, "clicks.vw.gz", "", "NEW.vw.gz")],
)  # fmt: skip
def test_the_next_command_names_rows_of_the_same_kind(tmp_path, text, name, options, rows, succeeds):
    data = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    (tmp_path / name).write_bytes(data)
    succeeds("split", tmp_path / name, tmp_path / "s.h5", *options.split())
    done = succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5")
    assert done.err.splitlines()[-1] == f"next: blocksvm predict {tmp_path / 'm.h5'} {rows}"
    labels = ["--labels", "neg,pos"] * (name == "reviews.tsv")
    options = [*options.split(), *labels, "--bits", "10", "--model", tmp_path / "online.h5"]
    done = succeeds("stream", tmp_path / name, *options)
    assert done.err.splitlines()[-1] == f"next: blocksvm predict {tmp_path / 'online.h5'} {rows}"
