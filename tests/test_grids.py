"""Thinned grids leave out no value, and no pair of values."""

from collections import Counter
from itertools import combinations, product

import pytest
from grids import covering, rotated


def test_columns_take_turns():
    pairs = rotated("abcdef", range(10), 2)
    assert len(pairs) == len(set(pairs)) == 12
    assert set(Counter(row for row, _ in pairs).values()) == {2}
    assert {column for _, column in pairs} == set(range(10))
    assert [column for row, column in pairs if row == "b"] == [1, 6]


def test_a_column_that_never_comes_is_an_error():
    with pytest.raises(AssertionError, match="some column never comes"):
        rotated("ab", range(10), 2)


@pytest.mark.parametrize("sizes", [(3, 4), (2, 2, 2), (4, 3, 9), (2, 3, 2, 3)])
def test_every_pair_of_values_occurs(sizes):
    factors = [[f"{k}{value}" for value in range(size)] for k, size in enumerate(sizes)]
    found = covering(*factors)
    for one, other in combinations(range(len(sizes)), 2):
        assert {(row[one], row[other]) for row in found} == set(
            product(factors[one], factors[other])
        )
    largest = sorted(sizes)[-1] * sorted(sizes)[-2]
    assert largest <= len(found) <= 1.5 * largest
