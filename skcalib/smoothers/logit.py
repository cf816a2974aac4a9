"""The default smoother: a cross-fitted map of the logits, with a curve where one is needed."""

import warnings

from sklearn.exceptions import ConvergenceWarning

from skcalib.links import BiasCorrectedTemperature
from skcalib.smoothers._curve import AddedCurve
from skcalib.smoothers.crossfit import OutOfFoldSmoother

_MANY_CLASSES, _PER_CLASS = 20, 20  # fewer samples per class do not separate the classes


class LogitSmoother(OutOfFoldSmoother):
    r"""Cross-fitted map of the logits, with a curve where one is needed: the default smoother.

    Models :math:`E[Y|S] = \mathrm{softmax}(\beta \log S + b)` by penalised maximum likelihood.
    For K = 2 this is the affine map of the logit; for K > 2 one temperature and class biases that
    are shrunk towards zero as far as the data allow (empirical Bayes). Two parameters where a
    kernel has hundreds: little variance, and no curse of dimension.

    Where a test at the level .01 finds that the map leaves a pattern behind, a curve is added:
    with t the log odds of the second of two classes, or of the most likely of more, t becomes
    t + f(t), piecewise linear with up to twelve knots and smoothed by marginal likelihood; the
    other classes share what is left in proportion. So a reliability curve that bends or is not
    monotone is seen too, from about a thousand samples on. Not seen are slopes that differ
    between three or more classes, other than through their biases, and patterns of single
    classes: `CrossFitted` may see them, or ``notion="classwise"``.

    Forecasts of exactly 0 enter the logarithm with half of the smallest positive probability of
    the training fold, and logarithms below -87, the end of single precision, enter compressed, as
    in `TemperatureScaling`. The forecasts under evaluation are not changed by this: it only
    chooses the curve that they are compared with.

    From 20 classes on, `fit` warns below 20 samples per class: what is wrong with all classes is
    then still found, what is wrong with single ones is not.

    Parameters
    ----------
    cv : int or splitter, default=5
        Folds, as in `CrossFitted`.
    random_state : int, RandomState instance or None, default=0
        Shuffles the folds of an integer `cv`.
    curve : bool, default=True
        Whether a curve may be added to the map.

    Examples
    --------
    >>> from skcalib import LogitSmoother, proper_calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> error = proper_calibration_error(data.y, data.y_proba, smoother=LogitSmoother())
    >>> round(error, 3), round(data.truth["brier"], 3)
    (0.007, 0.006)
    """

    def __init__(self, cv=5, random_state=0, curve=True):
        self.cv = cv
        self.random_state = random_state
        self.curve = curve

    def fit(self, forecast, target, sample_weight=None):
        """Store forecasts (n, K) and target (n, C); models are fitted when they are needed."""
        super().fit(forecast, target, sample_weight)
        n_samples, n_classes = self.forecast_.shape
        if n_classes >= _MANY_CLASSES and n_samples < _PER_CLASS * n_classes:
            warnings.warn(
                f"{n_samples} samples of {n_classes} classes are less than {_PER_CLASS} per "
                "class: LogitSmoother then sees the miscalibration that the classes share, and "
                "next to nothing of what differs between them. The error may be larger than the "
                "estimate: use more samples, or notion='top_label'.",
                UserWarning,
                stacklevel=2,
            )
        return self

    def _fit_one(self, forecast, target, weight):
        link = BiasCorrectedTemperature().fit(forecast, target, weight)
        if not link.converged_:
            warnings.warn(
                "The logit map of LogitSmoother did not converge: the forecasts may hold extreme "
                "values. The estimate is still valid, but another smoother may see more.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if not self.curve:
            return link.apply
        added = AddedCurve().fit(link.apply(forecast), target, weight)
        return lambda new: added.apply(link.apply(new))

    def _check_target(self, values):
        super()._check_target(values)
        if values.shape != self.forecast_.shape:
            raise ValueError(
                "LogitSmoother needs one forecast column per class; got forecasts of shape "
                f"{self.forecast_.shape} and a target of shape {values.shape}. For other "
                "representations use DirichletKernel or CrossFitted."
            )
