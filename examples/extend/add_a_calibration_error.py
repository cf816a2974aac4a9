r"""
Add a calibration error
=======================

A calibration error is a function of labels and forecasts. Whatever takes a function takes yours:
intervals, scorers and figures. This one is the range of the cumulative differences between labels
and scores (ECCE-R of Arrieta-Ibarra and others, 2022), where the Kolmogorov-Smirnov error is their
largest distance from zero. It does not depend on which of two classes is the event.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB

from skcalib import calibration_error_interval, ks_calibration_error
from skcalib.datasets import make_tempered_simplex
from skcalib.displays import EstimationDisplay
from skcalib.errors import cumulative_curve
from skcalib.scorers import ProbaScorer

# %%
# The function. Labels, forecasts, ``sample_weight`` and ``labels`` are passed on: they are checked
# there, with the messages of the library.


def cumulative_range_error(
    y_true, y_proba=None, *, notion="auto", sample_weight=None, labels=None, pos_label=None
):
    """Range of the cumulative differences, averaged over the problems of a notion."""
    rows = {"sample_weight": sample_weight, "labels": labels, "pos_label": pos_label}
    curves = [one.difference for one in cumulative_curve(y_true, y_proba, notion=notion, **rows)]
    ranges = [max(one.max(), 0.0) - min(one.min(), 0.0) for one in curves]
    return float(sum(ranges) / len(ranges))


# %%
# An interval of subsampling, and a scorer.

data = make_tempered_simplex(1000, 2, score_temperature=0.7, random_state=0)
options = {"metric": cumulative_range_error, "method": "subsampling"}
print(calibration_error_interval(data.y, data.y_proba, **options))
X, y = load_breast_cancer(return_X_y=True)
scorer = ProbaScorer(cumulative_range_error)
print(cross_val_score(GaussianNB(), X, y, scoring=scorer).round(3))

# %%
# As other errors it decreases with the number of samples, towards its limit.

EstimationDisplay.from_predictions(
    data.y, data.y_proba, errors=[cumulative_range_error, ks_calibration_error], n_repeats=20
)
plt.show()
