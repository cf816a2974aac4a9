"""
Add a display
=============

How are the risks of a population spread? The *predictiveness curve* draws the risk against the
share of the population whose risk is lower (Pepe et al., 2008). The area below it is the mean
risk. It should equal the observed frequency of the event, which is drawn as a horizontal line.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib.data.problem import check_problem, event_last
from skcalib.datasets import make_tempered_simplex
from skcalib.testing import check_display

# %%
# The class. ``from_predictions`` validates and computes, ``__init__`` keeps the numbers, and
# ``plot`` draws them: it imports matplotlib, sets ``ax_`` and ``figure_``, and returns itself.


class PredictivenessDisplay:
    """Risk against the share of the population with a lower risk; two classes."""

    def __init__(self, share, risk, observed, *, name=None):
        self.share = share
        self.risk = risk
        self.observed = observed
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_proba,
        *,
        sample_weight=None,
        labels=None,
        pos_label=None,
        name=None,
        ax=None,
        **plot_params,
    ):
        """Predictiveness curve of given probabilities."""
        columns = {"labels": labels, "pos_label": pos_label}
        problem = check_problem(y_true, y_proba, sample_weight=sample_weight, **columns)
        problem = event_last(problem, pos_label)
        if len(problem.classes) > 2:
            raise ValueError(
                "PredictivenessDisplay is for two classes: pass one column of y_proba."
            )
        risk, position = np.unique(problem.forecast[:, 1], return_inverse=True)
        weight = np.bincount(position, problem.weight)
        share = np.cumsum(weight) / weight.sum()
        observed = np.average(problem.target[:, 1], weights=problem.weight)
        curve = np.append(0, share), np.append(risk[0], risk)
        return cls(*curve, observed, name=name).plot(ax=ax, **plot_params)

    def plot(self, ax=None, **line_kwargs):
        """Draw the curve, and the observed frequency of the event."""
        import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.subplots()[1]
        label = "Forecast" if self.name is None else self.name
        style = {"label": label, "drawstyle": "steps-pre"} | line_kwargs
        (self.line_,) = ax.plot(self.share, self.risk, **style)
        self.observed_ = ax.axhline(self.observed, linestyle="--", color="0.5", label="Observed")
        ax.set(xlabel="Share of the population with a lower risk", ylabel="Risk")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


# %%
# The one-line test: the axes, a second drawing, names of classes, and zero-weight samples.

check_display(PredictivenessDisplay.from_predictions)

# %%
# Forecasts that are too extreme, and the true probabilities.

data = make_tempered_simplex(20_000, 2, score_temperature=0.3, random_state=0)
ax = PredictivenessDisplay.from_predictions(data.y, data.y_proba, name="Too extreme").ax_
truth = PredictivenessDisplay.from_predictions(data.y, data.posterior, name="Truth", ax=ax)
plt.show()
