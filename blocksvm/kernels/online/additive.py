"""Perceptron and the passive-aggressive family: steps along y x whose length depends on the row alone.

Perceptron (Rosenblatt; with bias: Novikoff 1962): m <= 0: w += step y x.
PA, PA-I, PA-II (Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006, Fig. 1): l = max(0, 1 - m) > 0: w += tau y x,

    tau = min(most, l / (||x||^2 + slack)):   PA most = inf, slack = 0;   PA-I most = C;   PA-II slack = 1 / (2C)
"""

from blocksvm.kernels import inlined
from blocksvm.kernels.online.rows import OWN, STEP, T, add_plain, sum_of_squared_values

MOST, SLACK = OWN, OWN + 1


@inlined
def perceptron_update(indices, values, start, stop, y, z, F, W, S, P):
    S[T] += 1.0
    if y * z <= 0.0:
        add_plain(indices, values, start, stop, P[STEP] * y, F, W, S, P)


@inlined
def passive_update(indices, values, start, stop, y, z, F, W, S, P):
    S[T] += 1.0
    loss = 1.0 - y * z
    if loss > 0.0:
        q = sum_of_squared_values(values, start, stop)
        if q > 0.0:
            add_plain(indices, values, start, stop, y * min(P[MOST], loss / (q + P[SLACK])), F, W, S, P)
