"""Comparison of groups with other samples of equal score.

`differences_at_equal_scores` forms the groups, tests them, and selects those that it names.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.utils import check_random_state

from skcalib._util.parameters import checks_parameters
from skcalib._util.records import Record
from skcalib._util.ties import merge_ties
from skcalib._util.types import ArrayLike, Label, MatrixLike, RandomState
from skcalib._util.validation import check_indices, weighted_features
from skcalib.data.features import EncodedFeatures, encode_features
from skcalib.data.labels import check_y
from skcalib.data.notions import TopLabel
from skcalib.data.problem import Problem, check_problem
from skcalib.grouping._candidates import MOST_GROUPS, Candidates, Pair, form_groups
from skcalib.grouping._statistics import LEAST_SIZE, EqualScores, Tested, compare, compare_all
from skcalib.stats.pvalues import benjamini_hochberg

#: Maximum number of compared samples.
MOST_ROWS = 50_000
_LEAST_LABELS = 2
#: Maximum number of samples times groups: for 1,000 groups 10,000 samples are compared.
MOST_VALUES = 1e7


@dataclass(frozen=True)
class GroupDifference(Record):
    """A group that differs from other samples with equal scores.

    Attributes
    ----------
    rule : str
        Definition of the group in terms of features.
    n_samples : int
        Samples of the group.
    n_tested : int
        Samples used for the other numbers: all, or one half if the rule was chosen on the other
        half.
    share : float
        Weight of the group, between 0 and 1.
    mean_score : float
        Mean predicted probability in the group.
    expected : float
        Mean frequency of the event among all samples with equal scores.
    observed : float
        Frequency of the event in the group.
    estimate : float
        The difference ``observed - expected``, between -1 and 1: negative if the predictions are
        too high for the group even after recalibration.
    low, high : float
        Interval of the difference. It is widened so that among all named groups at most a share of
        ``1 - confidence_level`` of the intervals misses the truth (false coverage rate).
    standard_error : float
        Standard error of the difference.
    pvalue : float
        Two-sided p-value of the group alone.
    harm : float
        Reduction of the Brier score by a correction for the group: the explained variance minus its
        noise. In units of the grouping loss, of which it is a part.

    See Also
    --------
    skcalib.grouping.GroupComparison : All groups that were found.
    """

    rule: str
    n_samples: int
    n_tested: int
    share: float
    mean_score: float
    expected: float
    observed: float
    estimate: float
    low: float
    high: float
    standard_error: float
    pvalue: float
    harm: float

    def _columns(self):
        return _by_columns([self])

    @property
    def direction(self) -> Literal["too_high", "too_low", ""]:
        """ "too_high" where the calibrated score exceeds what was observed, else "too_low"."""
        return "too_high" if self.estimate < 0 else "too_low"


@dataclass(frozen=True)
class GroupComparison(Record):
    """Groups that differ from others with equal scores, and how many were tested.

    `to_frame` has a row for each group that is named, the most harmful first, with the fields of
    `GroupDifference` and its ``direction``.

    Attributes
    ----------
    named : tuple of GroupDifference
        The most harmful first; nearly identical groups are listed once.
    n_tried : int
        Groups tested.
    n_samples : int
        Samples compared.
    note : str
        What was omitted, or why nothing was tested.

    See Also
    --------
    skcalib.grouping.differences_at_equal_scores : Makes this record.
    """

    named: tuple
    n_tried: int
    n_samples: int
    note: str = ""

    _beside = ("n_tried", "n_samples", "note")

    def _columns(self):
        return _by_columns(self.named)


def _by_columns(differences):
    names = [one.name for one in fields(GroupDifference)] + ["direction"]
    return {name: [getattr(one, name) for one in differences] for name in names}


@checks_parameters
def differences_at_equal_scores(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    X: MatrixLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    confidence_level: float = 0.95,
    random_state: RandomState = 0,
) -> GroupComparison:
    r"""Find groups, by rules of the features, that differ from other samples with equal scores.

    A recalibration maps equal scores to equal values. A group g whose event is more frequent than

    .. math:: E[\,C(S) \mid g\,], \qquad C(S) = E[Y|S],

    is miscalibrated after every recalibration: the score lacks the information in the group. Groups
    are compared with the frequency :math:`C(S)` of all samples with equal scores, not with the
    score itself. So no group is named only because the model is miscalibrated for all groups.

    - **Groups**: each category; numbers cut at their quartiles; missing values; and up to ten
      intersections of two of these, or of one of them and a range of scores. Intersections are
      chosen on one half of the samples by their joint effect and tested on the other half, in both
      directions.
    - **Statistic**: :math:`T = \sum_i w_i \tilde g_i (y_i - \hat C(s_i))`, with :math:`\tilde g`
      the residual of the group after a regression on a curve of the score. An error of :math:`\hat
      C` enters only as a product with the error of the approximation of :math:`E[g|S]` by that
      curve. The p-value is for independent labels (saddlepoint approximation). With unequal weights
      it uses the larger of two variances. For an intersection, both the difference and the joint
      effect must be significant.
    - **Named groups** are those that the procedure of Benjamini and Hochberg rejects at the false
      discovery rate ``1 - confidence_level``, the most harmful first. A later group is omitted if
      it has nearly the same samples as an earlier one. It is also omitted if, at equal values of
      the features named before it, its difference is small or not significant (Bonferroni).

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the event, or of each class. With more than two classes the event is that the
        predicted class is right.
    X : array-like of shape (n_samples, n_features)
        Features: numbers, times and categories, with missing values. A warning names columns that
        are left out, such as free text and identifiers (:ref:`features`).
    confidence_level : float, default=0.95
        One minus the false discovery rate, and the level of the intervals.
    random_state : int, RandomState instance or None, default=0
        Seed of the halves, and of the subsample of more than 50,000 samples.

    Returns
    -------
    GroupComparison
        The named groups, and the number of groups tested.

    Raises
    ------
    ValueError
        For invalid input, and for features that are sparse, infinite or all left out.

    See Also
    --------
    skcalib.calibration_by_group : The same for given groups.
    skcalib.GroupingLossEstimator : The grouping loss as one number.

    Notes
    -----
    The harm of a group assumes the same difference for all scores, so it is at most the
    contribution of the group to the grouping loss. Groups of fewer than 10 samples (by weight), or
    with fewer than one expected event, are not tested. From more than 50,000 samples, 50,000 are
    drawn at random. From more than 1,000 groups, those nearest to half of the samples are kept. A
    test of one variable at a time does not identify causes: a group may be named because of a
    correlated feature.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.grouping import differences_at_equal_scores
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3))
    >>> p = rng.uniform(0.2, 0.6, 4000)
    >>> y = rng.random(4000) < p + np.where(X[:, 1] > 0, 0.1, -0.1)
    >>> found = differences_at_equal_scores(y, np.sqrt(p), X)  # miscalibrated for all
    >>> found.named[0].rule, found.named[0].direction
    ('x1 > 0', 'too_low')
    """
    check_indices(y_true=y_true, y_proba=y_proba, X=X, sample_weight=sample_weight)
    problem = check_problem(y_true, y_proba, None, sample_weight, labels, pos_label)
    X = weighted_features(X, sample_weight, len(check_y(y_true)))
    options: dict[str, Any] = {"confidence_level": confidence_level, "random_state": random_state}
    compared, _, _ = compare_groups(problem, encode_features(X), **options)
    return compared


def compare_groups(
    problem: Problem,
    encoded: EncodedFeatures,
    *,
    confidence_level: float,
    random_state: RandomState = 0,
) -> tuple[GroupComparison, np.ndarray, list[np.ndarray]]:
    """`GroupComparison` of encoded features, its rows, and members of named groups among them."""
    rng = check_random_state(random_state)
    forecast, target, weight = problem.forecast, problem.target, problem.weight
    score_name = "score"
    if forecast.shape[1] > 2:
        forecast, target = next(TopLabel().problems(forecast, target))
        score_name = "confidence"
    score, hit = merge_ties(np.clip(forecast[:, 1], 0, 1)), target[:, 1].astype(np.float64)
    rows, cluster = np.arange(len(score)), problem.cluster
    if min(hit.sum(), len(hit) - hit.sum()) < _LEAST_LABELS:
        note = f"Groups were not compared: fewer than {_LEAST_LABELS} labels are of the rarer kind."
        return GroupComparison((), 0, len(score), note), rows, []
    candidates = form_groups(encoded, weight, LEAST_SIZE)
    notes = []
    if candidates.n_formed > MOST_GROUPS:
        notes.append(
            f"Of {candidates.n_formed:,} groups the {MOST_GROUPS:,} nearest to half of the samples "
            "were tested."
        )
    most = int(min(MOST_ROWS, MOST_VALUES / max(len(candidates.rules), 1)))
    if len(score) > most:
        notes.append(f"Groups were compared on {most:,} random samples of {len(score):,}.")
        rows = np.sort(rng.choice(len(score), most, replace=False))
        score, hit, weight = score[rows], hit[rows], weight[rows]
        cluster = None if cluster is None else cluster[rows]
        candidates = replace(candidates, member=candidates.member[rows])
    tested = compare_all(EqualScores(score, hit, weight, cluster=cluster), candidates, rng)
    level = 1 - confidence_level
    found = [tested[k] for k in benjamini_hochberg([one.pvalue for one in tested], level)]
    reach = float(norm.isf(0.5 * level * len(found) / len(tested))) if found else np.inf
    told = [
        _record(one, candidates, reach, score_name)
        for one in distinct(found, candidates, level / max(len(tested), 1))
    ]
    told = [(one, member) for one, member in told if not one.low <= 0 <= one.high]
    named = tuple(one for one, _ in told)
    compared = GroupComparison(named, len(tested), len(score), " ".join(notes))
    return compared, rows, [member for _, member in told]


def _record(one, candidates, reach, score_name):
    """`GroupDifference` and members of a group, or of its complement where that is smaller."""
    equal, member, total = one.equal, one.member, one.total
    if isinstance(one.source, Pair):
        rule = one.source.rule(candidates, score_name)
    else:
        rule = candidates.rules[one.source]
        larger = one.inside @ equal.weight > 0.5 * equal.weight.sum()
        if larger and candidates.two_sided[one.source]:
            rule, member, total = candidates.complements[one.source], ~member, -total
    inside = member[one.rows]
    mass = equal.weight * inside
    observed = float(mass @ equal.hit / mass.sum())
    expected = float(np.clip(observed - total / mass.sum(), 0.0, 1.0))
    difference = observed - expected
    error = np.sqrt(max(one.variance, _variance(one))) / mass.sum()
    (units,) = equal.units(equal.center(one.inside[:, None].astype(np.float64)))
    if np.isfinite(units):
        reach = float(student.isf(norm.sf(reach), units - 1))
    record = GroupDifference(
        rule=rule,
        n_samples=int(member.sum()),
        n_tested=int(inside.sum()),
        share=float(mass.sum() / equal.weight.sum()),
        mean_score=float(mass @ equal.score / mass.sum()),
        expected=expected,
        observed=observed,
        estimate=difference,
        low=float(max(difference - reach * error, -expected)),
        high=float(min(difference + reach * error, 1 - expected)),
        standard_error=float(error),
        pvalue=one.pvalue,
        harm=one.harm,
    )
    return record, member


def _variance(one):
    """Variance of the statistic if the group differs."""
    equal = one.equal
    centred = equal.center(one.inside[:, None].astype(np.float64))[:, 0]
    residual = equal.residual - one.total / one.information * centred
    return float(equal.robust_variance(equal.weight * centred * residual))


# --- Selection of the named groups ----------------------------------------------------------------


_ALIKE = 0.8  # Jaccard index
_WORTH = 0.75  # of the harm of a pair
_LEAST_PART = 0.25  # of its harm: what a group explains beyond those before it


def distinct(found: list[Tested], candidates: Candidates, level: float) -> list[Tested]:
    """The most harmful first, without those that repeat an earlier one or are explained by it.

    A group is explained if, at equal scores *and* equal values of the features already named, it no
    longer differs or keeps less than a quarter of its harm. After the first, a group needs a
    p-value of at most `level`, before and in this second comparison: the false discovery rate over
    the number of groups tested (Bonferroni), because several cuts of one feature would otherwise
    raise the threshold for others.
    """
    kept = []
    for one in sorted(found, key=_rank):
        if any(_repeats(one, other, candidates.feature) for other in kept):
            continue
        if kept and not _adds(one, _known(kept, candidates), level):
            continue
        kept.append(one)
    return kept


def _rank(one):
    """By harm, rounded to a few digits, so that the smaller of two sides of a cut comes first.

    The longer rule of a pair requires more harm.
    """
    harm = one.harm * (_WORTH if isinstance(one.source, Pair) else 1.0)
    return -float(f"{harm:.6g}"), one.member.mean()


def _repeats(one, other, feature):
    """Nearly the samples of another or its complement, or a range of scores of its feature."""
    likeness = max(_jaccard(one.member, other.member), _jaccard(one.member, ~other.member))
    if likeness > _ALIKE:
        return True
    if not (isinstance(one.source, Pair) and one.source.cut is not None):
        return False
    numbers = other.source.numbers if isinstance(other.source, Pair) else [other.source]
    return feature[one.source.first] in feature[numbers]


def _jaccard(one, other):
    return np.sum(one & other) / max(np.sum(one | other), 1)


def _known(kept, candidates):
    """Columns of all that is named: the groups, and all cuts of their features."""
    columns = []
    for one in kept:
        numbers = [one.source]
        if isinstance(one.source, Pair):
            columns.append(one.member)
            numbers = one.source.numbers
        for k in numbers:
            same = candidates.feature == candidates.feature[k]
            same &= ~candidates.category
            same[k] = True
            columns += list(candidates.member[:, same].T)
    return np.column_stack(columns)


def _adds(one, known, level):
    """Whether a group differs sufficiently beyond the known groups."""
    beyond = one.equal.beyond(known[one.rows])
    numbers = compare(beyond, one.inside[:, None], least_share=1e-3)
    if not max(numbers.pvalue[0], one.pvalue) <= level:  # also if there is nothing to compare
        return False
    left = (numbers.total[0] ** 2 - numbers.variance[0]) / numbers.information[0]
    return left / one.equal.weight.sum() >= _LEAST_PART * one.harm
