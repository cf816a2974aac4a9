"""The unit of decision values and of logits: a robust spread, for values of any size."""

import numpy as np
import pytest

from skcalib.links.scale import LogitScale, in_units, logit_unit

N = 400
RNG = np.random.default_rng(0)
MARGIN = RNG.logistic(size=N)
COLUMNS = {
    2: np.column_stack([-MARGIN / 2, MARGIN / 2]),
    3: RNG.normal(size=(N, 3)),
    10: RNG.normal(size=(N, 10)) + np.linspace(-40, 40, 10),  # far from 0
}
OUTLIERS = COLUMNS[2].copy()
OUTLIERS[:3] *= 1e300
TIED = np.where(np.arange(N) % 20 == 0, 1.0, 0.0)[:, None] * COLUMNS[2]
FEW = np.where(np.arange(N) < 2, 1.0, 0.0)[:, None] * COLUMNS[2]


@pytest.mark.parametrize("n_classes", COLUMNS)
@pytest.mark.parametrize("scale", [1e-300, 1e-6, 3.0, 1e9, 1e305])
def test_the_scale_cancels(n_classes, scale):
    columns = COLUMNS[n_classes]
    one, other = LogitScale.of(columns), LogitScale.of(scale * columns)
    assert other.unit == pytest.approx(scale * one.unit, rel=1e-12, abs=0)
    found = other.logits(scale * columns)
    np.testing.assert_allclose(found, one.logits(columns), rtol=1e-9, atol=1e-9)


def test_the_unit_is_that_of_the_logistic_law():
    margin = np.random.default_rng(1).logistic(size=200_000)
    columns = 7 * np.column_stack([-margin, margin]) / 2
    scale = LogitScale.of(columns)
    inside = np.clip(margin, *np.quantile(margin, [0.01, 0.99]))
    assert scale.unit == pytest.approx(7 * inside.std() / (np.pi / np.sqrt(3)), rel=1e-3)
    assert scale.unit == pytest.approx(7, rel=0.05) and np.ptp(scale.shift) == 0
    difference = np.diff(scale.logits(columns + 1e3), axis=1)[:, 0]  # what columns share cancels
    np.testing.assert_allclose(difference, 7 * margin / scale.unit, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sign", [-1, 1])
def test_values_far_from_0_are_moved(sign):
    scale = LogitScale.of(COLUMNS[2] + sign * 1e6 * np.array([-1, 1]))
    logits = scale.logits(COLUMNS[2] + sign * 1e6 * np.array([-1, 1]))
    difference = np.diff(logits, axis=1)
    assert difference.mean() == pytest.approx(sign * 10, abs=0.2) and difference.std() > 1.5
    assert LogitScale.of(COLUMNS[2] + [-3, 3]).shift == pytest.approx(0)


@pytest.mark.parametrize(
    ("columns", "largest"),
    [(OUTLIERS, 10), (TIED, 30), (FEW, 60), (0 * TIED, 0), (0 * TIED + [0, 1e-200], 1)],
    ids=["outliers", "tied", "few", "zero", "constant"],
)
def test_strange_values(columns, largest):
    scale = LogitScale.of(columns)
    found = scale.logits(columns)
    assert np.isfinite(found).all() and scale.unit > 0
    assert np.quantile(np.abs(found), 0.98, method="inverted_cdf") <= largest
    if np.ptp(columns) > 1e-100:
        assert np.abs(found[3:] if columns is OUTLIERS else found).max() > 1


def test_one_scale_after_another():
    first, second = LogitScale(3.0, np.array([1.0, -1.0])), LogitScale(0.2, np.array([0.0, 2.0]))
    found = second.after(first).logits(COLUMNS[2])
    expected = second.logits(first.logits(COLUMNS[2]))
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-12)


def test_unknown_columns():
    columns = COLUMNS[3].copy()
    columns[::2, 1] = np.nan
    scale = LogitScale.standard(columns)
    assert np.isfinite(scale.shift).all() and scale.unit == pytest.approx(0.6, rel=0.2)
    np.testing.assert_array_equal(np.isnan(scale.logits(columns)), np.isnan(columns))


def test_units_of_logits():
    logits = COLUMNS[3].astype(np.float32)
    assert in_units(logits, *logit_unit(logits)) is logits
    for factor in (9, 1, 0.02):
        assert logit_unit(factor * logits) == (1, None)
    unit = LogitScale.of(1e3 * COLUMNS[3]).unit
    assert logit_unit(1e3 * COLUMNS[3]) == (pytest.approx(unit), None)
    np.testing.assert_allclose(in_units(1e3 * COLUMNS[3], unit), 1e3 * COLUMNS[3] / unit)
    for constant in (np.zeros((5, 2)), np.full((5, 2), [0, 1e-9])):
        assert logit_unit(constant) == (1, None)
    assert logit_unit(np.full((5, 2), [0, 1e9])) == (pytest.approx(1e9), None)


def test_large_differences_are_compressed():
    far = np.array([[0.0, -800.0, -900.0], [0.0, -1.7e308, 1.7e308], [1e5, 1e5 - 3, 1e5 - 700]])
    found = in_units(far, 1.0)
    np.testing.assert_allclose(found[0], [0, -700 - np.log(101), -700 - np.log(201)])
    np.testing.assert_array_equal(found[2], far[2])
    assert found[1].argsort().tolist() == [1, 0, 2] and np.diff(np.sort(found[1]))[1] > 700
