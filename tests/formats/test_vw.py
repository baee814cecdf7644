"""Vowpal Wabbit text: rows, names and faults are the oracle's; the model is that of the rows as svmlight text."""

import io
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference import BadLine
from reference_formats import feature_id, parse_vw
from support import parsed_text
from support.stored_rows import in_source_order
from support.stream_cases import learned, weights_by_id
from support.training_cases import train

from blocksvm import InputError, load_model
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.formats.text.vw import VW
from blocksvm.store.descriptions import as_json
from blocksvm.store.recipe import Recipe
from blocksvm.streaming.stream_saving import save_stream


def parse(data: bytes, recipe: Recipe = Recipe("vw")):
    return parsed_text.parse(VW, data, recipe, b"7 |a b:1 9", named=True, offers=("dtype",))


def rows_of(batch) -> list[tuple]:
    """As the oracle gives them."""
    found = []
    weights = np.ones(len(batch)) if batch.weights is None else batch.weights
    names, first, last = batch.names
    for r in range(len(batch)):
        k = range(batch.indptr[r], batch.indptr[r + 1])
        label = None if np.isnan(batch.labels[r]) else float(batch.labels[r])
        entries = {int(batch.ids[j]): float(batch.values[j]) for j in k}
        known = {int(batch.ids[j]): names[first[j] : last[j]].tobytes() for j in k}
        found.append((label, float(weights[r]), entries, known))
    return found


def agrees(data: bytes, recipe: Recipe) -> bool:
    """Assert that rows and names, or the line of the first fault, are the oracle's; whether there was none."""
    batch = parse(data, recipe)
    expected, bad_line = [], None
    try:
        expected = parse_vw(data, recipe.dtype)
    except BadLine as bad:
        bad_line = bad.line
    assert bad_line == (None if batch.fault is None else batch.fault[0] + 1)
    if bad_line is not None:
        expected = parse_vw(b"\n".join(data.split(b"\n")[: bad_line - 1]), recipe.dtype)
    assert rows_of(batch) == expected
    assert [list(row[2]) for row in rows_of(batch)] == [list(row[2]) for row in expected]
    return bad_line is None


numbers = st.sampled_from(b"1 -1 0 .5 +2 1e-3 0.1 -0 3.25 1e-50 12345678901234567".split())
names = st.one_of(st.sampled_from([b"a", b"b", b"c", b"eightchr", b"nine_chars", b"12", b"\xc3\xa9", b"#", b"'x"]),
                  st.text("abcxyz_=^0123456789", min_size=1, max_size=20).map(str.encode))  # fmt: skip
gaps = st.sampled_from([b" ", b"  ", b"\t", b" \t "])


@st.composite
def lines(draw) -> bytes:
    """A well-formed line (which may repeat a feature), or an empty one."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([b"", b" ", b"\t"]))
    head = draw(st.lists(st.sampled_from([b"1", b"-1", b"0.5", b"2"]), max_size=2))
    line = draw(st.sampled_from([b"", b" "])) + b"".join(word + draw(gaps) for word in head)
    line += draw(st.sampled_from([b"", b"", b"tag", b"'tag", b"'tag "]))
    known = st.sampled_from([b"", b"", b"n", b"other_name", b"s:0.5", b"s:-2", b"z:0"])
    spaces = draw(st.lists(known, min_size=1, max_size=3))
    for space in spaces:
        line += b"|" + space
        for name in draw(st.lists(names, max_size=draw(st.sampled_from([3, 3, 40])))):
            line += draw(gaps) + name + draw(st.one_of(st.just(b""), numbers.map(lambda n: b":" + n)))
        line += draw(st.sampled_from([b"", b" "]))
    return line


@st.composite
def texts(draw) -> bytes:
    newline = draw(st.sampled_from([b"\n", b"\r\n"]))
    return newline.join(draw(st.lists(lines(), max_size=8))) + draw(st.sampled_from([b"", newline]))


recipes = st.builds(
    Recipe, st.just("vw"), st.sampled_from(["error", "sum", "sum"]), st.none(), st.just("none"),
    st.sampled_from(["float32", "float64"]),
)  # fmt: skip


JUNK = st.sampled_from([bytes([c]) for c in b"019:.+-e |'\t\n\rnaf\x00\xff"])


@pytest.mark.slow
@given(texts(), st.one_of(st.just([]), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 3), JUNK), max_size=4)),
       recipes)  # fmt: skip
@settings(max_examples=2 * settings().max_examples)
@example(b"1 2 'tag|a:0.5 x y:2 |b x | x:3 |a x:1", [], Recipe("vw", "sum"))
@example(b"1|a x\n1 |a x\n|a x\n'q |a x\n1 2 0 |a x", [], Recipe("vw"))
@example(b"| " + b" ".join(b"f%d:%d" % (k % 70, k) for k in range(200)), [], Recipe("vw", "sum"))
@example(b"4e-320 6e-321 |s:2 a:3e-320 b:1\n1 |a b:5e-324", [], Recipe("vw", dtype="float64"))
@example(b"|" + b"n" * 300 + b" " + b" ".join(b"%d" % k for k in range(3000)), [], Recipe("vw"))  # of long names
@example(b"1 |a x:1:2", [], Recipe("vw"))
@example(b"1 2 3 4 |a x", [], Recipe("vw"))
@example(b"1 'tag x |a", [], Recipe("vw"))
@example(b"| x:1e400", [], Recipe("vw"))
def test_rows_and_the_lines_of_faults_are_the_references(data, edits, recipe):
    for at, cut, junk in edits:
        at %= len(data) + 1
        data = data[:at] + junk + data[at + cut :]
    agrees(data, recipe)


def test_ids_stay_what_they_are():
    """Models and stores keep them: another hash would give their features other names."""
    assert feature_id(b"", b"") == 0
    assert feature_id(b"", b"a") == ID_OF_A
    assert feature_id(b"words", b"antidisestablishmentarianism") == ID_OF_WORD
    batch = parse(b"| a |words antidisestablishmentarianism")
    assert sorted(batch.ids.tolist()) == sorted([ID_OF_A, ID_OF_WORD])


ID_OF_A, ID_OF_WORD = 8388329846359545627, 3966679602383210864


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The same rows as Vowpal Wabbit text and as svmlight text."""
    folder = tmp_path_factory.mktemp("vw")
    rng = np.random.default_rng(7)
    lines, plain = [], []
    for r in range(300):
        label = 1 if rng.random() < 0.5 else -1
        spaces, entries = [], {}
        for space, size in ((b"words", 40), (b"", 9), (b"x", 12)):
            chosen = rng.choice(size, rng.integers(0, 8), replace=False)
            values = np.round(rng.normal(label * (chosen % 3 - 1), 1.0), 3)
            pairs = [(b"feature_%d" % j, float(v)) for j, v in zip(chosen, values, strict=True)]
            own = b"".join(b" %s:%r" % (n, v) if v != 1 else b" " + n for n, v in pairs)
            spaces.append(b"|" + space + own.replace(b"b'", b""))
            entries |= {feature_id(space, n): v for n, v in pairs}
        lines.append(b"%d 'row%d %s" % (label, r, b" ".join(spaces)))
        plain.append("%d %s" % (label, " ".join(f"{i}:{entries[i]!r}" for i in sorted(entries))))
    (folder / "rows.vw").write_bytes(b"\n".join(lines) + b"\n")
    (folder / "rows.svm").write_text("\n".join(plain) + "\n")
    return folder


def test_a_split_of_either_text_is_the_same_store(written, tmp_path):
    for bits in (None, 5):
        for name in ("vw", "svm"):
            settings = SplitSettings(overwrite=True, bits=bits)
            meta = as_json(split_rows([str(written / f"rows.{name}")], tmp_path / f"{name}.h5", settings))
            assert meta["recipe"]["format"] == {"vw": "vw", "svm": "svmlight"}[name]
            assert meta["recipe"]["bits"] == bits
        assert in_source_order(tmp_path / "vw.h5") == in_source_order(tmp_path / "svm.h5")
        runs = [train(tmp_path / f"{name}.h5", max_outer=5, schedule="2", tol=0.0) for name in ("vw", "svm")]
        assert runs[0].w.tobytes() == runs[1].w.tobytes()


def test_the_commands_tell_the_format_and_predict_as_they_trained(written, tmp_path, monkeypatch, succeeds):
    text, hashing = written / "rows.vw", ["--bits", 5]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes())))
    succeeds("split", "-", tmp_path / "s.h5", *hashing)
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5", "--tol", "1e-4")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes())))
    stream = ["--learner", "pa1", "--model", tmp_path / "o.h5", *hashing]
    succeeds("stream", "-", *stream)
    # without labels, which only the model's recipe tells from svmlight text of features without values
    bare = tmp_path / "bare.txt"
    bare.write_bytes(b"\n".join(line[line.index(b"|") :] for line in text.read_bytes().splitlines()))
    for model in ("m.h5", "o.h5"):
        scores = []
        for source in (text, bare, tmp_path / "s.h5", written / "rows.svm"):
            options = ["--format", "svmlight"] if source.suffix == ".svm" else []
            _, out, err = succeeds("predict", tmp_path / model, source, "--scores", *options)
            scores.append(np.array(out.split(), float))
            if source == text:
                assert "accuracy 0.9" in err or "accuracy 0.8" in err
        assert len(scores[0]) == 300
        for other in scores[1:]:
            np.testing.assert_allclose(other, scores[0], rtol=1e-6, atol=1e-6)


def weights_of(stream, folder) -> dict[int, float]:
    save_stream(folder / "w.h5", stream)
    model = load_model(folder / "w.h5")
    return dict(zip(model.feature_ids.tolist(), model.weights.tolist(), strict=True))


def test_rows_without_a_label_are_counted_and_not_learned_from(written, tmp_path, succeeds, refusal):
    text = (written / "rows.vw").read_bytes().splitlines()
    mixed = tmp_path / "mixed.vw"
    mixed.write_bytes(b"\n".join(line + b"\n" + line[line.index(b"|") :] for line in text))
    stream, reports = learned(mixed, "pa1")
    plain, _ = learned(written / "rows.vw", "pa1")
    assert (reports[-1].rows, stream.targets.unlabelled) == (300, 300)
    assert weights_of(stream, tmp_path) == weights_of(plain, tmp_path)
    assert "rows without a label: 300" in succeeds("stream", mixed, "--learner", "pa1").out
    bare = tmp_path / "bare.vw"
    bare.write_bytes(b"|a b\n|a c\n")
    with pytest.raises(InputError, match="none of its 2 rows has a label"):
        learned(bare, "pa1")
    told = "labels: none of the 2 rows has one; they can be predicted, but training needs labels"
    assert told in " ".join(succeeds("split", bare, tmp_path / "s.h5").out.split())
    said = refusal("train", tmp_path / "s.h5", tmp_path / "m.h5")
    assert "none of its 2 rows has a label, which training needs; split rows with labels, of" in said


def test_weights_are_kept_by_the_reader_and_refused_by_learners_without_them(written, tmp_path):
    assert parse(b"1 |a b\n-1 2.5 |a c\n1 0 |a").weights.tolist() == [1.0, 2.5, 0.0]
    assert parse(b"1 |a b\n-1 1 |a c").weights is None
    text = tmp_path / "weighted.vw"
    text.write_bytes(b"1 |a b\n\n-1 2.5 |a c\n")
    with pytest.raises(InputError, match=rf"{text}:3: the row has the weight 2\.5, but pa takes all rows as equal"):
        learned(text, "pa")
    # and others learn by them: rows of weight 0 change nothing
    lines = (written / "rows.vw").read_bytes().splitlines()
    text.write_bytes(b"".join(line + b"\n" + line.replace(b" ", b" 0 ", 1) + b"\n" for line in lines))
    found, expected = (weights_of(learned(source, "arow")[0], tmp_path) for source in (text, written / "rows.vw"))
    assert found == expected


def test_bits_of_a_model_or_prior_are_those_of_a_store(written, tmp_path, succeeds, refusal):
    save_stream(tmp_path / "prior.h5", learned(written / "rows.vw", "pa1", bits=6)[0])
    for bits in (None, 5, 6):
        store = tmp_path / f"s{bits}.h5"
        split_rows([str(written / "rows.vw")], store, SplitSettings(bits=bits))
        given = "train", store, tmp_path / "m.h5", "--prior", tmp_path / "prior.h5"
        assert succeeds(*given) if bits == 6 else "has features hashed to 6 bits" in refusal(*given)
    assert weights_by_id(tmp_path / "m.h5", 64)[1].bits == 6
    told = refusal("predict", tmp_path / "m.h5", tmp_path / "s5.h5")
    assert "was split with --bits 5, the model's text with --bits 6; split it likewise" in told
