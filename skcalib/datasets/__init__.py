"""Simulators of data sets whose true calibration errors are known.

Each simulator returns a `sklearn.utils.Bunch` with the labels ``y``, the forecasts ``y_proba`` of
shape (n, K), the ``posterior`` E[Y|S] or E[Y|X] that the labels were drawn from, features ``X``
where there are any, and ``truth``, a dict of expected values under the conventions of skcalib
(natural logarithm; Brier halved for K = 2), by numerical integration. The classwise ones of
`make_tempered_simplex` for K > 2 have a standard error below .2 %.
"""

from skcalib.datasets.forecasts import (
    make_logistic_scores,
    make_tempered_simplex,
    make_widmann,
)
from skcalib.datasets.grouping import make_grouping_curves, make_grouping_problem

__all__ = [
    "make_grouping_curves",
    "make_grouping_problem",
    "make_logistic_scores",
    "make_tempered_simplex",
    "make_widmann",
]
