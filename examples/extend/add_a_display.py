r"""
Add a display
=============

Whom should a doctor treat? Those whose risk reaches a threshold t. The *net benefit* counts what
such a rule gains in treated cases, where a treatment in vain costs t / (1 - t) of a case:
:math:`P(S \ge t, Y = 1) - \frac{t}{1 - t} P(S \ge t, Y = 0)`. This display draws it for
every threshold (Vickers & Elkin, 2006). Risks that are too extreme lose net benefit.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib.datasets import make_tempered_simplex
from skcalib.problem import check_problem, event_last
from skcalib.testing import check_display

# %%
# The class. ``from_predictions`` validates and computes, ``__init__`` keeps the numbers, and
# ``plot`` draws them: it imports matplotlib, sets ``ax_`` and ``figure_``, and returns itself.


class DecisionCurveDisplay:
    """Net benefit of acting from a threshold on, against the threshold; two classes."""

    def __init__(self, thresholds, net_benefit, treat_all, *, name=None):
        self.thresholds = thresholds
        self.net_benefit = net_benefit
        self.treat_all = treat_all
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
        """Net benefit of given probabilities."""
        columns = {"labels": labels, "pos_label": pos_label}
        problem = check_problem(y_true, y_proba, sample_weight=sample_weight, **columns)
        problem = event_last(problem, pos_label)
        if len(problem.classes) > 2:
            raise ValueError("DecisionCurveDisplay is for two classes: pass one column of y_proba.")
        t = np.arange(1, 100) / 100
        gain = problem.target[:, 1] - problem.target[:, 0] * (t / (1 - t))[:, None]
        acts = problem.forecast[:, 1] >= t[:, None]
        benefit, treat_all = (
            np.average(share * gain, axis=1, weights=problem.weight) for share in (acts, 1)
        )
        return cls(t, benefit, treat_all, name=name).plot(ax=ax, **plot_params)

    def plot(self, ax=None, **line_kwargs):
        """Draw the curve, and that of treating everyone."""
        import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.subplots()[1]
        style = {"label": "Forecast" if self.name is None else self.name} | line_kwargs
        (self.line_,) = ax.plot(self.thresholds, self.net_benefit, **style)
        (self.all_,) = ax.plot(self.thresholds, self.treat_all, "--", color="0.5", label="All")
        top = max(self.treat_all[0], self.net_benefit.max())
        ax.set(xlabel="Threshold", ylabel="Net benefit", ylim=(-0.1, 1.1 * top))
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


# %%
# The line of test: the axes, a second drawing, names of classes, and zero-weight samples.

check_display(DecisionCurveDisplay.from_predictions)

# %%
# Forecasts that are too extreme, and the true probabilities.

data = make_tempered_simplex(20_000, 2, score_temperature=0.3, random_state=0)
ax = DecisionCurveDisplay.from_predictions(data.y, data.y_proba, name="Too extreme").ax_
truth = DecisionCurveDisplay.from_predictions(data.y, data.posterior, name="Truth", ax=ax)
plt.show()
