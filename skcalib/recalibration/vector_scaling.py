"""Vector scaling: a slope and a bias for each class.

Under the log loss Newton's method fits the map, also from chunks.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcalib._labels import one_hot_rows
from skcalib.clusters import outside_level
from skcalib.links import LinkFit, VectorMap
from skcalib.links.affine import affine_sums, minimise_affine
from skcalib.recalibration._base import warn_if_slow
from skcalib.recalibration._chunked import FittedFromChunks
from skcalib.recalibration.scaling import AffineRecalibrator
from skcalib.recalibration.temperature import fit_temperature_sums

_SLOW = 5_000_000  # probabilities from which the fit of vector scaling takes long


class VectorScaling(FittedFromChunks, AffineRecalibrator):  # numpydoc ignore=PR02
    r"""Vector scaling: :math:`softmax(w \odot \log s + b)`, a slope and a bias for each class.

    Written as :math:`w = \beta + \delta`, with :math:`\delta` and b shrunk towards zero (structured
    shrinkage), so that few samples give temperature scaling. Injective where all slopes are of one
    sign; the order of the classes may change.

    Cost: about ten evaluations of the log loss with its Hessian, O(n K^2) each; with other losses,
    or more than 500 classes, hundreds of evaluations in O(n K). More than five million
    probabilities may take over ten seconds, and there is a warning before.

    Parameters
    ----------
    shrinkage : "auto" or float, default="auto"
        Strength of the shrinkage, in samples. "auto": that of the highest evidence under the log
        loss, else by cross-validation, as for `MatrixScaling`; infinity is temperature scaling.
        `fit_chunks` chooses it from 20,000 to 40,000 samples.

    Attributes
    ----------
    coef_ : array of shape (n_classes,)
        Slopes w.
    intercept_ : array of shape (n_classes,)
        Biases b.
    shrinkage_ : float
        The strength in use.
    n_iter_ : int
        Iterations of the last fit.

    See Also
    --------
    BiasCorrectedTemperatureScaling : One scale for all classes.

    Examples
    --------
    >>> from skcalib import VectorScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> scaling = VectorScaling().fit(data.y_proba, data.y)
    >>> scaling.coef_.shape, scaling.injective_
    ((3,), True)
    """

    _pilot = 20_000
    _needs_hessian = True

    _map = VectorMap

    def _fit_map(self, samples):
        others = "TemperatureScaling or BiasCorrectedTemperatureScaling"
        warn_if_slow("VectorScaling", samples.values.shape, _SLOW, others)
        super()._fit_map(samples)

    def _set_coefficients(self):
        deviation, self.intercept_ = np.split(self._theta[1:], 2)
        self.coef_ = self._theta[0] + deviation

    def _fit_sums(self, samples):
        n_classes = len(self.classes_)
        link = VectorMap().prepare_from(samples.total(_sizes))
        beta, passes = fit_temperature_sums(samples)
        start = link.tempered(n_classes, beta)
        logits, columns, weight = samples.pilot
        pilot = (logits, one_hot_rows(columns, n_classes), weight)
        search = self._search(samples.score)
        self.shrinkage_, _ = search.choose(self.shrinkage, *search.path(*pilot), *pilot)
        if np.isinf(self.shrinkage_):
            fit = LinkFit(start, passes, True, "temperature scaling")
        else:
            found = minimise_affine(
                link,
                lambda theta: samples.total(_affine_sums_of_chunk, link, theta),
                start,
                shrinkage=self.shrinkage_,
                size=samples.n_samples,
                max_values=samples.passes_left,
            )
            message = "18 passes over the chunks"
            fit = LinkFit(found.refined, found.n_iter, found.converged, message)
        self._take(link, fit, beta)
        self._set_coefficients()
        if fit.converged:
            self._warn(fit, samples.losses()[2], samples.counts, remedy="1")
            return
        warnings.warn(
            f"{type(self).__name__} stopped at {fit.message}, before its loss was minimal: the "
            "parameters are where the fit stopped, and finite, and no worse than temperature "
            "scaling on the calibration set. Raise shrinkage.",
            ConvergenceWarning,
            stacklevel=outside_level(),
        )


def _sizes(logits, columns, weight):
    return VectorMap.size_sums(logits)


def _affine_sums_of_chunk(logits, columns, weight, link, theta):
    return affine_sums(link, logits, one_hot_rows(columns, logits.shape[1]), weight, theta)
