"""Simulators of data sets whose true calibration errors are known.

Each simulator returns a `sklearn.utils.Bunch` with the labels ``y`` and the forecasts ``y_proba``
of shape (n, K). It also has the ``posterior`` E[Y|S] or E[Y|X] that the labels were drawn from, and
features ``X`` where there are any. The dict ``truth`` has expected values by numerical integration,
under the conventions of skcalib: natural logarithm, and the Brier score halved for K = 2. The
classwise errors of `make_tempered_simplex` for K > 2 have a standard error below .2 %.
"""

from skcalib.datasets.forecasts import (
    make_grouping_curves,
    make_grouping_problem,
    make_logistic_scores,
    make_tempered_simplex,
    make_widmann,
)

__all__ = [
    "make_grouping_curves",
    "make_grouping_problem",
    "make_logistic_scores",
    "make_tempered_simplex",
    "make_widmann",
]
