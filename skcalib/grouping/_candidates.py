"""Candidate groups: of one feature, of two features, or of a feature and a range of scores.

`form_groups` makes the groups of one feature: its values, or the two sides of a cut.
`propose_pairs` chooses intersections of two of them on one half of the samples; they are tested on
the other half.
"""

from dataclasses import dataclass

import numpy as np

from skcalib.data.clusters import effective_size
from skcalib.data.features import EncodedFeatures

#: Maximum number of groups; those nearest to half of the samples are kept.
MOST_GROUPS = 1000
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


def form_groups(encoded: EncodedFeatures, weight, least):
    """Groups of features of at least `least` effective samples; so are the complements."""
    kept, origins = [], [one.origin for one in encoded.features]
    for column, feature in zip(encoded.values.T, encoded.features, strict=True):
        if feature.category is None:
            groups = _of_numbers(column, feature)
        else:
            several = origins.count(feature.origin) > 1
            groups = [(feature.title, feature.opposite, several, not several, column > 0.5)]
        kept += [(feature.origin, *one) for one in groups if _size(one[-1], weight) >= least]
    n_formed = len(kept)
    if n_formed > MOST_GROUPS:
        unbalanced = [abs(one[-1].mean() - 0.5) for one in kept]
        kept = [kept[k] for k in np.sort(np.argsort(unbalanced, kind="stable")[:MOST_GROUPS])]
    feature, rules, complements, category, two_sided, members = (
        zip(*kept, strict=True) if kept else ((),) * 6
    )
    return Candidates(
        np.column_stack(members) if kept else np.empty((len(encoded), 0), dtype=bool),
        list(rules),
        list(complements),
        np.array(feature, dtype=int),
        np.array(category, dtype=bool),
        np.array(two_sided, dtype=bool),
        n_formed,
    )


def _size(member, weight):
    """Effective size of a group or its complement, whichever is smaller."""
    return min(effective_size(weight[side]) for side in (member, ~member))


def _of_numbers(column, feature):
    """(rule, rule of the complement, category, two-sided, members) of a column of numbers."""
    name = feature.name
    known = ~np.isnan(column)
    values = np.unique(column[known])
    missing = not known.all()
    if missing:
        yield f"{name} is missing", f"{name} is not missing", False, False, ~known
    if len(values) < 2:
        return
    if len(values) <= _FEW_VALUES and np.all(values == np.round(values)):
        yield from _of_values(column, feature, values, missing)
        if len(values) == 2:
            return
        cuts = values[1:-2]  # the outer ones are single values
    else:
        cuts = _rounded_cuts(column[known], values, feature)
    for cut in cuts:
        low, high = feature.rule(high=cut), feature.rule(low=cut)
        yield (
            low,
            f"({high} or {name} is missing)" if missing else high,
            False,
            not missing,
            (column <= cut),
        )
        if missing:  # neither side has the missing values
            yield high, f"({low} or {name} is missing)", False, False, column > cut


def _of_values(column, feature, values, missing):
    """Each of a few whole numbers; of two numbers without missing values one is enough."""
    rules = [f"{feature.name} = {feature.text(value)}" for value in values]
    if len(values) == 2 and not missing:
        yield rules[1], rules[0], False, True, column == values[1]
        return
    for value, rule in zip(values, rules, strict=True):
        yield rule, rule.replace(" = ", " is not "), True, False, column == value


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
#: Maximum numbers of one-feature groups that are paired, and of rows that are searched.
MOST_PAIRED, MOST_SEARCHED = 200, 20_000
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
    def numbers(self):
        """Numbers of the candidates."""
        return [self.first] if self.cut is not None else [self.first, self.second]

    def parts(self, candidates, score):
        """The two columns (n, 2) that the pair intersects, of all samples with these scores."""
        one = candidates.member[:, self.first]
        two = candidates.member[:, self.second] if self.cut is None else score > self.cut
        return np.column_stack([one == self.inside[0], two == self.inside[1]])

    def rule(self, candidates, score_name):
        """The rule of the pair as text."""
        said = [candidates.rules[self.first] if self.inside[0]
                else candidates.complements[self.first]]  # fmt: skip
        if self.cut is not None:
            said.append(f"{score_name} {'>' if self.inside[1] else '<='} {self.cut:.10g}")
        elif self.inside[1]:
            said.append(candidates.rules[self.second])
        else:
            said.append(candidates.complements[self.second])
        return " and ".join(said)


def propose_pairs(equal, candidates, rows, least, rng):
    """Pairs whose joint effect is largest beyond the effects of their parts.

    Each has the quadrant of largest effect. `rows` is the searched half, to which `equal` belongs
    and in whose samples the size `least` of a group is given; `candidates` are groups of all
    samples. `rng` draws a subsample of rows.
    """
    member = candidates.member[rows]
    order = np.argsort(np.abs(member.mean(axis=0) - 0.5), kind="stable")
    paired = np.sort(order[:MOST_PAIRED])
    if len(paired) == 0:
        return []
    here = np.arange(len(rows))
    if len(rows) > MOST_SEARCHED:
        here = np.sort(rng.choice(len(rows), MOST_SEARCHED, replace=False))
    groups = equal.center(member[:, paired].astype(np.float64))[here]
    weight, score = equal.weight[here], equal.score[here]
    cuts = score_cuts(equal)
    ranges = score[:, None] > cuts
    ranges = ranges - np.average(ranges, axis=0, weights=weight) if len(cuts) else ranges * 1.0
    residual = _without_main_effects(groups, equal.residual[here], weight)
    pull = (weight * residual)[:, None]
    noise = (weight**2 * equal.variance[here])[:, None]
    both = np.hstack([groups, ranges])
    total = groups.T @ (pull * both)
    variance = (groups**2).T @ (noise * both**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        strength = np.where(variance > 0, total**2 / variance, 0.0)
    same = candidates.feature[paired]
    n_groups = len(paired)
    allowed = np.ones_like(strength, dtype=bool)
    allowed[:, :n_groups] = same[:, None] < same[None, :]
    strength = np.where(allowed, strength, -1.0)
    found, seen = [], set()
    for flat in np.argsort(-strength, axis=None)[: 40 * N_PAIRS]:
        one, two = divmod(int(flat), strength.shape[1])
        if strength[one, two] <= 1 or len(found) == N_PAIRS:
            break
        ranged = two >= n_groups
        key = (same[one], -1 if ranged else same[two])
        if key in seen:
            continue
        cut = float(cuts[two - n_groups]) if ranged else None
        second = -1 if ranged else int(paired[two])
        best = _best_quadrant(equal, candidates, rows, int(paired[one]), second, cut, least)
        if best is not None:
            seen.add(key)
            found.append(best)
    return found


def score_cuts(equal):
    """Scores at the quarters of the position, with few digits, that divide the samples."""
    cuts = set()
    for quarter in (0.25, 0.5, 0.75):
        at = int(np.argmin(np.abs(equal.position - quarter)))
        cut = float(f"{equal.score[at]:.2g}")
        if equal.score.min() <= cut < equal.score.max():
            cuts.add(cut)
    return np.array(sorted(cuts))


def _without_main_effects(groups, residual, weight):
    """Residuals after a ridge regression on the one-feature groups."""
    gram = groups.T @ (weight[:, None] * groups)
    gram[np.diag_indices_from(gram)] += _RIDGE * max(np.trace(gram) / len(gram), 1e-300)
    return residual - groups @ np.linalg.solve(gram, groups.T @ (weight * residual))


def _best_quadrant(equal, candidates, rows, first, second, cut, least):
    """The intersection, of the four, that is large enough and explains most."""
    best, most = None, 0.0
    for inside in ((True, True), (True, False), (False, True), (False, False)):
        one = candidates.member[rows, first] == inside[0]
        two = equal.score > cut if cut is not None else candidates.member[rows, second]
        member = (one & (two == inside[1])).astype(np.float64)
        mass = equal.weight * member
        if mass.sum() ** 2 < least * np.sum(mass**2):
            continue
        centred = equal.center(member[:, None])[:, 0]
        information = np.sum(equal.weight * centred**2)
        harm = np.sum(mass * equal.residual) ** 2 / information if information > 0 else 0.0
        if harm > most:
            best, most = Pair(first, second, inside, cut), harm
    return best
