r"""
Add a notion of calibration
===========================

A notion defines what is evaluated: it projects forecasts and labels to one or several smaller
problems, the lenses of W19. If the classes are ordered, like the stages of a disease, decisions
depend on whether the stage is *at least* k. This notion evaluates the calibration of those
probabilities.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import kernel_calibration_test, proper_calibration_error
from skcalib.data.notions import Notion
from skcalib.datasets import make_widmann
from skcalib.testing import check_notion

# %%
# The class. Targets are treated as forecasts are, so that the notion also works for a conditional
# expectation of them: both are mapped linearly.


class AtLeast(Notion):
    """Is the stage at least k? K - 1 problems of two columns (below, above)."""

    def problems(self, forecast, target):
        for k in range(1, forecast.shape[1]):
            yield tuple(
                np.column_stack([a[:, :k].sum(axis=1), a[:, k:].sum(axis=1)])
                for a in (forecast, target)
            )


# %%
# The one-line test.

check_notion(AtLeast())

# %%
# It is now a notion like the others: for errors, for tests, for estimators.

for model in ("M1", "M2", "M3"):
    data = make_widmann(1000, model=model, random_state=0)
    error = proper_calibration_error(data.y, data.y_proba, notion=AtLeast())
    test = kernel_calibration_test(data.y, data.y_proba, notion=AtLeast())
    print(f"{model}: error {error:.4f}, p = {test.pvalue:.2g}")

# %%
# Threshold by threshold, with the same class: half of the labels of M2 are the first one.

data = make_widmann(4000, model="M2", random_state=0)
target = np.eye(10)[data.y]
gaps = [np.mean(t[:, 1] - p[:, 1]) for p, t in AtLeast().problems(data.y_proba, target)]
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.bar(np.arange(1, 10), gaps, color="#0072b2")
ax.axhline(0, color="0.5", linewidth=0.8)
ax.set(xlabel="at least class", ylabel="frequency - mean forecast", xticks=np.arange(1, 10))
plt.show()
