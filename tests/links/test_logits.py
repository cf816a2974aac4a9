"""Logits: logarithms of tiny forecasts, and units, or ranks where tails are heavy."""

import pickle

import numpy as np
import pytest

from skcalib.links.logits import LogitScale, heavy_tails, in_units, log_forecast, logit_unit

N = 1000
Z = np.random.default_rng(0).normal(size=(N, 3))
HEAVY = {
    "sinh 5": lambda z: np.sinh(5 * z),
    "sinh 20": lambda z: np.sinh(20 * z),
    "power": lambda z: z**9,
    "one-sided": lambda z: np.exp(5 * z),
    "shifted": lambda z: np.exp(5 * z) + 1e6,
    "atom": lambda z: np.where(np.abs(z) < 0.1, 0.0, np.sinh(5 * z)),
    "ends": lambda z: np.clip(np.sinh(20 * z), -1e8, 1e8),
}
ORDINARY = {
    "normal": lambda z: z,
    "logistic": lambda z: np.random.default_rng(1).logistic(size=z.shape),
    "Student": lambda z: np.random.default_rng(1).standard_t(2, size=z.shape),
    "log-normal": np.exp,
    "rare": lambda z: np.where(z > 1.6, 50, -50) + z,
    "sparse": lambda z: np.where(z > 1, z, 0.0),
    "trees": np.round,
    "outliers": lambda z: np.where(np.abs(z) > 2.4, 1e200 * z, z),
    "rounding": lambda z: np.where(z > 1.5, z, 1 + 1e-16 * np.round(z)),
}


def columns_of(margins, n_classes):
    return margins[:, :1] / 2 * [-1, 1] if n_classes == 2 else margins


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_values_stay(name, n_classes):
    columns = columns_of(ORDINARY[name](Z), n_classes) + 3.0 * np.arange(n_classes)
    assert heavy_tails(columns, 1.0) is None and LogitScale.of(columns).tails is None
    assert logit_unit(1e5 * columns)[1] is None


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", HEAVY)
def test_heavy_tails_become_those_of_logits(name, n_classes):
    """The order stays, the bulk is spread like logits, and new values beyond stay in sight."""
    columns = columns_of(HEAVY[name](Z), n_classes)
    scale = LogitScale.of(columns)
    assert scale.tails is not None and 0.5 < scale.unit < 2
    values = (columns[:, 1] - columns[:, 0])[:, None] if n_classes == 2 else columns
    mapped = scale.tails(columns)
    mapped = (mapped[:, 1] - mapped[:, 0])[:, None] if n_classes == 2 else mapped
    order = np.argsort(values.ravel(), kind="stable")
    values, mapped = values.ravel()[order], mapped.ravel()[order]
    assert np.all(np.diff(mapped) >= 0)
    assert len(np.unique(mapped)) > 0.98 * len(np.unique(values))  # but for rounding
    assert np.ptp(np.quantile(mapped, [0.25, 0.75])) == pytest.approx(2 * np.log(3), rel=0.1)
    assert np.ptp(scale.tails.levels) < 100
    again = pickle.loads(pickle.dumps(scale))
    np.testing.assert_array_equal(again.logits(columns), scale.logits(columns))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", HEAVY)
def test_the_names_of_the_classes_do_not_matter(name, n_classes):
    columns = columns_of(HEAVY[name](Z), n_classes)
    scale, reversed_scale = LogitScale.of(columns), LogitScale.of(columns[:, ::-1])
    logits = reversed_scale.logits(columns[:, ::-1])[:, ::-1]
    np.testing.assert_allclose(logits, scale.logits(columns), rtol=1e-9, atol=1e-9)


def test_logits_keep_the_predicted_class():
    columns = columns_of(np.exp(5 * Z) - 40, 2)
    logits = in_units(columns, *logit_unit(columns))
    np.testing.assert_array_equal(np.sign(np.diff(logits)), np.sign(np.diff(columns)))
    ordinary = columns / 1e6  # of a unit that is left as it is
    assert logit_unit(ordinary) == (1, None)


# --- A robust spread, for values of any size

N_SCALED = 400
RNG = np.random.default_rng(0)
MARGIN = RNG.logistic(size=N_SCALED)
COLUMNS = {
    2: np.column_stack([-MARGIN / 2, MARGIN / 2]),
    3: RNG.normal(size=(N_SCALED, 3)),
    10: RNG.normal(size=(N_SCALED, 10)) + np.linspace(-40, 40, 10),  # far from 0
}
OUTLIERS = COLUMNS[2].copy()
OUTLIERS[:3] *= 1e300
TIED = np.where(np.arange(N_SCALED) % 20 == 0, 1.0, 0.0)[:, None] * COLUMNS[2]
FEW = np.where(np.arange(N_SCALED) < 2, 1.0, 0.0)[:, None] * COLUMNS[2]


@pytest.mark.parametrize("scale", [1e-280, 1e-6, 7.0, 1e9, 1e280])
@pytest.mark.parametrize(
    "columns", [*COLUMNS.values(), *(columns_of(HEAVY["sinh 5"](Z), k) for k in (2, 3))]
)
def test_the_scale_cancels(columns, scale):
    """Of ordinary columns, and of those with heavy tails."""
    original, scaled = LogitScale.of(columns), LogitScale.of(scale * columns)
    if original.tails is None:
        assert scaled.unit == pytest.approx(scale * original.unit, rel=1e-12, abs=0)
    logits = scaled.logits(scale * columns)
    np.testing.assert_allclose(logits, original.logits(columns), rtol=1e-9, atol=1e-9)


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
    logits = scale.logits(columns)
    assert np.isfinite(logits).all() and scale.unit > 0
    assert np.quantile(np.abs(logits), 0.98, method="inverted_cdf") <= largest
    if np.ptp(columns) > 1e-100:
        assert np.abs(logits[3:] if columns is OUTLIERS else logits).max() > 1


def test_one_scale_after_another():
    first, second = LogitScale(3.0, np.array([1.0, -1.0])), LogitScale(0.2, np.array([0.0, 2.0]))
    logits = second.after(first).logits(COLUMNS[2])
    expected = second.logits(first.logits(COLUMNS[2]))
    np.testing.assert_allclose(np.diff(logits), np.diff(expected), rtol=1e-12)


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
    logits = in_units(far, 1.0)
    np.testing.assert_allclose(logits[0], [0, -700 - np.log(101), -700 - np.log(201)])
    np.testing.assert_array_equal(logits[2], far[2])
    assert logits[1].argsort().tolist() == [1, 0, 2] and np.diff(np.sort(logits[1]))[1] > 700


def test_logarithms_beyond_single_precision_are_compressed():
    """Increasing and smooth; nothing above the end of single precision changes."""
    end = np.finfo(np.float32).tiny
    p = np.concatenate([np.geomspace(1e-307, end, 500), np.geomspace(1.01 * end, 1, 200)])
    z = log_forecast(p, 1e-308)
    assert (np.diff(z) > 0).all()
    np.testing.assert_array_equal(z[p >= end], np.log(p[p >= end]))
    assert -95 < z[0] < -90 and log_forecast(np.zeros(1), 1e-308)[0] < z[0]
    slope = np.diff(log_forecast(end * np.array([0.999, 1.0, 1.001]), 1e-308))
    np.testing.assert_allclose(slope, 1e-3, rtol=2e-3)
