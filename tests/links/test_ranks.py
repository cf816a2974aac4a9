"""Heavy tails of decision values become those of logits, and other values stay as they are."""

import pickle

import numpy as np
import pytest

from skcalib.links.ranks import heavy_tails
from skcalib.links.scale import LogitScale, in_units, logit_unit

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
    one, other = LogitScale.of(columns), LogitScale.of(columns[:, ::-1])
    found = other.logits(columns[:, ::-1])[:, ::-1]
    np.testing.assert_allclose(found, one.logits(columns), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scale", [1e-280, 1e-6, 7.0, 1e9, 1e280])
def test_the_scale_cancels(scale, n_classes):
    columns = columns_of(HEAVY["sinh 5"](Z), n_classes)
    one, other = LogitScale.of(columns), LogitScale.of(scale * columns)
    found = other.logits(scale * columns)
    np.testing.assert_allclose(found, one.logits(columns), rtol=1e-9, atol=1e-9)


def test_logits_keep_the_predicted_class():
    columns = columns_of(np.exp(5 * Z) - 40, 2)
    found = in_units(columns, *logit_unit(columns))
    np.testing.assert_array_equal(np.sign(np.diff(found)), np.sign(np.diff(columns)))
    ordinary = columns / 1e6  # of a unit that is left as it is
    assert logit_unit(ordinary) == (1, None)
