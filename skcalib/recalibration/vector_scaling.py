"""Vector scaling: a slope and a bias for each class.

Under the log loss Newton's method fits the map, also from chunks. With many samples one Newton step
leaves folds out, for the choice of the shrinkage and for the comparison of maps.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace
from itertools import combinations, islice
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcalib._labels import one_hot_rows
from skcalib._validation import mean_one
from skcalib.clusters import outside_level
from skcalib.inference import first_within_one_standard_error
from skcalib.links import LinkFit, VectorMap
from skcalib.links.affine import affine_sums, minimise_affine
from skcalib.links.leave_out import affine_path, one_step_is_enough
from skcalib.recalibration._base import warn_if_slow
from skcalib.recalibration._chunked import FittedFromChunks
from skcalib.recalibration.scaling import (
    LOOSE,
    STRENGTHS,
    LinkRecalibrator,
    ShrinkageSearch,
    held_out_loss,
    is_auto,
    past_minimum,
)
from skcalib.recalibration.temperature import fit_temperature_sums
from skcalib.scores import LogLoss
from skcalib.smoothers._base import check_folds

if TYPE_CHECKING:
    pass

_SLOW = 5_000_000  # probabilities from which the fit of vector scaling takes long
_REFINE = 10  # evaluations after which a fit is not refined further
_LOOSE_LIKELIHOOD = 1e-3  # tolerance of the log likelihood where strengths are compared
_MOST_FOLDS = 20  # of which all pairs are left out
_FEW_CLASSES = 50  # up to which a Hessian costs about as much as a gradient


class VectorScaling(FittedFromChunks, LinkRecalibrator):  # numpydoc ignore=PR02
    r"""Vector scaling: :math:`softmax(w \odot \log s + b)`, a slope and a bias for each class.

    Written as :math:`w = \beta + \delta`, with :math:`\delta` and b shrunk towards zero (structured
    shrinkage), so that few samples give temperature scaling. Injective where all slopes are of one
    sign; the order of the classes may change.

    Parameters
    ----------
    shrinkage : "auto" or float, default="auto"
        Strength of the shrinkage, in samples. "auto": five-fold cross-validation over
        (infinity, 1000, 300, 100, 30, 10, 3, 1, 0.3, 0.1), the strongest within one standard error
        of the best; infinity, which is temperature scaling, below ten samples. Under the log loss,
        with at most 50 classes, at least 5,000 samples and 150 K, and 20 labels of each class, one
        Newton step from the fit to all samples leaves a fold out. `fit_chunks` chooses it from
        20,000 to 40,000 samples.

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
    MatrixScaling : A full matrix in place of the scales.

    Notes
    -----
    Cost: about ten evaluations of the log loss of at most 50 classes with its Hessian, O(n K^2)
    each; else some hundred evaluations in O(n K). More than five million probabilities may take
    over ten seconds, and there is a warning before.

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

    def _fit_map(self, samples):
        others = "TemperatureScaling or BiasCorrectedTemperatureScaling"
        warn_if_slow("VectorScaling", samples.values.shape, _SLOW, others)
        self._fit_link(self._search(samples.score), samples)
        self._set_coefficients()

    def _search(self, score):
        return _NewtonSearch(VectorMap(), score, self.max_iter, self.tol)

    def _set_coefficients(self):
        deviation, self.intercept_ = np.split(self._theta[1:], 2)
        self.coef_ = self._theta[0] + deviation

    def _fit_without_each(self, samples, folds, whole=None):
        """As of the base class. For the strength of a fold two folds are left out at a time."""
        overlap = sum(map(len, folds)) > len(samples.labels)
        if not is_auto(self.shrinkage) or overlap or len(folds) > _MOST_FOLDS:
            return None
        search, weight = self._search(samples.score), samples.weight
        data = samples.forecast, samples.target, weight
        numbers = range(len(folds))
        pairs = [*combinations(numbers, 2)]
        fits, paths = [], [[] for _ in folds]
        others = [[(pair, sum(pair) - k) for pair in pairs if k in pair] for k in numbers]
        weights = [np.concatenate([weight[folds[k]] for _, k in keys]) for keys in others]
        for fit, losses in search.one_steps(*data, folds, pairs):
            fits.append(fit)
            for keys, path in zip(others, paths, strict=True):
                path.append(np.concatenate([losses[key] for key in keys]))
            means = ([own @ one for one in path] for own, path in zip(weights, paths, strict=True))
            if all(map(past_minimum, means)):
                break
        else:
            if len(fits) < len(STRENGTHS):
                return None
        found = [copy(self) for _ in folds]
        for k, (one, path) in enumerate(zip(found, paths, strict=True)):
            fit = fits[first_within_one_standard_error(np.array(path), weights[k])[0]]
            if not fit.is_usual(k):
                return None
            one.shrinkage_ = fit.shrinkage
            one._take(fit.link, LinkFit(fit.without([k]), len(fits), True, "one step"), 1.0)
            one._set_coefficients()
        return found

    def _fit_sums(self, samples):
        n_classes = len(self.classes_)
        link = VectorMap().prepare_from(samples.total(_sizes))
        beta, passes = fit_temperature_sums(samples)
        start = link.tempered(n_classes, beta)
        logits, columns, weight = samples.pilot
        pilot = (logits, one_hot_rows(columns, n_classes), weight)
        search = self._search(samples.score)
        self.shrinkage_ = search.strength(self.shrinkage, *pilot)
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


class _NewtonSearch(ShrinkageSearch):
    """Newton's method for the log loss; of many samples, one step leaves a fold out."""

    def fit(self, link, logits, target, weight, strength, start):
        """As of the base class; a quasi-Newton method first if Newton's does not converge."""
        data = logits, target, weight
        if not isinstance(self.score, LogLoss):
            return super().fit(link, *data, strength, start)
        if logits.shape[1] <= _FEW_CLASSES:
            steps = min(_REFINE, self.max_iter)
            found = _newton(link, data, start, shrinkage=strength, max_values=steps)
            if found.converged:
                return LinkFit(found.refined, found.n_iter, True, "Newton's method")
        fit = super().fit(link, *data, strength, start)
        if self.rounding == LOOSE or not fit.converged:
            return fit
        found = _newton(link, data, fit.theta, shrinkage=strength, max_values=_REFINE)
        return replace(fit, theta=found.refined, n_iter=fit.n_iter + found.n_iter)

    def losses_by_strength(self, logits, target, weight):
        """As of the base class; of many samples by one Newton step from the fit to all of them.

        From the first strength on where a step is not accurate, each fold has fits of its own.
        """
        folds, n_done = [test for _, test in check_folds(5, target, random_state=0)], 0
        each = [(k,) for k in range(len(folds))]
        for _, losses in self.one_steps(logits, target, weight, folds, each):
            held_out = np.empty(len(target))
            for (_, k), loss in losses.items():
                held_out[folds[k]] = loss
            n_done += 1
            yield held_out
        if n_done < len(STRENGTHS):
            yield from islice(super().losses_by_strength(logits, target, weight), n_done, None)

    def one_steps(self, logits, target, weight, folds, left_out):
        """Yield the fit to all samples with each strength, and losses without some folds.

        `left_out` are tuples of folds that are left out together, by one Newton step. The losses on
        each of these folds have the key (tuple, fold). They end where a step is not accurate.
        """
        few = not isinstance(self.score, LogLoss) or target.shape[1] > _FEW_CLASSES
        if few or not one_step_is_enough(target.sum(axis=0), weight, folds):
            return
        share = mean_one(weight)
        parts = [(logits[test], target[test], share[test]) for test in folds]
        link, start = self.path(logits, target, weight)
        for fit in affine_path(link, parts, start, STRENGTHS):
            losses = {}
            for left in left_out:
                theta = fit.without(left)
                for k in left:
                    loss = losses[left, k] = held_out_loss(self.score, link, theta, parts[k])
                    if not fit.follows(theta, k, parts[k][2] @ loss):
                        return
            yield fit, losses

    def step(self, link, start, strength, train, test):
        """As of the base class. Newton's method continues from the sums of the last fit."""
        theta, known = start if isinstance(start, tuple) else (start, None)
        newton = isinstance(self.score, LogLoss) and len(theta) <= 2 * _FEW_CLASSES + 1
        if newton and np.isfinite(strength):
            steps = min(_REFINE, self.max_iter)
            options = {"shrinkage": strength, "max_values": steps}
            found = _newton(link, train, theta, known, tolerance=_LOOSE_LIKELIHOOD, **options)
            if found.converged:
                loss = held_out_loss(self.score, link, found.refined, test)
                return (found.parameters, found.state), loss
        return super().step(link, theta, strength, train, test)


def _newton(link, data, start, known=None, **options):
    """`minimise_affine` for logits, targets and weights, from `known` sums at the start."""
    logits, target, weight = data
    rows = logits, target, mean_one(weight)
    run = {"size": len(logits), "known": known, **options}
    return minimise_affine(link, lambda theta: affine_sums(link, *rows, theta), start, **run)


def _sizes(logits, columns, weight):
    return VectorMap.size_sums(logits)


def _affine_sums_of_chunk(logits, columns, weight, link, theta):
    return affine_sums(link, logits, one_hot_rows(columns, logits.shape[1]), weight, theta)
