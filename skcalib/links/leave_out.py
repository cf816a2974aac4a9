r"""Maps without some of the samples, by one Newton step from the fit to all of them.

Cross-validation fits a map once for each fold. With many samples these fits differ little from the
fit to all samples. Let G be the gradient of the log likelihood of all samples at the parameters of
that fit, and I its information; let :math:`G_t` and :math:`I_t` be those of a test fold alone.
Without the fold the parameters are

.. math:: \theta_{-t} = \theta + \delta, \qquad
    \delta = (c (I - I_t) + P)^{-1} (c (G - G_t) - P \theta),

with the precision P of the parameters (here for a prior mean of 0) and the factor c that makes the
weights of the other samples sum to their number. The log likelihood has the same expansion of
second order. So one pass over the samples gives the fits of all folds. What remains is of third
order in :math:`\delta`, which is about half of a standard error of the parameters for a fifth of
the samples. The parameters depend on the held-out samples only by this remainder. The expansion is
checked at the held-out samples, whose likelihood is known at both ends of the step. Where it fails,
as it may for forecasts that are nearly all certain, each fold needs a fit of its own. The same
holds where the score of a fold is unusual for random samples, as for groups that differ, or for
sorted data.

`AverageWithout` is for averaged maps, `affine_fit` for affine maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skcalib.data.clusters import effective_size
from skcalib.links.affine import (
    Sums,
    affine_step,
    affine_sums,
    best_strength,
    fit_by_evidence,
    minimise_affine,
)
from skcalib.links.averaging import (
    PER_CLASS,
    PRIOR,
    Model,
    ModelAverage,
    fit_of_block,
    identity_model,
    tree_of,
)
from skcalib.links.basis import CONFUSION, Directions

if TYPE_CHECKING:
    from skcalib.links.affine import Affine

_FEWEST, _PER_CLASS = 5_000, 150  # samples from which one step is enough: all, and times classes
_LARGEST = 0.3  # largest share of a fold; two of them may be left out together
_TOLERANCE = 1e-3  # of the log likelihood: a Newton step then gives twice as many digits
_MAX_VALUES = 100  # passes over the samples for one strength
#: Largest remainder of an expansion: share of its term of second order, and log likelihood.
_REMAINDER, _NEGLIGIBLE = 0.1, 0.01
_SPREAD = 4.0  # standard deviations above the mean up to which a score is usual
_STRONGEST = 1e6  # finite strength, in samples
_FLAT = 1e-9  # of the largest eigenvalue of an information


def one_step_is_enough(counts: np.ndarray, weight: np.ndarray, folds: Sequence[np.ndarray]) -> bool:
    """Whether one step is accurate: it cannot follow a class that disappears."""
    size = effective_size(weight)
    enough = size >= max(_FEWEST, _PER_CLASS * len(counts)) and counts.min() >= PER_CLASS
    largest = max(weight[test].sum() for test in folds)
    return bool(enough and largest <= _LARGEST * weight.sum())


class AverageWithout(ModelAverage):
    """The average of maps, as `whole`, without the samples of the numbers `left_out`.

    The directions are those of all forecasts, without labels. Models that a score test on all
    samples excludes are not considered. ``accurate`` says whether the expansion holds for all
    models of positive weight, and the samples are like the others.
    """

    def __init__(self, whole: ModelAverage, left_out: np.ndarray) -> None:
        self.basis, self.dispersion = whole.basis, whole.dispersion
        remains = np.ones(len(whole.weight), dtype=bool)
        remains[left_out] = False
        weight = whole.weight[remains]
        self.size = float(weight.sum() ** 2 / (weight @ whole.unit[remains]))
        self._factor = self.size / (self.dispersion * weight.sum())
        self._share = 1 - float(weight.sum() / whole.weight.sum())
        # The rows of the sums are those that are left out.
        self.forecast, self.label = whole.forecast[left_out], whole.label[left_out]
        self.weight, self.unit = whole.weight[left_out], whole.unit[left_out]
        every = Directions(self.basis, self.forecast)
        self.directions = every.of(whole.directions.names)
        pairs = tree_of(self.basis)[0]
        parents = {frozenset(groups): frozenset(parent) for groups, parent in pairs}
        identity = identity_model(np.exp(self.basis.log_proba(self.forecast)))
        self._base = self._log_likelihood(identity.proba)
        fitted, self._expansions, self._usual = {frozenset(): identity}, {}, {}
        for model in whole.models:
            key = frozenset(model.groups)
            parent = parents.get(key, key - CONFUSION)
            fitted[key] = self._without(model, fitted[parent], left_out)
        self._weigh(fitted, self._factor * (weight @ whole.exact[remains]))
        weighted = (*whole.weighted_models, *self.weighted_models)
        needed = {model.groups for _, model in weighted}
        self.accurate = all(self._follows(model) for model in self.models if model.groups in needed)

    def _without(self, model, parent, left_out):
        """A model of all samples -> the model without the rows, with its evidence."""
        proba, n = model.proba[left_out], len(model.theta)
        gradient, held_out_information = self.score_sums(proba, self.directions.of(model.groups))
        # The gradient of all samples balances the prior.
        ascent = self._factor * (PRIOR.precision * model.theta - gradient)
        of_all = np.linalg.inv(model.covariance) - PRIOR.precision * np.eye(n)
        information = self._factor * (of_all - held_out_information)
        hessian = information + PRIOR.precision * np.eye(n)
        step = np.linalg.solve(hessian, ascent - PRIOR.precision * model.theta)
        held_out = self._log_likelihood(proba)
        half_square = 0.5 * step @ held_out_information @ step
        self._expansions[model.groups] = held_out + gradient @ step - half_square, half_square
        self._usual[model.groups] = is_usual(gradient, of_all, self._share)
        gain = model.gain - (held_out - self._base)
        gain = self._factor * gain + ascent @ step - 0.5 * step @ information @ step
        added_gain = gain - parent.gain
        evidence = (
            parent.evidence + added_gain - PRIOR.cost(added_gain, n - len(parent.theta), self.size)
        )
        if set(model.groups) >= CONFUSION:
            evidence -= PRIOR.confusion
        theta, covariance = model.theta + step, np.linalg.inv(hessian)
        return Model(model.groups, theta, gain, evidence, proba, covariance)

    def _follows(self, model):
        """Whether the left-out samples are like the others, and the expansion holds at them."""
        if not self._usual[model.groups]:
            return False
        actual = sum(
            fit_of_block(block, model.theta, self.label[rows], self.weight[rows])[0]
            for rows, block in self.directions.of(model.groups)
        )
        return expansion_holds(actual, *self._expansions[model.groups])


def expansion_holds(actual: float, expected: float, half_square: float) -> bool:
    """Whether a log likelihood equals its expansion of second order, but for a small remainder.

    `half_square` is the absolute value of the term of second order.
    """
    return abs(actual - expected) <= _REMAINDER * half_square + _NEGLIGIBLE


def is_usual(
    excess: np.ndarray, information: np.ndarray, share: float, inflation: float = 1.0
) -> bool:
    r"""Whether the score of some samples is usual for samples that are drawn at random.

    Let u (`excess`) be the score of a share s of the samples minus the same share of the score of
    all, and I the information of all samples, which may be singular. Then :math:`u^\top I^{-1} u /
    (s (1 - s))` has about a chi-squared distribution for a random share, and must not exceed its
    mean by much more than four standard deviations. `inflation` is the factor of the variance by
    weights that are not equal.
    """
    values, vectors = np.linalg.eigh(information)
    informative = values > _FLAT * values[-1]
    n_values = int(informative.sum())
    size = np.sum((excess @ vectors[:, informative]) ** 2 / values[informative]) / (
        share * (1 - share)
    )
    return bool(size <= inflation * (n_values + _SPREAD * (np.sqrt(2 * n_values) + 1)))


class AffineFit(NamedTuple):
    """An affine map under the log loss, fitted to all samples, and without parts of them.

    `sums` are those of `affine_sums` of each part at `theta`, `total` their sum; `sizes` and
    `masses` are the numbers of samples and the sums of weights of the parts, whose mean is one,
    and `squares` is the sum of all squared weights.
    """

    link: Affine
    theta: np.ndarray
    shrinkage: float
    sums: list[Sums]
    total: Sums
    sizes: np.ndarray
    masses: np.ndarray
    squares: float

    def without(self, left_out: Sequence[int], *, chosen: bool = False) -> tuple[float, np.ndarray]:
        """Strength and parameters without some parts, by one Newton step.

        With `chosen` the strength has the highest evidence without them.
        """
        size, remaining = self.sizes.sum(), np.delete(np.arange(len(self.sizes)), left_out)
        factor = self.sizes[remaining].sum() / self.masses[remaining].sum()
        held_out = _total([self.sums[k] for k in left_out])
        sums: Any = [
            factor * (of_all - of_parts)
            for of_all, of_parts in zip(self.total, held_out, strict=True)
        ]
        share, strength = self.masses.sum() / self.squares, self.shrinkage
        if chosen:
            strength, _ = best_strength(self.link, self.theta, sums, share)
            if np.isfinite(self.shrinkage):
                strength = min(strength, _STRONGEST)  # which is nearly temperature scaling
        step = affine_step(self.link, self.theta, sums, shrinkage=strength, size=size)
        return strength, step

    def follows(self, theta: np.ndarray, part: int, actual: float) -> bool:
        """Whether the sum of weighted losses of a part at `theta` follows its expansion."""
        (loss, gradient, hessian), step = self.sums[part], theta - self.theta
        half_square = 0.5 * step @ hessian @ step
        return expansion_holds(actual, loss + gradient @ step + half_square, half_square)

    def is_usual(self, part: int) -> bool:
        """Whether the score of a part is usual for samples drawn at random."""
        (_, score, _), (_, gradient, hessian) = self.sums[part], self.total
        share, inflation = self.masses[part] / self.masses.sum(), self.squares / self.masses.sum()
        return is_usual(score - share * gradient, hessian, share, inflation)


def affine_fit(
    link: Affine,
    parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
    start: np.ndarray,
    strength: float | None = None,
) -> AffineFit:
    """An affine map under the log loss, fitted to all samples, by default of highest evidence.

    `parts` are logits, targets (m, K) and weights (m,) of parts, which are all samples together,
    with weights of mean one; `start` are the parameters of temperature scaling.
    """
    sizes, masses = np.array([(len(weight), weight.sum()) for *_, weight in parts]).T
    squares = float(sum(weight @ weight for *_, weight in parts))
    size, last = sizes.sum(), {}

    def sums(theta):
        last.clear()
        last[theta.tobytes()] = [affine_sums(link, *part, theta) for part in parts]
        return _total(last[theta.tobytes()])

    theta, total = start, None
    if strength is None:
        share = masses.sum() / squares
        strength, theta, total = fit_by_evidence(link, sums, start, size=size, share=share)
    if np.isfinite(strength):
        run: Any = {"tolerance": _TOLERANCE, "max_values": _MAX_VALUES, "known": total}
        theta = minimise_affine(link, sums, theta, shrinkage=strength, size=size, **run).parameters
    if theta.tobytes() not in last:  # the last step did not lower the loss
        sums(theta)
    part_sums = last[theta.tobytes()]
    return AffineFit(link, theta, strength, part_sums, _total(part_sums), sizes, masses, squares)


def _total(sums):
    value, gradient, hessian = zip(*sums, strict=True)
    return sum(value), sum(gradient), sum(hessian)
