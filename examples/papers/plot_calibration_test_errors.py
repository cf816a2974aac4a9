"""
How often do tests of calibration err? (W19, figure 2)
======================================================

The same three models of ten classes, 250 samples, 100 data sets each. For every significance level
the figure shows the share of data sets in which a test decides wrongly. It rejects M1, which is
calibrated, or does not reject M2 or M3, which are not.

On the left a good test lies on the diagonal or below it. Consistency resampling resamples the
forecasts along with the labels. It always rejects the calibrated forecasts when the error is that
of equal cells of the simplex. The distribution-free bounds never reject wrongly, and seldom
correctly. The limit distribution of the unbiased kernel error keeps its level and misses neither M2
nor M3. The linear estimate needs n instead of n² values of the kernel, but has less power.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np

from skcalib import kernel_calibration_test
from skcalib.datasets import make_widmann
from skcalib.errors import simplex_calibration_error
from skcalib.significance import consistency_test

UNIFORM = partial(simplex_calibration_error, bins="uniform")


def kernel(statistic, method):
    """A test of the kernel calibration error."""
    return lambda y, p: kernel_calibration_test(y, p, statistic=statistic, method=method)


def resampling(y, p):
    """The test of the binned error by consistency resampling."""
    return consistency_test(y, p, metric=UNIFORM, n_resamples=99, random_state=0)


TESTS = {
    "consistency resampling, bins": (resampling, "#999999", "-"),
    "bound, biased": (kernel("biased", "bound"), "#d55e00", "--"),
    "bound, unbiased": (kernel("unbiased", "bound"), "#e69f00", "--"),
    "limit, linear": (kernel("linear", "asymptotic"), "#009e73", "-"),
    "limit, unbiased": (kernel("unbiased", "spectral"), "#0072b2", "-"),
}
levels = np.linspace(0, 1, 101)

fig, axes = plt.subplots(1, 3, figsize=(10, 3.8), sharey=True, layout="constrained")
for ax, model in zip(axes, ("M1", "M2", "M3"), strict=True):
    draws = [make_widmann(250, model=model, random_state=seed) for seed in range(100)]
    for name, (test, color, style) in TESTS.items():
        some = draws[:20] if test is resampling else draws  # each computes a hundred errors
        pvalues = np.array([test(d.y, d.y_proba).pvalue for d in some])
        rejected = np.mean(pvalues[:, None] <= levels, axis=0)
        wrong = rejected if model == "M1" else 1 - rejected
        ax.plot(levels, wrong, style, color=color, label=name, drawstyle="steps-post")
        print(f"{model}, {name}: {np.mean(pvalues <= 0.05):.2f} rejected at .05")
    ax.axvline(0.05, color="black", linewidth=0.8, linestyle=":")
    ax.set(title=model, xlabel="significance level", xlim=(0, 1))
axes[0].plot([0, 1], [0, 1], color="black", linewidth=0.8, label="the level itself")
axes[0].set(ylabel="share of wrong decisions", title="M1: calibrated, rejected")
axes[1].set_title("M2: wrong, not rejected")
axes[2].set_title("M3: wrong, not rejected")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
plt.show()
