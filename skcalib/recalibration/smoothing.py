"""Recalibrators that are smoothers used out of sample: isotonic, histogram binning, kernel."""

from sklearn.base import clone

from skcalib.recalibration.one_vs_rest import OneVsRestRecalibrator
from skcalib.smoothers import DirichletKernel, IsotonicSmoother, QuantileBins, UniformBins
from skcalib.smoothers.partition import interpolate


class SmootherRecalibrator(OneVsRestRecalibrator):
    """Base class: a smoother of each class against the rest; ``_smoother()`` makes it."""

    def _smoother(self):
        raise NotImplementedError

    def _fit_one(self, forecast, target, weight):
        fitted = clone(self._smoother()).fit(forecast, target, weight)
        return _SmootherMap(fitted)


class _SmootherMap:
    """The second column of a smoother's prediction."""

    def __init__(self, smoother):
        self.smoother = smoother

    def __call__(self, forecast):
        return self.smoother.predict(forecast)[:, 1]


class IsotonicRecalibrator(SmootherRecalibrator):
    r"""Isotonic regression of the label on the probability, class by class.

    Plain isotonic regression is flat over its cells, so it is not injective and loses sharpness;
    its ends are often exactly 0 or 1, which costs an infinite log loss when they are wrong.
    ``centered=True`` puts each level at the mean probability of its cell and interpolates
    (centered isotonic regression). ``strict=True`` also blends in a small share of the identity,
    which makes the map strictly increasing, injective for two classes, and never certain unless
    the forecast is.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What ``loss_before_`` and ``loss_after_`` are measured in; the fit is least squares.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.
    centered : bool, default=False
        Interpolate between the centres of the cells.
    strict : bool, default=False
        Strictly increasing; implies `centered`.

    Examples
    --------
    >>> from skcalib import IsotonicRecalibrator
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> IsotonicRecalibrator(strict=True).fit(data.y_proba, data.y).injective_
    True
    """

    def __init__(self, *, input="proba", loss="log", labels=None, centered=False, strict=False):
        self.input = input
        self.loss = loss
        self.labels = labels
        self.centered = centered
        self.strict = strict

    def _fit_one(self, forecast, target, weight):
        fitted = IsotonicSmoother().fit(forecast, target, weight)
        if not (self.centered or self.strict):
            return _SmootherMap(fitted)
        centres = fitted.cell_means(fitted.forecast_)[:, 1]
        # One sample's worth of the identity among n.
        blend = 1 / (len(forecast) + 1) if self.strict else 0.0
        return _CentredMap(centres, fitted.level_, blend)

    def _one_injective(self, one):
        return bool(self.strict)


class _CentredMap:
    """Linear interpolation between the centres of isotonic cells, blended with the identity."""

    def __init__(self, centres, levels, blend):
        self.centres, self.levels, self.blend = centres, levels, blend

    def __call__(self, forecast):
        p = forecast[:, 1]
        return (1 - self.blend) * interpolate(p, self.centres, self.levels) + self.blend * p


class HistogramBinning(SmootherRecalibrator):
    r"""Histogram binning: the frequency of the class in the bin of its probability (F24).

    :math:`h(s) = \sum_b \bar y_b 1\{s \in I_b\}`, class by class. Not injective: it forgets
    everything about the forecast but its bin. A new forecast in a bin without samples gets the
    value of the nearest bin.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What ``loss_before_`` and ``loss_after_`` are measured in.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.
    n_bins : int, default=15
        Bins of each probability.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal mass or equal width.

    Examples
    --------
    >>> from skcalib import HistogramBinning
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> binning = HistogramBinning(n_bins=5).fit(data.y_proba, data.y)
    >>> len(set(binning.predict_proba(data.y_proba)[:, 1]))
    5
    """

    def __init__(self, *, input="proba", loss="log", labels=None, n_bins=15, strategy="quantile"):
        self.input = input
        self.loss = loss
        self.labels = labels
        self.n_bins = n_bins
        self.strategy = strategy

    def _smoother(self):
        bins = {"quantile": QuantileBins, "uniform": UniformBins}
        if self.strategy not in bins:
            raise ValueError(f"strategy must be 'quantile' or 'uniform', got {self.strategy!r}.")
        return bins[self.strategy](self.n_bins)


class KernelRecalibrator(SmootherRecalibrator):
    r"""Kernel regression of the label on the probability with a Beta kernel, class by class.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What ``loss_before_`` and ``loss_after_`` are measured in.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.
    bandwidth : {"risk", "loo", "scott"}, float or callable, default="risk"
        As in `DirichletKernel`. "risk" minimises the leave-one-out `loss` of the map.

    Examples
    --------
    >>> from skcalib import KernelRecalibrator
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(1000, 2, random_state=0)
    >>> kernel = KernelRecalibrator(bandwidth=0.01).fit(data.y_proba, data.y)
    >>> kernel.loss_after_ < kernel.loss_before_
    True
    """

    def __init__(self, *, input="proba", loss="log", labels=None, bandwidth="risk"):
        self.input = input
        self.loss = loss
        self.labels = labels
        self.bandwidth = bandwidth

    def _smoother(self):
        return DirichletKernel(self.bandwidth, loss=self.loss)
