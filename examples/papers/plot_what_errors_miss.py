"""
What the usual errors do not detect (G22, section 3)
====================================================

A forecast of three classes is always 50 %, 30 % and 20 %, in one of the six orders. For three of
the orders the true frequencies are 70 %, 30 % and 0 %, for the others 30 %, 30 % and 40 %. Every
forecast is wrong by the same large distance, :math:`0.2 \\sqrt 2`. But an error of one class at a
time, or only of the predicted class, averages one half of the orders with the other, and finds
perfect calibration. This is not due to few samples: the true values of these errors are zero.
"""

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np

from skcalib import (
    calibration_error,
    kernel_calibration_test,
    ks_calibration_error,
    proper_calibration_error,
    root_brier_score,
)
from skcalib.smoothers import LevelSets

said, even, odd = np.array([0.5, 0.3, 0.2]), np.array([0.7, 0.3, 0.0]), np.array([0.3, 0.3, 0.4])
orders = np.array(list(permutations(range(3))))
is_even = np.linalg.det(np.eye(3)[orders]) > 0

rng = np.random.default_rng(0)
n = 20_000
which = rng.integers(0, 6, n)
proba = said[orders[which]]
frequency = np.where(is_even[which, None], even[orders[which]], odd[orders[which]])
y = (rng.random((n, 1)) > frequency.cumsum(axis=1)[:, :2]).sum(axis=1)


def proper(notion):
    """Root of the Brier calibration error; each of the six forecasts is a level set."""
    return max(proper_calibration_error(y, proba, notion=notion, smoother=LevelSets()), 0) ** 0.5


ERRORS = {
    "top label: ECE": calibration_error(y, proba, n_bins=15),
    "top label: KS": ks_calibration_error(y, proba),
    "one class at a time: CWCE": calibration_error(y, proba, notion="classwise", n_bins=15),
    "one class at a time: proper": proper("classwise"),
    "all classes at once: proper": proper("canonical"),
    "upper bound: root Brier score": root_brier_score(y, proba),
}
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
colors = ["#999999"] * 4 + ["#0072b2", "#56b4e9"]
ax.barh(list(ERRORS), list(ERRORS.values()), color=colors)
ax.axvline(0.2 * np.sqrt(2), color="black", linestyle="--", label="true distance, 0.283")
ax.invert_yaxis()
ax.set(xlabel="error")
ax.legend(loc="upper right")
plt.show()

# %%
# The kernel test is for all classes at once. With another notion it tests that notion only.

for notion in ("canonical", "classwise", "top_label"):
    test = kernel_calibration_test(y[:4000], proba[:4000], notion=notion)
    print(f"{notion:10} p = {test.pvalue:.3g}")
