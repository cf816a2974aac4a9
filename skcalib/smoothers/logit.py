"""The default smoother: a cross-fitted parametric map on the logits."""

import warnings

from sklearn.exceptions import ConvergenceWarning

from skcalib.links import BiasCorrectedTemperature
from skcalib.smoothers.crossfit import OutOfFoldSmoother


class LogitSmoother(OutOfFoldSmoother):
    r"""Cross-fitted bias-corrected temperature map: the default smoother.

    Models :math:`E[Y|S] = \mathrm{softmax}(\beta \log S + b)` by penalised maximum likelihood.
    For K = 2 this is the affine map of the logit; for K > 2 one temperature and class biases that
    are shrunk towards zero as far as the data allow (empirical Bayes). Two parameters where a
    kernel has hundreds: little variance, and no curse of dimension. It sees only miscalibration
    of that form; a curve that is not monotone needs `DirichletKernel`, `IsotonicSmoother` or
    `CrossFitted`.

    Forecasts of exactly 0 enter the logarithm with half of the smallest positive probability of
    the training fold. The forecasts under evaluation are not changed by this: it only chooses
    the curve that they are compared with.

    Parameters
    ----------
    cv : int or splitter, default=5
        Folds, as in `CrossFitted`.
    random_state : int, RandomState instance or None, default=0
        Shuffles the folds of an integer `cv`.

    Examples
    --------
    >>> from skcalib import LogitSmoother, proper_calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> error = proper_calibration_error(data.y, data.y_proba, smoother=LogitSmoother())
    >>> round(error, 3), round(data.truth["brier"], 3)
    (0.008, 0.006)
    """

    def __init__(self, cv=5, random_state=0):
        self.cv = cv
        self.random_state = random_state

    def _fit_one(self, forecast, target, weight):
        link = BiasCorrectedTemperature().fit(forecast, target, weight)
        if not link.converged_:
            warnings.warn(
                "The logit map of LogitSmoother did not converge: the forecasts may hold extreme "
                "values. The estimate is still valid, but another smoother may see more.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return link.apply

    def _check_target(self, values):
        super()._check_target(values)
        if values.shape != self.forecast_.shape:
            raise ValueError(
                "LogitSmoother needs one forecast column per class; got forecasts of shape "
                f"{self.forecast_.shape} and a target of shape {values.shape}. For other "
                "representations use DirichletKernel or CrossFitted."
            )
