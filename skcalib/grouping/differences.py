"""Groups, found by their features, that differ from other samples with equal scores.

`differences_at_equal_scores` forms candidates (`form_groups`): groups of one feature, its values or
the two sides of a cut. It tests them (`_compare_all`), with intersections of two groups, or of a
group and a range of scores, which one half of the samples proposes (`_propose_pairs`) and the other
tests. Of those that differ it names the `distinct` ones.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.utils import check_random_state

from skcalib._util.arithmetic import merge_ties
from skcalib._util.formatting import Record
from skcalib._util.parameters import checks_parameters
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, Label, MatrixLike, RandomState
from skcalib._util.validation import check_indices, take_rows, weighted_features
from skcalib.data.clusters import effective_size
from skcalib.data.features import EncodedFeatures, encode_features
from skcalib.data.labels import check_y
from skcalib.data.notions import TopLabel
from skcalib.data.problem import Problem, check_problem
from skcalib.grouping.equal_scores import EqualScores, compare
from skcalib.grouping.partition import half_of_clusters
from skcalib.stats.pvalues import benjamini_hochberg

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
    names = [field.name for field in fields(GroupDifference)] + ["direction"]
    return {name: [getattr(record, name) for record in differences] for name in names}


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
    comparison, _, _ = compare_groups(
        problem, encode_features(X), confidence_level=confidence_level, random_state=random_state
    )
    return comparison


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
    most = SIZES.compared_groups
    if candidates.n_formed > most:
        notes.append(
            f"Of {candidates.n_formed:,} groups the {most:,} nearest to half of the samples "
            "were tested."
        )
    most = int(min(SIZES.compared_samples, MOST_VALUES / max(len(candidates.rules), 1)))
    if len(score) > most:
        notes.append(f"Groups were compared on {most:,} random samples of {len(score):,}.")
        rows = np.sort(rng.choice(len(score), most, replace=False))
        score, hit, weight = score[rows], hit[rows], weight[rows]
        cluster = take_rows(cluster, rows)
        candidates = replace(candidates, member=candidates.member[rows])
    tested = _compare_all(EqualScores(score, hit, weight, cluster=cluster), candidates, rng)
    level = 1 - confidence_level
    differing = [tested[k] for k in benjamini_hochberg([group.pvalue for group in tested], level)]
    reach = float(norm.isf(0.5 * level * len(differing) / len(tested))) if differing else np.inf
    named, members = [], []
    for group in distinct(differing, candidates, level / max(len(tested), 1)):
        record, member = _record(group, candidates, reach, score_name)
        if not record.low <= 0 <= record.high:
            named.append(record)
            members.append(member)
    compared = GroupComparison(tuple(named), len(tested), len(score), " ".join(notes))
    return compared, rows, members


def _record(tested, candidates, reach, score_name):
    """`GroupDifference` and members of a group, or of its complement where that is smaller."""
    equal, member, total = tested.equal, tested.member, tested.total
    if isinstance(tested.source, Pair):
        rule = tested.source.rule(candidates, score_name)
    else:
        rule = candidates.rules[tested.source]
        larger = tested.inside @ equal.weight > 0.5 * equal.weight.sum()
        if larger and candidates.two_sided[tested.source]:
            rule, member, total = candidates.complements[tested.source], ~member, -total
    inside = member[tested.rows]
    mass = equal.weight * inside
    observed = float(mass @ equal.hit / mass.sum())
    expected = float(np.clip(observed - total / mass.sum(), 0.0, 1.0))
    difference = observed - expected
    centred = equal.center(tested.inside[:, None].astype(np.float64))
    # The variance of the statistic if the group differs, where it is larger.
    residual = equal.residual - tested.total / tested.information * centred[:, 0]
    variance = float(equal.robust_variance(equal.weight * centred[:, 0] * residual))
    error = np.sqrt(max(tested.variance, variance)) / mass.sum()
    (units,) = equal.units(centred)
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
        pvalue=tested.pvalue,
        harm=tested.harm,
    )
    return record, member


# --- Candidates: groups of one feature ------------------------------------------------------------


_FEW_VALUES = 6  # whole numbers that are treated as categories too
_CUTS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Candidates:
    """``member`` (n, m); the rule of each column as text, and that of its complement.

    ``feature`` is the number of the column of X that a group comes from. ``category`` tells whether
    the group is one value of several, and ``two_sided`` whether the complement is an equally
    suitable group. ``n_formed`` is the number of groups before some were dropped.
    """

    member: np.ndarray
    rules: list
    complements: list
    feature: np.ndarray
    category: np.ndarray
    two_sided: np.ndarray
    n_formed: int


@dataclass(frozen=True)
class _Group:
    """One candidate: its rule, that of its complement, and its members (n,)."""

    rule: str
    complement: str
    member: np.ndarray
    category: bool = False
    two_sided: bool = False


def form_groups(encoded: EncodedFeatures, weight: np.ndarray, least: float) -> Candidates:
    """Groups of features of at least `least` effective samples; so are the complements."""
    groups, origins = [], [feature.origin for feature in encoded.features]
    for column, feature in zip(encoded.values.T, encoded.features, strict=True):
        if feature.category is None:
            formed = _of_numbers(column, feature)
        else:
            several = origins.count(feature.origin) > 1
            member = column > 0.5
            formed = [_Group(feature.title, feature.opposite, member, several, not several)]
        for group in formed:
            sides = group.member, ~group.member
            if min(effective_size(weight[side]) for side in sides) >= least:
                groups.append((feature.origin, group))
    n_formed = len(groups)
    if n_formed > SIZES.compared_groups:
        unbalanced = [abs(group.member.mean() - 0.5) for _, group in groups]
        nearest = np.sort(np.argsort(unbalanced, kind="stable")[: SIZES.compared_groups])
        groups = [groups[k] for k in nearest]
    member = np.empty((len(encoded), 0), dtype=bool)
    if groups:
        member = np.column_stack([group.member for _, group in groups])
    return Candidates(
        member,
        [group.rule for _, group in groups],
        [group.complement for _, group in groups],
        np.array([feature for feature, _ in groups], dtype=int),
        np.array([group.category for _, group in groups], dtype=bool),
        np.array([group.two_sided for _, group in groups], dtype=bool),
        n_formed,
    )


def _of_numbers(column, feature):
    """Groups of a column of numbers: of a few whole numbers each, and the sides of cuts."""
    name = feature.name
    known = ~np.isnan(column)
    values = np.unique(column[known])
    missing = not known.all()
    if missing:
        yield _Group(f"{name} is missing", f"{name} is not missing", ~known)
    if len(values) < 2:
        return
    if len(values) <= _FEW_VALUES and np.all(values == np.round(values)):
        rules = [f"{name} = {feature.text(value)}" for value in values]
        if len(values) == 2 and not missing:  # one of them is enough
            yield _Group(rules[1], rules[0], column == values[1], two_sided=True)
        else:
            for value, rule in zip(values, rules, strict=True):
                unequal = rule.replace(" = ", " is not ")
                yield _Group(rule, unequal, column == value, category=True)
        cuts = values[1:-2]  # the outer ones are single values, also both of two
    else:
        cuts = _rounded_cuts(column[known], values, feature)
    for cut in cuts:
        low, high = feature.rule(high=cut), feature.rule(low=cut)
        if missing:  # neither side has the missing values
            yield _Group(low, f"({high} or {name} is missing)", column <= cut)
            yield _Group(high, f"({low} or {name} is missing)", column > cut)
        else:
            yield _Group(low, high, column <= cut, two_sided=True)


def _rounded_cuts(known, values, feature):
    """Quartiles, rounded to few digits that divide the samples nearly equally.

    Times are divided before the rounded one.
    """
    quartiles = np.quantile(known, _CUTS)
    spread = quartiles[2] - quartiles[0]
    cuts = []
    for quartile in quartiles:
        cut = quartile
        if spread > 0 and np.isfinite(spread):
            decimals = int(np.clip(1 - np.floor(np.log10(spread)), -300, 300))
            cut = float(np.round(quartile, decimals))
            cut -= 0.5 * feature.step if feature.kind == "time" else 0.0
        if not values[0] <= cut < values[-1]:  # many ties at one end
            at = np.searchsorted(values, quartile)
            cut = values[min(max(at - 1, 0), len(values) - 2)]
        cuts.append(float(cut) + 0.0)  # no -0
    return sorted(set(cuts))


# --- Pairs of groups ------------------------------------------------------------------------------


#: Maximum number of pairs of groups that each half proposes for the other.
N_PAIRS = 5
#: Maximum number of one-feature groups that are paired.
MOST_PAIRED = 200
_RIDGE = 1e-3


@dataclass(frozen=True)
class Pair:
    """The intersection of two one-feature groups or their complements, or one and a score range.

    ``first`` and ``second`` are numbers of candidates (``second`` -1 for a range of scores),
    ``inside`` whether each is the group itself; ``cut`` is the score, where there is one.
    """

    first: int
    second: int
    inside: tuple
    cut: float | None = None

    @property
    def numbers(self) -> list[int]:
        """Numbers of the candidates."""
        return [self.first] if self.cut is not None else [self.first, self.second]

    def parts(self, member: np.ndarray, score: np.ndarray) -> np.ndarray:
        """Columns (n, 2) that the pair intersects, of samples with these groups and scores."""
        second = member[:, self.second] if self.cut is None else score > self.cut
        return np.column_stack([member[:, self.first], second]) == self.inside

    def rule(self, candidates: Candidates, score_name: str) -> str:
        """The rule of the pair as text."""
        sides = [
            (candidates.rules if inside else candidates.complements)[k]
            for k, inside in zip(self.numbers, self.inside, strict=False)
        ]
        if self.cut is not None:
            sides.append(f"{score_name} {'>' if self.inside[1] else '<='} {self.cut:.10g}")
        return " and ".join(sides)


def _propose_pairs(equal, candidates, rows, rng):
    """Pairs whose joint effect is largest beyond the effects of their parts.

    Each has the quadrant of largest effect. `rows` is the searched half, to which `equal` belongs;
    `candidates` are groups of all samples. `rng` draws a subsample of rows.
    """
    member = candidates.member[rows]
    order = np.argsort(np.abs(member.mean(axis=0) - 0.5), kind="stable")
    paired = np.sort(order[:MOST_PAIRED])
    if len(paired) == 0:
        return []
    here = np.arange(len(rows))
    if len(rows) > SIZES.searched_samples:
        here = np.sort(rng.choice(len(rows), SIZES.searched_samples, replace=False))
    groups = equal.center(member[:, paired].astype(np.float64))[here]
    weight, score = equal.weight[here], equal.score[here]
    cuts = _score_cuts(equal)
    ranges = score[:, None] > cuts
    ranges = ranges - np.average(ranges, axis=0, weights=weight) if len(cuts) else ranges * 1.0
    # Residuals after a ridge regression on the one-feature groups.
    gram, residual = groups.T @ (weight[:, None] * groups), equal.residual[here]
    gram[np.diag_indices_from(gram)] += _RIDGE * max(np.trace(gram) / len(gram), 1e-300)
    residual = residual - groups @ np.linalg.solve(gram, groups.T @ (weight * residual))
    pull = (weight * residual)[:, None]
    noise = (weight**2 * equal.variance[here])[:, None]
    both = np.hstack([groups, ranges])
    total = groups.T @ (pull * both)
    variance = (groups**2).T @ (noise * both**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        strength = np.where(variance > 0, total**2 / variance, 0.0)
    feature, n_groups = candidates.feature[paired], len(paired)
    strength[:, :n_groups][feature[:, None] >= feature] = -1.0  # each pair of features once
    pairs, seen = [], set()
    for flat in np.argsort(-strength, axis=None)[: 40 * N_PAIRS]:
        first, second = divmod(int(flat), strength.shape[1])
        if strength[first, second] <= 1 or len(pairs) == N_PAIRS:
            break
        ranged = second >= n_groups
        features = (feature[first], -1 if ranged else feature[second])
        if features in seen:
            continue
        pair = _best_quadrant(
            equal,
            member,
            int(paired[first]),
            -1 if ranged else int(paired[second]),
            float(cuts[second - n_groups]) if ranged else None,
        )
        if pair is not None:
            seen.add(features)
            pairs.append(pair)
    return pairs


def _score_cuts(equal):
    """Scores at the quarters of the position, with few digits, that divide the samples."""
    cuts = set()
    for quarter in (0.25, 0.5, 0.75):
        at = int(np.argmin(np.abs(equal.position - quarter)))
        cut = float(f"{equal.score[at]:.2g}")
        if equal.score.min() <= cut < equal.score.max():
            cuts.add(cut)
    return np.array(sorted(cuts))


def _best_quadrant(equal, member, first, second, cut):
    """The intersection, of the four, that is large enough and explains most."""
    best, most = None, 0.0
    for inside in ((True, True), (True, False), (False, True), (False, False)):
        pair = Pair(first, second, inside, cut)
        inside_both = pair.parts(member, equal.score).all(axis=1).astype(np.float64)
        mass = equal.weight * inside_both
        if mass.sum() ** 2 < LEAST_SIZE * np.sum(mass**2):
            continue
        centred = equal.center(inside_both[:, None])[:, 0]
        information = np.sum(equal.weight * centred**2)
        harm = np.sum(mass * equal.residual) ** 2 / information if information > 0 else 0.0
        if harm > most:
            best, most = pair, harm
    return best


# --- Tests of candidates --------------------------------------------------------------------------


#: Minimum number of samples in a group and in its complement.
LEAST_SIZE = 10
_BLOCK = 64  # columns that are centred at once


@dataclass(frozen=True)
class Tested:
    """One tested group: ``source`` is the number of a candidate, or a `Pair`.

    ``member`` (n,) refers to all samples, ``rows`` are those tested, and ``equal`` their
    comparison.
    """

    source: int | Pair
    member: np.ndarray
    rows: np.ndarray
    equal: EqualScores
    total: float
    variance: float
    information: float
    pvalue: float

    @property
    def harm(self) -> float:
        """Explained variance less its noise, a mean over the tested samples."""
        explained = (self.total**2 - self.variance) / self.information
        return float(explained / self.equal.weight.sum())

    @property
    def numbers(self) -> list[int]:
        """Numbers of the candidates that it is made of."""
        return self.source.numbers if isinstance(self.source, Pair) else [self.source]

    @property
    def inside(self) -> np.ndarray:
        """Members among the tested samples."""
        return self.member[self.rows]


def _compare_all(equal, candidates, rng):
    """List of `Tested`: all candidates, and pairs of them that one half proposes to the other."""
    tested, rows = [], np.arange(len(equal.score))
    for start in range(0, candidates.member.shape[1], _BLOCK):
        member = candidates.member[:, start : start + _BLOCK]
        statistics = compare(equal, member)
        for k in np.flatnonzero(~np.isnan(statistics.pvalue)):
            single = _tested(start + int(k), member[:, k], rows, equal, statistics, k)
            tested.append(single)
    return tested + _pairs(equal, candidates, rng)


def _tested(source, member, rows, equal, statistics, k=0):
    return Tested(
        source,
        member,
        rows,
        equal,
        total=float(statistics.total[k]),
        variance=float(statistics.variance[k]),
        information=float(statistics.information[k]),
        pvalue=float(statistics.pvalue[k]),
    )


def _pairs(equal, candidates, rng):
    """The pairs that one half proposes, tested on the other.

    Their p-value is the larger of two: of the difference, and of the joint effect beyond the parts.
    """
    n_samples = len(equal.score)
    order = np.argsort(equal.score, kind="stable")
    coin = rng.random_sample(n_samples // 2 + 1) < 0.5
    side = np.empty(n_samples, dtype=bool)  # one of each two neighbours in the score
    position = np.arange(n_samples)
    side[order] = coin[position // 2] ^ (position % 2 == 0)
    if equal.cluster is not None:
        side = half_of_clusters(equal.score[:, None], equal.cluster, 0.5, rng)
    halves = [np.flatnonzero(side), np.flatnonzero(~side)]
    if min(map(len, halves)) < 4 * LEAST_SIZE or not candidates.member.shape[1]:
        return []
    compared = [
        EqualScores(
            equal.score[half],
            equal.hit[half],
            equal.weight[half],
            equal.offset[half],
            cluster=take_rows(equal.cluster, half),
        )
        for half in halves
    ]
    tested = []
    for search, test in ((0, 1), (1, 0)):
        for pair in _propose_pairs(compared[search], candidates, halves[search], rng):
            half, rows = compared[test], halves[test]
            parts = pair.parts(candidates.member, equal.score)
            member = parts.all(axis=1)
            parts, here = parts[rows].astype(np.float64), member[rows][:, None]
            if effective_size(half.weight * here[:, 0]) < LEAST_SIZE:
                continue
            tilted = parts * (half.position - 0.5)[:, None]
            if pair.cut is not None:  # the curve may jump where the range of scores ends
                half = half.with_columns(np.column_stack([parts[:, 1], tilted[:, 1]]))
            alone = parts if pair.cut is not None else np.hstack([parts, tilted])
            statistics = compare(half, here)
            joint = compare(half.with_columns(alone), here, least_share=1e-3)
            statistics = replace(statistics, pvalue=np.maximum(statistics.pvalue, joint.pvalue))
            if not np.isnan(statistics.pvalue[0]):
                tested.append(_tested(pair, member, rows, half, statistics))
    return tested


# --- Selection of the named groups ----------------------------------------------------------------


_ALIKE = 0.8  # Jaccard index
_WORTH = 0.75  # of the harm of a pair
_LEAST_PART = 0.25  # of its harm: what a group explains beyond those before it


def distinct(differing: list[Tested], candidates: Candidates, level: float) -> list[Tested]:
    """The most harmful first, without those that repeat an earlier one or are explained by it.

    A group is explained if, at equal scores *and* equal values of the features already named, it no
    longer differs or keeps less than a quarter of its harm. After the first, a group needs a
    p-value of at most `level`, before and in this second comparison: the false discovery rate over
    the number of groups tested (Bonferroni), because several cuts of one feature would otherwise
    raise the threshold for others.
    """

    def rank(tested):
        """Harm to a few digits, so that the smaller of two sides of a cut comes first.

        The longer rule of a pair requires more harm.
        """
        harm = tested.harm * (_WORTH if isinstance(tested.source, Pair) else 1.0)
        return -float(f"{harm:.6g}"), tested.member.mean()

    named: list[Tested] = []
    for tested in sorted(differing, key=rank):
        if any(_repeats(tested, earlier, candidates.feature) for earlier in named):
            continue
        if named:
            extended = tested.equal.with_columns(_known(named, candidates)[tested.rows])
            statistics = compare(extended, tested.inside[:, None], least_share=1e-3)
            # Also with nothing to compare, where the p-value is nan.
            if not max(statistics.pvalue[0], tested.pvalue) <= level:
                continue
            left = _tested(tested.source, tested.member, tested.rows, extended, statistics)
            if not left.harm >= _LEAST_PART * tested.harm:
                continue
        named.append(tested)
    return named


def _repeats(tested, earlier, feature):
    """Nearly the samples of an earlier one or its complement, or a range of its feature."""
    likeness = max(
        np.sum(tested.member & member) / max(np.sum(tested.member | member), 1)
        for member in (earlier.member, ~earlier.member)
    )
    if likeness > _ALIKE:
        return True
    if not (isinstance(tested.source, Pair) and tested.source.cut is not None):
        return False
    return feature[tested.source.first] in feature[earlier.numbers]


def _known(named, candidates):
    """Columns of all that is named: the groups, and all cuts of their features."""
    columns = []
    for tested in named:
        if isinstance(tested.source, Pair):
            columns.append(tested.member)
        for k in tested.numbers:
            same = candidates.feature == candidates.feature[k]
            same &= ~candidates.category
            same[k] = True
            columns += list(candidates.member[:, same].T)
    return np.column_stack(columns)
