"""Closed forms of rounds without a feature, against the rounds one by one in forty digits."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from blocksvm.learners.engine.idle import falling_sum, idle_rounds


def exact(w, since, now, step, l1, falling):
    """(w, sum, least |w|) of ``w -= a_s sign(w)`` in decimal arithmetic."""
    with localcontext(prec=40):
        w, c = Decimal(w), Decimal(step) * Decimal(l1)
        total, least = Decimal(0), abs(w)
        for s in range(since + 1, now + 1):
            a = c / Decimal(s).sqrt() if falling else c
            w = w - a if w > 0 else w + a if w < 0 else w
            total += w
            least = min(least, abs(w))
        return w, total, least


@pytest.mark.parametrize("seed", range(6))
def test_idle_rounds_are_the_rounds_one_by_one(seed):
    """Falling to 0, to and fro over it, nearer to it level by level; from the first rounds and from late ones."""
    draw = np.random.default_rng(seed)
    near = 0
    for _ in range(60):
        since, rounds = int(10 ** draw.uniform(0, 6)), int(10 ** draw.uniform(0, 3.6))
        step, l1 = 10.0 ** draw.uniform(-1, 1), 10.0 ** draw.uniform(-6, 0)
        w = draw.normal() * step * l1 * 10 ** draw.uniform(-4, 2)
        found, total = idle_rounds(w, float(since), float(since + rounds), step, l1, True)
        expected, expected_total, least = exact(w, since, since + rounds, step, l1, True)
        c = step * l1
        if least < 2e-16 * c:  # no float64 can tell on which side of 0 it is
            near += 1
            continue
        assert abs(found - float(expected)) < 1e-11 * c
        assert abs(total - float(expected_total)) < 1e-8 * rounds * max(c, abs(w))
    assert near < 6


def test_a_constant_step_falls_and_then_has_two_values_in_turn():
    draw = np.random.default_rng(1)
    for _ in range(300):
        c = 2.0 ** -int(draw.integers(1, 8))
        w, rounds = float(draw.integers(-4000, 4000)) / 512, int(draw.integers(0, 900))
        found, total = idle_rounds(w, 5.0, 5.0 + rounds, 1.0, c, False)
        expected, expected_total, _ = exact(w, 5, 5 + rounds, 1.0, c, False)
        assert (found, total) == (float(expected), float(expected_total))  # numbers that float64 holds exactly


@pytest.mark.parametrize("falling", [False, True])
def test_sums_under_soft_thresholds_are_those_of_the_rounds_one_by_one(falling):
    draw = np.random.default_rng(2)
    for _ in range(200):
        since, rounds = int(10 ** draw.uniform(0, 5)) - 1, int(10 ** draw.uniform(0, 3.5))
        step, l1 = 10.0 ** draw.uniform(-1, 1), 10.0 ** draw.uniform(-5, 0)
        w = draw.normal() * step * l1 * 10 ** draw.uniform(-1, 3)
        a = step * l1 / (np.sqrt(np.arange(since + 1, since + rounds + 1)) if falling else np.ones(rounds))
        expected = np.sign(w) * np.maximum(0.0, abs(w) - np.cumsum(a)).sum()
        found = falling_sum(w, float(since), rounds, step, l1, falling)
        assert abs(found - expected) < 1e-9 * rounds * abs(w)


def test_nothing_moves_without_a_weight_a_round_or_a_threshold():
    assert idle_rounds(0.0, 3.0, 900.0, 1.0, 0.5, True) == (0.0, 0.0)
    assert idle_rounds(0.7, 9.0, 9.0, 1.0, 0.5, True) == (0.7, 0.0)
    assert idle_rounds(0.5, 3.0, 10.0, 1.0, 0.0, True) == (0.5, 3.5)


@pytest.mark.parametrize("falling", [False, True])
def test_any_number_of_rounds_takes_no_time(falling):
    """One by one these would take hours."""
    for w in (1e-9, 0.3, 5.0, 1e3):
        found, total = idle_rounds(w, 1e6, 1e6 + 1e13, 0.5, 1e-3, falling)
        assert np.isfinite([found, total]).all()
        assert abs(found) <= 5e-4


@pytest.mark.parametrize("falling", [False, True])
def test_stretches_in_succession_are_one_stretch(falling):
    for w in (0.033, -0.00071, 2.5):
        whole, summed = idle_rounds(w, 300.0, 60_000.0, 0.5, 1e-3, falling)
        part, total = w, 0.0
        for since, now in ((300, 301), (301, 340), (340, 2_000), (2_000, 2_001), (2_001, 60_000)):
            part, more = idle_rounds(part, float(since), float(now), 0.5, 1e-3, falling)
            total += more
        assert abs(part - whole) < 1e-12
        assert abs(total - summed) < 1e-7


@pytest.mark.parametrize("since", [10**6, 10**7, 10**8, 10**9, 10**12])
def test_sums_of_late_rounds_keep_their_digits(since):
    """With thresholds that bring a weight to 0 within some hundreds of rounds, and others after it."""
    draw = np.random.default_rng(4)
    for rounds in (60, 700, 2500):
        for _ in range(4):
            step, l1 = 10.0 ** draw.uniform(-1, 1), 10.0 ** draw.uniform(-2, 1)
            w = draw.choice([-1, 1]) * step * l1 / since**0.5 * draw.uniform(0.5, rounds)
            with localcontext(prec=50):
                x, c, total = abs(Decimal(w)), Decimal(step * l1), Decimal(0)
                for s in range(since + 1, since + rounds + 1):
                    x = max(Decimal(0), x - c / Decimal(s).sqrt())
                    total += x
                expected = float(total) * (1 if w > 0 else -1)
            assert falling_sum(w, float(since), rounds, step, l1, True) == pytest.approx(expected, rel=1e-9)
            # to and fro over 0 after it: the last rounds count for less than a step each
            found, summed = idle_rounds(w, float(since), float(since + rounds), step, l1, True)
            expected, expected_sum, least = exact(w, since, since + rounds, step, l1, True)
            if least > 1e-9 * step * l1 / since**0.5:
                a = step * l1 / since**0.5
                assert abs(found - float(expected)) < 1e-5 * a
                assert abs(summed - float(expected_sum)) < 1e-9 * abs(w) * rounds + 1e-5 * a * rounds
