"""Instances of tests with several parameters: all values, or all pairs of values; no more."""

from itertools import combinations, product


def rotated(rows, columns, per_row):
    """Pairs of a row and a column: so many columns for every row, in turn, until all have come."""
    rows, columns = list(rows), list(columns)
    pairs = [
        (row, columns[(k + j * len(columns) // per_row) % len(columns)])
        for k, row in enumerate(rows)
        for j in range(per_row)
    ]
    used = {id(column) for _, column in pairs}
    assert used == {id(column) for column in columns}, "some column never comes: raise `per_row`"
    return pairs


def covering(*factors):
    """Combinations of the values of factors, few, in which every pair of two values occurs."""
    factors = [list(values) for values in factors]
    everything = list(product(*(range(len(values)) for values in factors)))
    missing = {pair for chosen in everything for pair in _pairs(chosen)}
    combinations = []
    while missing:
        best = max(everything, key=lambda chosen: len(missing.intersection(_pairs(chosen))))
        missing.difference_update(_pairs(best))
        combinations.append(best)
    return [
        tuple(values[k] for values, k in zip(factors, chosen, strict=True))
        for chosen in sorted(combinations)
    ]


def _pairs(chosen):
    return set(combinations(enumerate(chosen), 2))
