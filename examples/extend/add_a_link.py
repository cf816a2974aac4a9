r"""
Add a map of logits
===================

A recalibrator is a map of logits with parameters: a *link*. This one multiplies the logits by a
slope that may differ for forecasts above and below one half, for a classifier that is
over-confident in one class only. The base classes provide the optimiser, the loss, weights, labels
and pipelines.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import PlattScaling, RecalibrationDisplay, calibration_improvement
from skcalib.datasets import make_tempered_simplex
from skcalib.links import BinaryMap
from skcalib.recalibration import BinaryLinkRecalibrator
from skcalib.testing import check_link, check_recalibrator

# %%
# The link: two features of the logit, two parameters, and the parameters of the identity.


class TwoSlopesMap(BinaryMap):
    """l -> a max(l, 0) + b min(l, 0) with a, b >= 0; theta = (a, b)."""

    identity = (1.0, 1.0)

    def features(self, logits):
        value = logits[:, 1] - logits[:, 0]
        return np.column_stack([np.maximum(value, 0), np.minimum(value, 0)])

    def bounds(self, n_classes):
        return [(0.0, None), (0.0, None)]

    def injective(self, theta, n_classes):
        return bool(min(theta) > 0)

    def preserves_order(self, theta, n_classes):
        return bool(min(theta) > 0)  # the sign of the logit is kept


# %%
# The recalibrator has the parameters that all recalibrators have, and fits its link. It gets the
# parameters of one map for two classes, and else those of a map for each class.


class TwoSlopesScaling(BinaryLinkRecalibrator):
    """One slope above one half, one below."""

    def __init__(self, *, input="proba", loss="log", labels=None):
        self.input = input
        self.loss = loss
        self.labels = labels

    def _fit_map(self, samples):
        self.coef_ = self._fit_links(TwoSlopesMap(), samples)


# %%
# The tests, of one line each: identity, gradients and declared properties, and the recalibrator.

check_link(TwoSlopesMap())
check_recalibrator(TwoSlopesScaling())

# %%
# Forecasts that are over-confident in class 1 only. The gain is that of the Brier score on new
# samples.

past, test = (make_tempered_simplex(3000, random_state=seed) for seed in (0, 1))
for data in (past, test):
    sure = data.y_proba[:, 1] > 0.5
    data.y_proba[~sure] = data.posterior[~sure]
for recalibrator in (TwoSlopesScaling(), PlattScaling()):
    recalibrator.fit(past.y_proba, past.y)
    gain = calibration_improvement(test.y, test.y_proba, recalibrator)
    print(f"{type(recalibrator).__name__:17} {gain.estimate:.5f} [{gain.low:.5f}, {gain.high:.5f}]")

# %%
# Its map can be drawn like any other.

RecalibrationDisplay.from_recalibrator(TwoSlopesScaling().fit(past.y_proba, past.y))
plt.show()
