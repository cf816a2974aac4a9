"""Groups that are compared: the values of one feature, or the two sides of a cut."""

from dataclasses import dataclass

import numpy as np

from skcalib.grouping._categories import opposite, source

#: Groups at most; those nearest to half of the samples are kept.
MOST_GROUPS = 1000
_FEW_VALUES = 6  # whole numbers that are treated as categories too
_CUTS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Candidates:
    """``member`` (n, m); a rule in words for each column, and one for its complement.

    ``feature`` is the number of the column of X that a group comes from, ``category`` whether it
    is one value of several, ``two_sided`` whether the complement is as good a group, and
    ``n_formed`` the number of groups before some were left out.
    """

    member: np.ndarray
    rules: list
    complements: list
    feature: np.ndarray
    category: np.ndarray
    two_sided: np.ndarray
    n_formed: int


def form_groups(X, names, encoded, weight, least):
    """Groups of features (n, d) that hold, as their complements, `least` effective samples."""
    kept, numbers = [], {}
    sources = [source(name, encoded) for name in names]
    for j, (name, origin) in enumerate(zip(names, sources, strict=True)):
        number = numbers.setdefault(origin, len(numbers))
        if name in encoded:
            several = sources.count(origin) > 1
            groups = [(name, opposite(name), several, not several, X[:, j] > 0.5)]
        else:
            groups = _of_numbers(X[:, j], name)
        kept += [(number, *one) for one in groups if _size(one[-1], weight) >= least]
    n_formed = len(kept)
    if n_formed > MOST_GROUPS:
        unbalanced = [abs(one[-1].mean() - 0.5) for one in kept]
        kept = [kept[k] for k in np.sort(np.argsort(unbalanced, kind="stable")[:MOST_GROUPS])]
    feature, rules, complements, category, two_sided, members = (
        zip(*kept, strict=True) if kept else ((),) * 6
    )
    return Candidates(
        np.column_stack(members) if kept else np.empty((len(X), 0), dtype=bool),
        list(rules),
        list(complements),
        np.array(feature, dtype=int),
        np.array(category, dtype=bool),
        np.array(two_sided, dtype=bool),
        n_formed,
    )


def _size(member, weight):
    """Effective size of a group or its complement, whichever is smaller."""
    sizes = []
    for side in (member, ~member):
        squares = np.sum(weight[side] ** 2)
        sizes.append(weight[side].sum() ** 2 / squares if squares > 0 else 0.0)
    return min(sizes)


def _of_numbers(column, name):
    """(rule, rule of the complement, category, two-sided, members) of a column of numbers."""
    known = ~np.isnan(column)
    values = np.unique(column[known])
    missing = not known.all()
    if missing:
        yield f"{name} is missing", f"{name} is not missing", False, False, ~known
    if len(values) < 2:
        return
    if len(values) <= _FEW_VALUES and np.all(values == np.round(values)):
        yield from _of_values(column, name, values, missing)
        if len(values) == 2:
            return
        cuts = values[1:-2]  # the outer ones are single values
    else:
        cuts = _rounded_cuts(column[known], values)
    for cut in cuts:
        low, high = f"{name} <= {cut:.10g}", f"{name} > {cut:.10g}"
        yield (
            low,
            f"({high} or {name} is missing)" if missing else high,
            False,
            not missing,
            (column <= cut),
        )
        if missing:  # neither side holds the missing values
            yield high, f"({low} or {name} is missing)", False, False, column > cut


def _of_values(column, name, values, missing):
    """Each of a few whole numbers; of two numbers without missing values one is enough."""
    rules = [f"{name} = {value:.10g}" for value in values]
    if len(values) == 2 and not missing:
        yield rules[1], rules[0], False, True, column == values[1]
        return
    for value, rule in zip(values, rules, strict=True):
        yield rule, rule.replace(" = ", " is not "), True, False, column == value


def _rounded_cuts(known, values):
    """Quartiles, rounded to what is short to read and divides the samples nearly alike."""
    quartiles = np.quantile(known, _CUTS)
    spread = quartiles[2] - quartiles[0]
    cuts = []
    for quartile in quartiles:
        cut = quartile
        if spread > 0 and np.isfinite(spread):
            decimals = int(np.clip(1 - np.floor(np.log10(spread)), -300, 300))
            cut = float(np.round(quartile, decimals))
        if not values[0] <= cut < values[-1]:  # a mass at one end
            at = np.searchsorted(values, quartile)
            cut = values[min(max(at - 1, 0), len(values) - 2)]
        cuts.append(float(cut) + 0.0)  # no -0
    return sorted(set(cuts))
