"""The average of recalibration maps by their evidence, as a recalibrator."""

from __future__ import annotations

from copy import copy

import numpy as np

from skcalib.links.averaging import ModelAverage, averaged_map
from skcalib.links.leave_out import AverageWithout, one_step_is_enough
from skcalib.recalibration._sketched import FittedFromSketch


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
    >>> from skcalib import ModelAverageScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(5000, 3, random_state=0)
    >>> scaling = ModelAverageScaling().fit(data.y_proba, data.y)
    >>> {name: round(weight, 1) for name, weight in scaling.evidence_.items()}
    {'shift': 0.0, 'slope': 1.0, 'class_slopes': 0.0, 'curve': 0.0, 'confusion': 0.0}
    """

    def _fit_map(self, samples):
        data = samples.forecast, samples.target, samples.weight, samples.square
        self._take(averaged_map(*data))

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
        self._map = averaged
        self.evidence_, self.identity_weight_ = averaged.evidence, averaged.identity
        # A mean of increasing maps is the gradient of a convex function, so it is injective.
        self.injective_ = self._map.increasing
        shifts = any("bias" in groups for _, groups, _ in self._map.parts)
        self.preserves_order_ = self.preserves_argmax_ = self.injective_ and not shifts

    def _apply_map(self, forecast):
        return self._map(forecast)

    def _write_map(self, add, x):
        models = [add("scale", x, factor=self._map.identity)]
        for share, groups, theta in self._map.parts:
            model = add.part(self._map.basis, x, groups, theta)
            models.append(add("scale", model, factor=share))
        return add("sum", *models)
