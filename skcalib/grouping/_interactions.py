"""Groups of two features: chosen on one half of the samples, tested on the other."""

from dataclasses import dataclass

import numpy as np

#: Pairs of groups that each half proposes for the other, at most.
N_PAIRS = 5
#: One-feature groups that are paired, and rows that are searched, at most.
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
        """The pair in words."""
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

    Parameters
    ----------
    equal : EqualScores
        Of the searched half.
    candidates : Candidates
        Groups of all samples.
    rows : array of int
        The searched half.
    least : float
        Size of a group, in samples of the searched half.
    rng : RandomState
        Chooses rows where there are many.

    Returns
    -------
    list of Pair
        With the quadrant of largest effect.
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
    """Of the four intersections, the large enough one that explains most here."""
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
