"""Area under the curve and logarithmic loss of a stream's predictions, against the definitions."""

import re
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import log_loss, roc_auc_score
from support.stream_cases import learned, text_of

from blocksvm.base.errors import InputError
from blocksvm.online.loops import NO_LABEL
from blocksvm.streaming.ranking import RANKING_BYTES, Ranking

SCALES = [1e-30, 1e-3, 1.0, 1e3, 1e30]


@pytest.mark.parametrize("scale", SCALES)
def test_it_is_what_the_definitions_say(scale):
    rng = np.random.default_rng(1)
    y = np.where(rng.random(3_000) < 0.2, 1, -1).astype(np.int16)
    values = scale * (rng.standard_normal(3_000) + 0.7 * (y > 0))
    ranking = Ranking()
    for part in np.array_split(np.arange(3_000, dtype=np.int32), [1, 5, 700]):
        ranking.add(values[part], y, part)
    assert ranking.rows == 3_000
    assert ranking.area() == pytest.approx(roc_auc_score(y, values), abs=2e-3)
    m = np.clip(values, -30.0, 30.0)
    if scale <= 1.0:
        assert ranking.log_loss() == pytest.approx(log_loss(y, 1.0 / (1.0 + np.exp(-m))), rel=1e-9)
    else:
        assert ranking.log_loss() == pytest.approx(np.mean(np.maximum(0.0, -y * values)), rel=0.01)


def test_ties_count_half_and_one_class_has_no_area():
    ranking, in_turn = Ranking(), np.arange(4, dtype=np.int32)
    assert (ranking.area(), ranking.log_loss()) == (None, None)
    ranking.add(np.array([0.5, 0.5]), np.array([1, 1], np.int16), in_turn[:2])
    assert ranking.area() is None
    ranking.add(np.array([0.5, 0.25, -0.0, 0.0]), np.array([-1, -1, 1, -1], np.int16), in_turn)
    # of 9 pairs: 2 + 2 below 0.5 twice, a tie twice; at 0 one tie
    assert ranking.area() == pytest.approx((2 * (2 + 0.5) + 0.5) / 9)


def test_rows_without_a_label_are_passed_over_and_rows_come_in_their_order():
    y, values = np.array([1, NO_LABEL, -1, 1], np.int16), np.array([0.5, -1e300, 3.0, -2.0])
    ranking, alone = Ranking(), Ranking()
    ranking.add(values[::-1].copy(), y, np.array([3, 2, 1, 0], np.int32))
    alone.add(np.array([-2.0, 3.0, 0.5]), np.array([1, -1, 1], np.int16), np.arange(3, dtype=np.int32))
    assert (ranking.rows, ranking.area(), ranking.log_loss()) == (3, alone.area(), alone.log_loss())
    np.testing.assert_array_equal(ranking.curve.counts, alone.curve.counts)
    m = np.array([-2.0, -3.0, 0.5])
    assert ranking.log_loss() == pytest.approx(np.logaddexp(0.0, -m).mean(), rel=1e-14)


def test_its_memory_is_counted(tmp_path):
    """One curve a learner of two classes, and what finding an area takes; the least memory that is told is enough."""
    text = text_of(tmp_path, scipy.sparse.eye(4, format="csr"), [1, -1, 1, -1])
    for names, curves in (("pa1", 1), ("pa1,arow,ogd", 3)):
        stream, _ = learned(text, names, memory=64_000_000)
        plan = stream.plan()
        taken = sum(learner.ranking.curve.counts.nbytes for learner in stream.learners)
        assert taken == curves * RANKING_BYTES
        tracemalloc.start()
        stream.learners[0].ranking.area()
        assert plan["ranking"] >= taken + tracemalloc.get_traced_memory()[1] >= taken
        tracemalloc.stop()
        assert sum(plan.values()) == 64_000_000
        with pytest.raises(InputError, match="too small for a stream; give ") as error:
            learned(text, names, memory=4_000_000)
        least = int(re.search(r"give memory=([\d_]+) or more", str(error.value))[1])
        learned(text, names, memory=least)
        with pytest.raises(InputError, match="too small"):
            learned(text, names, memory=least - 1_000_000)
    assert "ranking" not in learned(text, "pa1", targets="numbers", memory=64_000_000)[0].plan()
