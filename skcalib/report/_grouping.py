"""The grouping loss of a report: trees, and a model of all features as a second look."""

from dataclasses import replace

import numpy as np

from skcalib.grouping import GroupingLossEstimator
from skcalib.grouping._table import Region
from skcalib.intervals import MeanInterval, clopper_pearson
from skcalib.notions import Canonical, TopLabel
from skcalib.report._features import encode_features, plain_rule
from skcalib.report._run import noted
from skcalib.report.findings import GroupingFinding, SecondLook
from skcalib.responses import take_rows

#: Regions that a report names at the most.
N_REGIONS = 3
#: Rows of the second look at the most.
MOST_ROWS = 20_000


def find_grouping(problem, features, refinement, level, random_state, n_jobs=None):
    """Grouping loss of the confidence, and the fitted split whose worst regions are named."""
    common = {
        "notion": "canonical" if problem.forecast.shape[1] == 2 else "top_label",
        "labels": problem.classes,
        "confidence_level": level,
        "n_jobs": n_jobs,
        "random_state": random_state,
    }
    y = problem.classes[problem.target.argmax(axis=1)]
    data = {"sample_weight": problem.weight, "y_proba": problem.forecast}
    n_permutations = int(np.clip(20_000_000 // len(y), 200, 999))
    features, encoded = encode_features(features)
    try:
        with noted() as notes:
            found = GroupingLossEstimator(swap=True, n_permutations=n_permutations, **common).fit(
                features, y, **data
            )
            named = GroupingLossEstimator(
                partitioner="stump", n_bins=5, n_permutations=0, **common
            ).fit(features, y, **data)
    except ValueError as error:  # features that cannot be cut: the rest of the report stands
        return GroupingFinding(note=str(error)), None
    named.regions_ = [replace(one, rule=plain_rule(one.rule, encoded)) for one in named.regions_]
    finding = GroupingFinding(
        grouping_loss=_bound(found),
        pvalue=found.pvalue_,
        second=_second_look(problem, features, y, common),
        categories=_categories(problem, features, encoded, level),
        regions=tuple(region for region in named.regions_ if region.direction)[:N_REGIONS],
        note=" ".join(notes),
    )
    return replace(finding, rest=_rest(refinement, finding.bound)), named


def _second_look(problem, features, y, common):
    """The bound by a model of score and features; None where it needs more samples."""
    rows = np.arange(len(y))
    if len(y) > MOST_ROWS:
        rng = np.random.RandomState(common["random_state"])
        rows = np.sort(rng.choice(len(y), MOST_ROWS, replace=False))
    try:
        with noted():
            found = GroupingLossEstimator(method="risk", **common).fit(
                take_rows(features, rows),
                y[rows],
                sample_weight=problem.weight[rows],
                y_proba=problem.forecast[rows],
            )
    except ValueError:  # a few samples, or values that boosting refuses
        return None
    if not np.isfinite(found.pvalue_):
        return None
    return SecondLook(_bound(found), float(found.pvalue_), len(rows))


def _categories(problem, features, encoded, level):
    """Categories whose interval does not hold the mean score; a balanced split passes rare ones."""
    notion = Canonical() if problem.forecast.shape[1] == 2 else TopLabel()
    forecast, target = (
        part[:, 1] for part in next(iter(notion.problems(problem.forecast, problem.target)))
    )
    found = []
    for name in encoded:
        rows = np.asarray(features[name]) > 0
        if not rows.any():
            continue
        weight = problem.weight[rows]
        size = weight.sum() ** 2 / np.sum(weight**2)
        score, outcome = (np.average(part[rows], weights=weight) for part in (forecast, target))
        low, high = clopper_pearson(outcome, size, 1 - (1 - level) / len(encoded))
        share = weight.sum() / problem.weight.sum()
        noise = outcome * (1 - outcome) / max(size - 1, 1)
        numbers = (share, score, outcome, low, high, score - outcome)
        harm = share * ((score - outcome) ** 2 - noise)
        found.append(
            Region("", 0, 0, name, int(rows.sum()), *map(float, numbers), harm=float(harm))
        )
    found = [one for one in found if one.direction]
    return tuple(sorted(found, key=lambda one: -one.harm)[:N_REGIONS])


def _bound(found):
    low, high = found.confidence_interval_
    return MeanInterval(found.grouping_loss_, low, high, found.standard_error_)


def _rest(refinement, bound):
    """What calibration and grouping leave of the loss.

    Standard errors of two estimates add at the most; how these two move together is not known.
    """
    rest = refinement.estimate - bound.estimate
    error = refinement.standard_error + bound.standard_error
    reach = refinement.high - refinement.estimate + bound.high - bound.estimate
    return MeanInterval(rest, rest - reach, rest + reach, error)
