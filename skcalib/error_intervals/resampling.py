"""Intervals of any metric: jackknife, subsampling and bootstrap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.parallel import draw_batches, draw_each
from skcalib.data.clusters import in_order
from skcalib.data.labels import draw_codes
from skcalib.error_intervals.proper import estimate_proper_error
from skcalib.stats.pvalues import monte_carlo_pvalue

if TYPE_CHECKING:
    from skcalib.data.problem import Problem
    from skcalib.error_intervals.question import ErrorInterval, Question

GROUPS = 20  # of the jackknife, at most
_BATCH = 10  # draws of labels after which their test is decided or goes on
#: Biases of more standard errors than this affect coverage.
_LARGEST_BIAS = 0.5
_BIASED = (
    "the metric is biased by about {:.1f} standard errors at this sample size, like all metrics "
    "with a kink or a square near a calibrated forecast, so {} does not reach its level"
)
_NAIVE = (
    "resamples repeat samples, which inflates binned errors and reveals the held-out label to "
    "held-out estimates: the interval is for comparison only"
)
METRIC = "the value of the metric for large samples"


def jackknife(question: Question, *, at_zero: bool = False, target: str = METRIC) -> ErrorInterval:
    """Leave out each of at most twenty random groups; Student's limits with their number.

    With ``at_zero``, for metrics that are 0 for calibrated forecasts and positive for others, the
    lower limit is 0 unless the exact test with labels drawn from the forecasts rejects. Labels in
    clusters are not drawn; there it is 0 unless the interval of the Brier calibration error lies
    above 0.
    """
    problem, value = question.sample()
    units = _Units(problem)
    n_groups = min(GROUPS, units.number // 2)
    if n_groups < 2:
        raise ValueError(
            f"A jackknife needs at least 4 {units.name} of positive weight, got {units.number}."
        )
    place = units.permutation(question.rng)
    groups = [np.flatnonzero(place % n_groups != j) for j in range(n_groups)]
    parts = ((rows, None, units.clusters_of(rows)) for rows in groups)
    left = np.array(Parallel(n_jobs=question.n_jobs)(delayed(value)(*part) for part in parts))
    error = float(np.sqrt((n_groups - 1) * left.var()))
    bias = (n_groups - 1) * (left.mean() - question.estimate)
    reach = float(student.isf((1 - question.confidence_level) / 2, n_groups - 1)) * error
    low, high = question.estimate - reach, question.estimate + reach
    flags: dict[str, Any] = {"method": "jackknife", "target": target}
    if at_zero:
        if low > 0 and not _rejects_calibration(question, problem, value):
            low = 0.0
        flags["method"] = "jackknife, test of calibration"
        return question.answer(low, high, error, **flags)
    return question.answer(low, high, error, floor=-np.inf, **flags, **_bias(bias, error, "it"))


def subsampling(question: Question) -> ErrorInterval:
    """Politis and Romano: the rescaled distribution of the metric over subsets of n^(2/3)."""
    problem, value = question.sample()
    units = _Units(problem)
    n_samples = units.number
    size = round(n_samples ** (2 / 3))
    if n_samples < 8:
        raise ValueError(
            f"Subsampling needs at least 8 {units.name} of positive weight, got {n_samples}."
        )

    def draw(rng):
        return value(*units.sample(rng.choice(n_samples, size, replace=False)))

    draws = _draws(question, draw)
    # Without replacement: a subset is correlated with the full sample.
    scale = np.sqrt(size / n_samples / (1 - size / n_samples))
    law = scale * (draws - question.estimate)
    tail = (1 - question.confidence_level) / 2
    low, high = question.estimate - np.quantile(law, [1 - tail, tail])
    error = float(law.std())
    flags: dict[str, Any] = {"method": "subsampling", "target": METRIC, "floor": -np.inf}
    return question.answer(low, high, error, **flags, **_bias(law.mean(), error, "subsampling"))


def bootstrap(question: Question) -> ErrorInterval:
    """The percentile interval of resamples: never valid, for comparison."""
    problem, value = question.sample()
    units = _Units(problem)
    number = units.number
    draws = _draws(question, lambda rng: value(*units.sample(rng.randint(number, size=number))))
    tail = (1 - question.confidence_level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    flags: dict[str, Any] = {"method": "bootstrap", "target": METRIC, "floor": -np.inf}
    return question.answer(low, high, draws.std(), **flags, valid=False, reason=_NAIVE)


class _Units:
    """Samples or, where these depend on each other, clusters: what is left out and drawn."""

    def __init__(self, problem: Problem) -> None:
        self.name = "samples" if problem.cluster is None else "clusters"
        self.number, self._rows = len(problem.weight), None
        if problem.cluster is not None:
            distinct, self._cluster = np.unique(problem.cluster, return_inverse=True)
            self.number = len(distinct)
            ends = np.cumsum(np.bincount(self._cluster))[:-1]
            self._rows = np.split(np.argsort(self._cluster, kind="stable"), ends)

    def permutation(self, rng: np.random.RandomState) -> np.ndarray:
        """Place of the unit of each row in a random order (n,)."""
        place = np.argsort(rng.permutation(self.number))
        return place if self._rows is None else place[self._cluster]

    def clusters_of(self, rows: np.ndarray) -> np.ndarray | None:
        """Numbers of the clusters of some rows, from 0; None for samples."""
        return None if self._rows is None else in_order(self._cluster[rows])

    def sample(self, units: np.ndarray) -> tuple[np.ndarray, None, np.ndarray | None]:
        """Arguments of the metric of drawn units: rows, and clusters, of which none is another."""
        if self._rows is None:
            return units, None, None
        parts = [self._rows[k] for k in units]
        cluster = np.repeat(np.arange(len(parts)), [len(rows) for rows in parts])
        return np.concatenate(parts), None, cluster


def _bias(bias, error, name):
    if abs(bias) <= _LARGEST_BIAS * error:
        return {}
    size = abs(bias) / error if error > 0 else np.inf
    return {"valid": False, "reason": _BIASED.format(size, name)}


def _draws(question, draw):
    """Values of `draw` for the generators of a question."""
    return draw_each(draw, question.n_resamples, question.rng, n_jobs=question.n_jobs)


def _rejects_calibration(question, problem, value):
    """Whether the metric is significantly larger than with labels drawn from the forecasts.

    Draws end as soon as those to come cannot change the answer.
    """
    if problem.cluster is not None:
        notion = (question.options or {}).get("notion", "canonical")
        level = question.confidence_level
        found = estimate_proper_error(
            problem, loss="brier", notion=notion, confidence_level=level, n_jobs=question.n_jobs
        )
        return found.interval is not None and found.interval.low > 0
    levels, tail = problem.forecast.cumsum(axis=1), (1 - question.confidence_level) / 2

    def draw(rng):
        return value(slice(None), draw_codes(levels, rng))

    drawn, total = np.empty(0), question.n_resamples
    batches = draw_batches(draw, total, question.rng, size=_BATCH, n_jobs=question.n_jobs)
    for batch in batches:
        drawn = np.append(drawn, batch)
        rest = total - len(drawn)
        # The p-value of all draws, if those to come are as small or as large as possible.
        least, most = (
            monte_carlo_pvalue(question.estimate, np.append(drawn, np.full(rest, end)))
            for end in (-np.inf, np.inf)
        )
        if least > tail or most <= tail:
            break
    return most <= tail
