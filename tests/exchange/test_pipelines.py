"""Models of text and of tables as Pipelines of scikit-learn that score raw rows as ``predict`` does; and refusals."""

import re
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import blocksvm
from blocksvm.base.errors import InputError

WORDS = ["good", "film", "dull", "ΣΟΦΟΣ", "σοφος", "İstanbul", "Ⓐnarchy", "été", "a", "x_1", "ϒ", "naïve", "七転び",
         "42"]  # fmt: skip
BLANKS = [" ", " ", "  ", "\u3000", ", ", "-", " \u00a0"]
LOADED_ELSEWHERE = """
import sys, joblib
sys.modules["blocksvm"] = None
print(*joblib.load(sys.argv[1]).decision_function(["good film", "dull"]).tolist())
"""


def texts(n: int, seed: int, words: list[str]) -> list[str]:
    draw = np.random.default_rng(seed)
    return ["".join(draw.choice(words) + draw.choice(BLANKS) for _ in range(draw.integers(1, 9))) for _ in range(n)]


def assert_alike(succeeds, model: Path, rows: list, text: Path) -> None:
    """The exported Pipeline, which holds nothing of this package, gives the scores and labels of predict."""
    out = model.with_suffix(".joblib")
    succeeds("export", model, out, "--format", "sklearn")
    assert b"blocksvm" not in out.read_bytes()
    pipeline = joblib.load(out)
    expected = np.loadtxt(succeeds("predict", model, text, "--scores").out.splitlines())
    np.testing.assert_allclose(pipeline.decision_function(rows), expected, rtol=1e-6, atol=1e-6)
    labels = succeeds("predict", model, text).out.split()
    assert np.array_equal(pipeline.predict(rows), np.array(labels, pipeline[-1].classes_.dtype))


@pytest.mark.parametrize(
    ("ngrams", "weighed"),
    [("word:1", ()), ("word:1-2,char_wb:2-4", ("--normalize", "l2")), ("char:2-3", ("--idf", "smooth")),
     ("char:3,char_wb:3,word:2", ("--idf", "plain", "--normalize", "l2"))],
)  # fmt: skip
def test_a_pipeline_scores_texts_as_predict_does(tmp_path, succeeds, ngrams, weighed):
    """With letters that str.lower treats otherwise, n-grams that the model does not know, and a text without any."""
    labels = ["sport", "arts", "other"] if weighed else ["spam", "ham"]
    rows = texts(60, 0, WORDS)
    (tmp_path / "t.tsv").write_text("".join(f"{labels[len(row) % len(labels)]}\t{row}\n" for row in rows))
    succeeds("split", tmp_path / "t.tsv", tmp_path / "s.h5", "--format", "documents", "--ngrams", ngrams,
            *weighed)  # fmt: skip
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5", "--bias", "1", "--tol", "0.1")
    new = [*texts(40, 1, [*WORDS, "unseen", "ΦΩΣ", "İ"]), "?", "unknownest"]
    (tmp_path / "new.txt").write_text("".join(f"{row}\n" for row in new))
    assert_alike(succeeds, tmp_path / "m.h5", new, tmp_path / "new.txt")


@pytest.mark.parametrize(
    ("form", "weighed"),
    [("csv", ()), ("parquet", ("--idf", "smooth")), ("csv", ("--normalize", "l2")),
     ("parquet", ("--scale", "deviation", "--normalize", "l2"))],
)  # fmt: skip
def test_a_pipeline_scores_dicts_of_columns_as_predict_does(tmp_path, succeeds, form, weighed):
    """With missing cells and categories that the model does not know."""
    draw = np.random.default_rng(3)
    rows: list[dict] = []
    for k in range(90):
        row = {"size": round(float(draw.normal()), 3), "colour": str(draw.choice(["red", "dark blue", "a=b", "é"])),
               "zip": f"{draw.integers(5)}"}  # fmt: skip
        if k >= 60 and k % 3 == 0:
            row |= {"colour": "unseen"}
        if k % 7 == 0:
            del row["size"]
        rows.append(row)
    labels = [1 if row.get("size", 0.1) > 0 else -1 for row in rows]
    for name, part in (("train", slice(60)), ("new", slice(60, 90))):
        columns = {key: [row.get(key) for row in rows[part]] for key in ("size", "colour", "zip")}
        write = csv.write_csv if form == "csv" else parquet.write_table
        write(pa.table({"label": labels[part]} | columns), tmp_path / f"{name}.{form}")
    succeeds("split", tmp_path / f"train.{form}", tmp_path / "s.h5", "--categorical", "auto,zip", *weighed)
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5", "--bias", "1", "--tol", "0.1")
    assert_alike(succeeds, tmp_path / "m.h5", rows[60:], tmp_path / f"new.{form}")
    if "--normalize" not in weighed:
        pipeline = joblib.load(tmp_path / "m.joblib")
        of_frame = pipeline.predict(pandas.DataFrame(rows[60:]).to_dict("records"))  # nan where a cell is missing
        assert np.array_equal(of_frame, pipeline.predict(rows[60:]))


def test_vowpal_wabbits_features_by_name(tmp_path, succeeds):
    (tmp_path / "t.vw").write_text("1 |a x:2 y |b x\n-1 |a z:0.5 |b y\n" * 10)
    succeeds("split", tmp_path / "t.vw", tmp_path / "s.h5")
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5")
    names = blocksvm.load_model(tmp_path / "m.h5").feature_names
    ax, ay, bx = (next(name for name in names if re.fullmatch(pattern, name)) for pattern in ("a.x", "a.y", "b.x"))
    (tmp_path / "new.vw").write_text("1 |a x:2 y |b x\n|a x:0.25\n")
    rows = [{ax: 2.0, ay: 1.0, bx: 1.0}, {ax: 0.25}]
    assert_alike(succeeds, tmp_path / "m.h5", rows, tmp_path / "new.vw")


@pytest.mark.process
def test_names_from_a_store(tmp_path, succeeds):
    """A model of stream knows no names; a store of other texts not all of them.  The pipeline needs no blocksvm."""
    (tmp_path / "t.tsv").write_text("1\tgood film\n-1\tdull film\n" * 20)
    (tmp_path / "few.tsv").write_text("1\tgood\n-1\tdull\n")
    more = "--format", "documents", "--normalize", "l2"
    succeeds("stream", tmp_path / "t.tsv", *more, "--model", tmp_path / "m.h5")
    for name in ("t", "few"):
        succeeds("split", tmp_path / f"{name}.tsv", tmp_path / f"{name}.h5", *more)
    out = tmp_path / "m.joblib"
    with pytest.raises(InputError, match=r"does not name its n-grams.*\(names\); export it as table$"):
        blocksvm.export_model(tmp_path / "m.h5", out, "sklearn")
    with pytest.raises(InputError, match="1 of its 3 features have no name.*; export it as table$"):
        blocksvm.export_model(tmp_path / "m.h5", out, "sklearn", names=tmp_path / "few.h5")
    notes = blocksvm.export_model(tmp_path / "m.h5", out, "sklearn", names=tmp_path / "t.h5")
    assert "its rows are texts, as in predict(['a text'])" in notes
    (tmp_path / "n.txt").write_text("good film\ndull\n")
    expected = blocksvm.predict_files(tmp_path / "m.h5", tmp_path / "n.txt", "scores")
    done = subprocess.run([sys.executable, "-P", "-W", "error", "-c", LOADED_ELSEWHERE, out], capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert np.allclose(np.array(done.stdout.split(), float), expected, rtol=1e-6)
