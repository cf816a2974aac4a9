"""Intervals of any metric, by computing it on parts of the sample or on resamples of it."""

from functools import partial

import numpy as np
from scipy.stats import norm as normal
from scipy.stats import t as student
from sklearn.utils.parallel import Parallel, delayed

from skcalib._parallel import draw_each
from skcalib._validation import draw_codes

GROUPS = 20  # of the jackknife, at most
#: Biases of more standard errors than this move a coverage.
_LARGEST_BIAS = 0.5
_BIASED = (
    "the metric is biased by about {:.1f} standard errors at this sample size, as metrics are that "
    "bend or are squared near a calibrated forecast, so that {} cannot reach its level"
)
_NAIVE = (
    "resamples repeat samples, which inflates errors of bins and shows held-out estimates the "
    "label that is held out: the interval is there for comparison only"
)
METRIC = "the value that the metric has for large samples"


def jackknife(question, *, at_zero=False, target=METRIC):
    """Leave out each of at most twenty random groups; Student's limits with their number.

    With ``at_zero``, for metrics that are 0 for calibrated forecasts and positive for others, the
    lower limit is 0 unless the exact test with labels drawn from the forecasts rejects.
    """
    problem, value = question.sample()
    n_samples = len(problem.weight)
    n_groups = min(GROUPS, n_samples // 2)
    if n_groups < 2:
        raise ValueError(f"A jackknife needs at least 4 samples that count, got {n_samples}.")
    order = question.rng.permutation(n_samples)
    groups = [np.sort(np.delete(order, np.s_[j::n_groups])) for j in range(n_groups)]
    left = np.array(Parallel(n_jobs=question.n_jobs)(delayed(value)(rows) for rows in groups))
    error = float(np.sqrt((n_groups - 1) * left.var()))
    bias = (n_groups - 1) * (left.mean() - question.estimate)
    reach = float(student.isf((1 - question.level) / 2, n_groups - 1)) * error
    low, high = question.estimate - reach, question.estimate + reach
    flags = {"method": "jackknife", "target": target}
    if at_zero:
        if low > 0 and not _rejects_calibration(question, problem, value):
            low = 0.0
        flags["method"] = "jackknife, test of calibration"
        return question.answer(low, high, error, **flags)
    return question.answer(low, high, error, floor=-np.inf, **flags, **_bias(bias, error, "it"))


def subsampling(question):
    """Politis and Romano: the law of the metric over subsets of n^(2/3) samples, rescaled."""
    problem, value = question.sample()
    n_samples = len(problem.weight)
    size = round(n_samples ** (2 / 3))
    if n_samples < 8:
        raise ValueError(f"Subsampling needs at least 8 samples that count, got {n_samples}.")
    draws = _draws(question, lambda rng: value(rng.choice(n_samples, size, replace=False)))
    # Without replacement: a subset is a part of the whole, and correlated with it.
    scale = np.sqrt(size / n_samples / (1 - size / n_samples))
    law = scale * (draws - question.estimate)
    tail = (1 - question.level) / 2
    low, high = question.estimate - np.quantile(law, [1 - tail, tail])
    error = float(law.std())
    flags = {"method": "subsampling", "target": METRIC, "floor": -np.inf}
    return question.answer(low, high, error, **flags, **_bias(law.mean(), error, "subsampling"))


def bootstrap(question):
    """The percentile interval of resamples: never valid, for comparison."""
    problem, value = question.sample()
    n_samples = len(problem.weight)
    draws = _draws(question, lambda rng: value(rng.randint(n_samples, size=n_samples)))
    tail = (1 - question.level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    flags = {"method": "bootstrap", "target": METRIC, "floor": -np.inf}
    return question.answer(low, high, draws.std(), **flags, valid=False, reason=_NAIVE)


def normal_limits(answer):
    """The interval of an answer by its standard error alone."""
    reach = float(normal.isf((1 - answer.confidence_level) / 2)) * answer.standard_error
    return answer.estimate - reach, answer.estimate + reach


def _bias(bias, error, name):
    if abs(bias) <= _LARGEST_BIAS * error:
        return {}
    size = abs(bias) / error if error > 0 else np.inf
    return {"valid": False, "reason": _BIASED.format(size, name)}


def _draws(question, draw):
    """Values of `draw` for the generators of a question."""
    return draw_each(draw, question.n_resamples, question.rng, n_jobs=question.n_jobs)


def calibrated_values(question, forecast, value):
    """Values of a function of labels (n,), codes that are drawn from the forecasts."""
    levels = forecast.cumsum(axis=1)
    return _draws(question, lambda rng: value(draw_codes(levels, rng)))


def _rejects_calibration(question, problem, value):
    """Is the metric larger than all but few of those of labels drawn from the forecasts?"""
    drawn = calibrated_values(question, problem.forecast, partial(value, slice(None)))
    as_large = np.sum(drawn >= question.estimate * (1 - 1e-12))
    return (1 + as_large) / (1 + len(drawn)) <= (1 - question.level) / 2
