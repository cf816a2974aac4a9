"""Recalibrators without parameters to choose.

The extremes are the probabilities as they are and the frequencies of the labels. Between them are
a mixture with the uniform distribution, and the average of maps by their evidence.
"""

from __future__ import annotations

from copy import copy
from functools import partial

import numpy as np
from scipy.optimize import brentq

from skcalib._util.validation import number_of_samples
from skcalib.links.averaging import ModelAverage, averaged_map
from skcalib.links.continuation import Continuation
from skcalib.links.leave_out import AverageWithout, one_step_is_enough
from skcalib.recalibration._base import Recalibrator
from skcalib.recalibration._sketched import FittedFromSketch

_LEAST = 1e-12  # noise rate at which the slope of the loss is that at 0


class IdentityRecalibrator(Recalibrator):  # numpydoc ignore=PR02
    """Leave probabilities unchanged: a baseline, or the last step of a pipeline.

    See Also
    --------
    TemperatureScaling : The simplest map that changes probabilities.

    Examples
    --------
    >>> from skcalib import IdentityRecalibrator
    >>> IdentityRecalibrator().fit([0.2, 0.7], [0, 1]).predict_proba([0.4])
    array([[0.6, 0.4]])
    """

    def _fit_map(self, samples):
        self.injective_ = self.preserves_argmax_ = self.preserves_order_ = True

    def _apply_map(self, forecast):
        return forecast

    def _write_map(self, add, x):
        return x


class LabelFrequency(Recalibrator):  # numpydoc ignore=PR02
    """Predict the label frequencies given the predicted class (G22, appendix E.1).

    Every forecast with the same predicted class is mapped to the class frequencies among those
    samples. The map is calibrated. It keeps the accuracy if the prediction is the most frequent
    label, but it loses all other sharpness. It illustrates why injective maps are preferable.

    Attributes
    ----------
    frequencies_ : array of shape (n_classes, n_classes)
        Row k: label frequencies where class k is predicted; the overall frequencies if it never is.

    See Also
    --------
    IdentityRecalibrator : Leaves the probabilities unchanged.
    LabelShiftRecalibrator : Adapts them to new frequencies of the classes.

    Examples
    --------
    >>> from skcalib.recalibration import LabelFrequency
    >>> LabelFrequency().fit([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 0]).frequencies_
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    def _fit_map(self, samples):
        target, weight = samples.target, samples.weight
        top = samples.forecast.argmax(axis=1)
        overall = weight @ target / weight.sum()
        rows = []
        for k in range(target.shape[1]):
            w = weight * (top == k)
            rows.append(w @ target / w.sum() if w.any() else overall)
        self.frequencies_ = np.array(rows)
        self.injective_ = self.preserves_order_ = False
        kept = self.frequencies_.argmax(axis=1) == np.arange(len(rows))
        self.preserves_argmax_ = bool(kept.all())

    def _apply_map(self, forecast):
        return self.frequencies_[forecast.argmax(axis=1)]

    def _write_map(self, add, x):
        return add("matrix", add("top", x, tolerance=0.0), coef=self.frequencies_)


class LabelNoiseScaling(FittedFromSketch):
    r"""Mixture with the uniform distribution: :math:`s \mapsto (1 - t)\, s + t / K`.

    This is the map of symmetric label noise: if a label is replaced, with probability t, by one
    drawn uniformly from all K classes, forecasts that were calibrated for the original labels need
    this map. It moves certain forecasts most, where a temperature hardly changes them: the
    probability of a class is at least t / K, and at most 1 - t (K - 1) / K. It is injective and
    keeps the order of the classes.

    The rate t minimises the loss on [0, n / (n + 1)], so the forecast keeps the weight of at least
    one of n + 1 samples. The log loss and the Brier score are convex in t. A rate below 0 would
    give negative probabilities to forecasts close to 0, so forecasts that are not certain enough
    are left unchanged: use `TemperatureScaling`.

    Cost: O(n K) for each of about ten evaluations of the loss.

    Attributes
    ----------
    noise_rate_ : float
        Share t of labels that are replaced. A share t (K - 1) / K of all labels is then wrong.

    See Also
    --------
    skcalib.recalibration.EnsembleTemperatureScaling : With a tempered forecast as a third
    component.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.recalibration import LabelNoiseScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(20_000, 4, random_state=0)
    >>> rng = np.random.default_rng(0)
    >>> noisy = rng.random(20_000) < 0.2
    >>> y = np.where(noisy, rng.integers(0, 4, 20_000), data.y)
    >>> round(LabelNoiseScaling().fit(data.posterior, y).noise_rate_, 1)
    0.2
    """

    def _fit_map(self, samples):
        score, target, forecast = samples.score, samples.target, samples.forecast
        share = samples.weight / samples.weight.sum()
        step = 1 / forecast.shape[1] - forecast

        def slope(rate):
            gradient = score.loss_gradient(target, forecast + rate * step)
            return float(share @ np.einsum("ik,ik->i", gradient, step))

        n_samples = number_of_samples(samples.weight, samples.count)
        rates = [0.0, n_samples / (n_samples + 1)]
        slopes = slope(_LEAST), slope(rates[1])
        if slopes[0] < 0 < slopes[1]:
            rates.append(brentq(slope, _LEAST, rates[1], xtol=1e-14))
        losses = [samples.mean_loss(self._mixed(forecast, rate)) for rate in rates]
        best = int(np.argmin(losses))
        self.noise_rate_ = rates[best]
        self.injective_ = self.preserves_argmax_ = self.preserves_order_ = True
        return losses[0], losses[best]

    @staticmethod
    def _mixed(forecast, rate):
        return (1 - rate) * forecast + rate / forecast.shape[1]

    def _apply_map(self, forecast):
        return self._mixed(forecast, self.noise_rate_)

    def _write_map(self, add, x):
        rate = self.noise_rate_
        return add("scale", x, factor=1 - rate, shift=rate / len(self.classes_))


class ModelAverageScaling(FittedFromSketch):  # numpydoc ignore=PR02
    r"""Average of recalibration maps, weighted by their evidence.

    This is the map of the default calibration error (:func:`~skcalib.proper_calibration_error`).
    Nested models of slopes, shifts, slopes of single classes and curves of the logits are fitted by
    penalised maximum likelihood. The map is :math:`s \mapsto \sum_m a_m\, m(s)` with weights a from
    the log evidence of each model m; :ref:`averaged_maps` has the formulas. The identity is one of
    the models, so the map is close to it where the data show no miscalibration. There are no folds
    and no parameters to choose.

    With more than two classes and fewer than 20 samples for each, there are no maps of single
    classes.

    The map may fall within the forecasts that it was fitted to. Beyond them curves are constant. If
    a model has a cubic curve there, or a negative slope, the logits continue as a line that does
    not fall (:ref:`beyond_the_scores`).

    Attributes
    ----------
    evidence_ : dict
        Weight of the models with a "shift", a "slope", "class_slopes" (different slopes of the
        classes), a "curve" and "confusion" (shifts that depend on the predicted class), each in
        [0, 1]. A model may have several of them.
    identity_weight_ : float
        Weight of the identity.

    See Also
    --------
    TemperatureScaling : The simplest of the averaged maps.
    RecalibratorSelection : Chooses one map in place of an average.

    Examples
    --------
    >>> from skcalib.recalibration import ModelAverageScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(5000, 3, random_state=0)
    >>> scaling = ModelAverageScaling().fit(data.y_proba, data.y)
    >>> {name: round(weight, 1) for name, weight in scaling.evidence_.items()}
    {'shift': 0.0, 'slope': 1.0, 'class_slopes': 0.0, 'curve': 0.0, 'confusion': 0.0}
    """

    def _fit_map(self, samples):
        data = samples.forecast, samples.target, samples.weight, samples.square
        self._take(averaged_map(*data))
        if not self._map.continues:
            rows = samples.forecast, samples.weight, samples.count
            self._ends = Continuation.of_forecasts(self._map, *rows)

    def _fit_without_each(self, samples, folds, whole=None):
        if samples.labels.ndim == 2:  # label distributions vary less than the step assumes
            return None
        counts = np.bincount(samples.labels, minlength=len(self.classes_))
        if not one_step_is_enough(counts, samples.weight, folds):
            return None
        if whole is None:
            whole = ModelAverage().fit(samples.forecast, samples.target, samples.weight)
        found = []
        for test in folds:
            average = AverageWithout(whole, test)
            if not average.accurate:
                return None
            found.append(copy(self))
            found[-1]._take(average.map)
        return found

    def _take(self, averaged):
        """Set the attributes of a fit."""
        self._map, self._ends = averaged, None
        self.evidence_, self.identity_weight_ = averaged.evidence, averaged.identity
        # Every mean has curves, which may fall.
        self.injective_ = self.preserves_order_ = self.preserves_argmax_ = False

    def _apply_map(self, forecast):
        return self._map(forecast) if self._ends is None else self._ends(self._map, forecast)

    def _write_map(self, add, x):
        write = partial(self._write_average, add)
        return write(x) if self._ends is None else self._ends.write_forecasts(add, write, x)

    def _write_average(self, add, x):
        models = [add("scale", x, factor=self._map.identity)]
        for share, groups, theta in self._map.parts:
            model = add.part(self._map.basis, x, groups, theta)
            models.append(add("scale", model, factor=share))
        return add("sum", *models)
