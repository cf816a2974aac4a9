"""Paired differences of models on the same samples."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from skcalib.inference import MeanInterval, mean_interval
from skcalib.notions import TopLabel
from skcalib.report._run import noted
from skcalib.report.analysis import LOSSES, paired_terms
from skcalib.report.comparison_wording import QUANTITIES, ROUNDING
from skcalib.significance import compare_calibration
from skcalib.smoothers import LogitSmoother


@dataclass(frozen=True)
class PairedDifference:
    """First model minus second, with an interval; negative where the first one is better."""

    quantity: str
    first: str
    second: str
    difference: MeanInterval

    @property
    def detected(self):
        """True where the interval excludes zero, by more than rounding."""
        found = self.difference
        return (found.low > 0 or found.high < 0) and abs(found.estimate) > ROUNDING

    @property
    def better(self):
        """The better model, or "" where the difference may be chance."""
        if not self.detected:
            return ""
        return self.first if self.difference.estimate < 0 else self.second


def find_differences(problems, level, random_state, n_jobs=None):
    """Problems by the names of their models -> all paired differences.

    Intervals are widened (Bonferroni) so that those of one quantity hold for all pairs at once.
    """
    pairs = list(combinations(problems, 2))
    level = 1 - (1 - level) / len(pairs)
    values = {name: _per_sample(p, random_state) for name, p in problems.items()}
    weight = next(iter(problems.values())).weight
    found = []
    for quantity in QUANTITIES:
        for first, second in pairs:
            if quantity == "kernel":
                difference = _kernel(problems, first, second, level, random_state, n_jobs)
            else:
                both = (values[name][quantity] for name in (first, second))
                difference = _paired(*both, weight, level)
            if difference is not None:
                found.append(PairedDifference(quantity, first, second, difference))
    return tuple(found)


def _per_sample(problem, random_state):
    """The terms of each quantity, sample by sample."""
    smoother = LogitSmoother(random_state=random_state)
    with noted():  # the report of each model says it
        found, _ = paired_terms(problem, LOSSES, "canonical", smoother, 0.95)
    brier, log = (terms for terms, _ in found)
    right = next(TopLabel().problems(problem.forecast, problem.target))[1][:, 1]
    return {
        "calibration": (brier.influence, brier.mean("calibration")),
        "brier": brier.loss,
        "log": log.loss,
        "refinement": brier.refinement,
        "errors": 1 - right,
    }


def _paired(first, second, weight, level):
    """Interval of a mean difference; two infinite losses have none.

    A pair (values, estimate) gives the spread and the centre.
    """
    estimate = None
    if isinstance(first, tuple):
        estimate = first[1] - second[1]
        first, second = first[0], second[0]
    if np.isinf(first).any() and np.isinf(second).any():
        return None
    return mean_interval(first - second, weight, level, estimate=estimate)


def _kernel(problems, first, second, level, random_state, n_jobs):
    """By blocks of samples in random order; in one order of the models, so that signs flip."""
    one, two = sorted((first, second))
    problem = problems[one]
    rows = np.random.RandomState(random_state).permutation(len(problem.weight))
    try:
        found = compare_calibration(
            problem.classes[problem.target[rows].argmax(axis=1)],
            problem.forecast[rows],
            problems[two].forecast[rows],
            confidence_level=level,
            sample_weight=problem.weight[rows],
            labels=problem.classes,
            n_jobs=n_jobs,
        )
    except ValueError:  # too few samples for blocks: the other quantities stand
        return None
    difference, low, high = found.difference, found.low, found.high
    if one != first:
        difference, low, high = -difference, -high, -low
    return MeanInterval(difference, low, high, found.standard_error)
