"""Groups in a report: who differs at equal scores, and lower bounds of the grouping loss."""

from dataclasses import dataclass, replace

import numpy as np

from skcalib.estimators._response import take_rows
from skcalib.grouping import GroupingLossEstimator
from skcalib.grouping._candidates import encode_features, plain_rule
from skcalib.grouping.equal_scores import compare_groups, feature_names
from skcalib.grouping.partition import check_features
from skcalib.inference import MeanInterval
from skcalib.report._run import noted

#: Rows of the bound by a model, at most.
MOST_ROWS = 20_000
#: Level sets of the figure.
N_LEVEL_SETS = 5
_LEVEL = 0.05  # of the tests


@dataclass(frozen=True)
class ModelBound:
    """Grouping loss by a cross-fitted model of score and features, on ``n_samples`` of them."""

    grouping_loss: MeanInterval
    pvalue: float
    n_samples: int

    @property
    def detected(self):
        """True where the interval lies above zero and the test rejects."""
        return self.grouping_loss.low > 0 and self.pvalue < _LEVEL


@dataclass(frozen=True)
class GroupingFinding:
    """Groups and grouping loss of the event (with more than two classes: of the confidence).

    ``named`` are the groups that differ from others with equal scores (`GroupDifference`, the most
    harmful first, false discovery rate below .05 over the ``n_tried`` groups tested). They do not
    depend on the lower bounds of the grouping loss: ``grouping_loss`` and ``pvalue`` are by trees,
    ``model`` is by a model of all features. A lower bound that is not above zero means that no
    grouping loss was detected. ``rest`` is what calibration and `bound` leave of the Brier score,
    with an interval that is too wide rather than too narrow. ``note`` says why a number is missing
    or weak.
    """

    grouping_loss: MeanInterval | None = None
    rest: MeanInterval | None = None
    pvalue: float | None = None
    model: ModelBound | None = None
    named: tuple = ()
    n_tried: int = 0
    note: str = ""

    @property
    def by_trees(self):
        """True where the interval of the trees lies above zero and their test rejects."""
        there = self.grouping_loss is not None
        return there and self.grouping_loss.low > 0 and self.pvalue < _LEVEL

    @property
    def detected(self):
        """True where the bound by trees, or by a model, is significant."""
        return self.by_trees or (self.model is not None and self.model.detected)

    @property
    def bound(self):
        """The lower bound to tell: of the trees, or of the model where only that is significant."""
        only_model = self.detected and not self.by_trees
        return self.model.grouping_loss if only_model else self.grouping_loss


def find_grouping(problem, features, refinement, level, random_state, n_jobs=None):
    """Groups that differ at equal scores, and lower bounds of the grouping loss.

    Parameters
    ----------
    problem : Problem
        Validated forecasts. The event of two classes is the last one.
    features : array-like of shape (n_samples, n_features)
        Numbers, and in data frames categories.
    refinement : MeanInterval
        Refinement of the Brier score of the same event.
    level : float
        Confidence level.
    random_state : int
        Seed.
    n_jobs : int, default=None
        Jobs.

    Returns
    -------
    finding : GroupingFinding
        Only a note where the features cannot be used.
    split : GroupingLossEstimator or None
        Regions for `GroupingDisplay`: the most harmful named group against all others, and a
        balanced split of each level set where no group is named.
    """
    features, encoded = encode_features(features)
    try:
        values = check_features(features, allow_nan=True)
    except ValueError as error:  # the rest of the report stands
        return GroupingFinding(note=str(error)), None
    names = feature_names(features, values.shape[1])
    compared, rows, members = compare_groups(
        problem, values, names, encoded, confidence_level=level, random_state=random_state
    )
    notes = [compared.note] if compared.note else []
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
    finding = GroupingFinding(named=compared.named, n_tried=compared.n_tried)
    try:
        with noted() as warned:
            found = GroupingLossEstimator(swap=True, n_permutations=n_permutations, **common).fit(
                values, y, **data
            )
    except ValueError as error:  # too few samples
        return replace(finding, note=" ".join([*notes, str(error)])), None
    finding = replace(
        finding,
        grouping_loss=_bound(found),
        pvalue=found.pvalue_,
        model=_model_bound(problem, values, y, common),
        note=" ".join([*notes, *warned]),
    )
    finding = replace(finding, rest=_rest(refinement, finding.bound))
    if compared.named:
        split = _named_split(problem, y, rows, members[0], compared.named[0].rule, common)
    else:
        split = _balanced_split(features, y, data, encoded, common)
    return finding, split


def _named_split(problem, y, rows, member, rule, common):
    """Regions of one named group and of all others, on the samples that were compared."""
    estimator = GroupingLossEstimator(
        partitioner="stump", n_bins=N_LEVEL_SETS, n_permutations=0, **common
    )
    try:
        with noted():
            estimator.fit(
                np.zeros((len(rows), 1)),
                y[rows],
                sample_weight=problem.weight[rows],
                y_proba=problem.forecast[rows],
                regions=np.where(member, rule, "others"),
            )
    except ValueError:  # a group too small to be cut into level sets
        return None
    estimator.regions_ = [
        replace(one, rule=one.rule.removeprefix("region ")) for one in estimator.regions_
    ]
    return estimator


def _balanced_split(features, y, data, encoded, common):
    """Two regions of each level set, learned on one half and measured on the other."""
    estimator = GroupingLossEstimator(
        partitioner="stump", n_bins=N_LEVEL_SETS, n_permutations=0, **common
    )
    try:
        with noted():
            estimator.fit(features, y, **data)
    except ValueError:
        return None
    estimator.regions_ = [
        replace(one, rule=plain_rule(one.rule, encoded)) for one in estimator.regions_
    ]
    return estimator


def _model_bound(problem, values, y, common):
    """The bound by a model of score and features; None where it needs more samples."""
    rows = np.arange(len(y))
    if len(y) > MOST_ROWS:
        rng = np.random.RandomState(common["random_state"])
        rows = np.sort(rng.choice(len(y), MOST_ROWS, replace=False))
    try:
        with noted():
            found = GroupingLossEstimator(method="risk", **common).fit(
                take_rows(values, rows),
                y[rows],
                sample_weight=problem.weight[rows],
                y_proba=problem.forecast[rows],
            )
    except ValueError:  # a few samples, or values that boosting refuses
        return None
    if not np.isfinite(found.pvalue_):
        return None
    return ModelBound(_bound(found), float(found.pvalue_), len(rows))


def _bound(found):
    low, high = found.confidence_interval_
    return MeanInterval(found.grouping_loss_, low, high, found.standard_error_)


def _rest(refinement, bound):
    """What calibration and grouping leave of the loss; a bound below zero takes nothing off.

    Standard errors of two estimates add at most; how these two move together is not known.
    """
    taken, high = max(bound.estimate, 0.0), max(bound.high, 0.0)
    rest = refinement.estimate - taken
    reach = refinement.high - refinement.estimate + high - taken
    error = refinement.standard_error + bound.standard_error
    return MeanInterval(rest, rest - reach, rest + reach, error)
