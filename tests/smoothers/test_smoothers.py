"""Smoothers: the laws, naive loops as oracles, and what each one promises by itself."""

import numpy as np
import pytest
from conftest import pairs
from dense_directions import labels_from, world
from public_estimators import ABSTRACT
from public_functions import others
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import KFold, RepeatedKFold, StratifiedKFold, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from skcalib import proper_calibration_error, smoothers
from skcalib._util.sizes import sizes
from skcalib.datasets import make_widmann
from skcalib.links.averaging import ModelAverage
from skcalib.smoothers import (
    CrossFitted,
    DirichletKernel,
    IsotonicSmoother,
    LevelSets,
    LogitSmoother,
    MedianCells,
    NearestNeighborsSmoother,
    QuantileBins,
    Smoother,
    SplineSmoother,
    UniformBins,
)
from skcalib.testing import check_smoother

PARTITIONS = [*map(UniformBins, ("auto", 3, 1)), *map(QuantileBins, ("auto", 4)), LevelSets()]
LEAVE_ONE_OUT = [DirichletKernel(), DirichletKernel(0.05), DirichletKernel(1e-4, refinement="loss")]
LEAVE_ONE_OUT += [NearestNeighborsSmoother(), NearestNeighborsSmoother(3)]
CROSS_FITTED = [
    DirichletKernel("risk", refinement="loss"),  # by folds, the own label chooses no bandwidth
    LogitSmoother(cv=3),
    CrossFitted(GaussianNB()),
    CrossFitted(LogisticRegression(C=0.1), cv=3),
    SplineSmoother(),
    SplineSmoother(n_knots=3),
]
LISTED = [*PARTITIONS, IsotonicSmoother(), *LEAVE_ONE_OUT, *CROSS_FITTED]
#: Every public smoother, also one that is added tomorrow.
EVERY = [*LISTED, *others(smoothers, Smoother, LISTED, abstract=ABSTRACT)]
#: Eight forecasts of two classes with a tie, exact 0 and 1, and labels of both classes.
P8 = np.array([0.0, 0.1, 0.25, 0.25, 0.4, 0.6, 0.85, 1.0])
Y8 = np.array([0.0, 0, 1, 0, 1, 0, 1, 1])
F, T = pairs(P8), pairs(Y8)


@pytest.mark.parametrize("smoother", EVERY, ids=repr)
def test_laws(smoother):
    check_smoother(smoother)


CELLS = [
    # what lies on an edge belongs to the bin nearer to 1/2, and 1/2 is a bin of its own
    (UniformBins(5), [0, 0.1, 0.2 - 1e-12, 0.2, 0.4, 0.6, 0.8, 0.8 + 1e-12, 1], "000122344"),
    (UniformBins(2), [0, 0.4, 0.5, 0.5, 0.6, 1], "001122"),
    (UniformBins(2), [0, 0.4, 0.6, 1], "0011"),
    # of several classes the cells are products
    (
        UniformBins(2),
        [[0.2, 0.2, 0.6], [0.3, 0.1, 0.6], [0.2, 0.6, 0.2], [0.6, 0.2, 0.2]],
        "0012",
    ),
    # ties are never split: 1 is nearest to 2 samples below, 6 is nearest to 4 and 6
    (QuantileBins(4), [0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.7, 0.9], "01111122"),
    (QuantileBins(2), [0.1, 0.2, 0.3], "011"),  # of two halves the nearer to 1/2 is larger
    (QuantileBins(2), [0.9, 0.8, 0.7], "011"),
    # both coordinates have the same variance: halves of sizes 3 and 2, not 1 and 4
    (MedianCells(2, min_samples=1), [0.1, 0.3, 0.3, 0.6, 0.7], "00011"),
    (LevelSets(), P8, "01223456"),
    # the variance decides: .0035 and .0059 here, not the larger sum of squares of the first
    (
        MedianCells(4, min_samples=1),
        np.r_[np.linspace(0, 0.2, 32), np.linspace(0.4, 0.65, 16), np.linspace(0.9, 0.91, 16)],
        32 * "0" + 8 * "1" + 8 * "2" + 16 * "3",
    ),
]


def test_cells_by_hand():
    """Up to the numbers of the cells."""
    for smoother, forecast, cells in CELLS:
        forecast, names = np.array(forecast), np.array(list(cells))
        forecast = pairs(forecast) if forecast.ndim == 1 else forecast
        numbers = clone(smoother).fit(forecast, forecast).cells_
        together = numbers[:, None] == numbers
        np.testing.assert_array_equal(together, names[:, None] == names, err_msg=repr(smoother))


def test_bins_by_rule_and_by_edges():
    p = pairs(np.random.default_rng(0).random(1000))
    for bins in (UniformBins, QuantileBins):
        for rule, number in (("auto", 9), ("cube_root", 10)):
            by_rule, expected = (bins(n).fit(p, p).cells_ for n in (rule, number))
            np.testing.assert_array_equal(by_rule, expected)
    edges = [0, 0.2, 0.7, 1]
    cells = UniformBins(edges).fit(p, p)
    np.testing.assert_array_equal(cells.cells_, np.searchsorted(edges[1:-1], p[:, 1]))
    np.testing.assert_array_equal(cells.edges_, edges[1:-1])


def test_new_forecasts_go_to_the_nearest_occupied_cell():
    fitted = UniformBins(10).fit(pairs([0.05, 0.06, 0.95]), pairs([0.0, 1, 1]))
    predicted = fitted.predict(pairs([0.3, 0.7, 0.0, 1.0]))[:, 1]
    np.testing.assert_allclose(predicted, [0.5, 1, 0.5, 1])
    predicted = LevelSets().fit(F, T).predict(pairs([0.27, 0.38]))[:, 1]
    np.testing.assert_allclose(predicted, [0.5, 1])


def test_cell_means_by_loops(binary):
    """Held out, of the others; alone in a cell, of all others. Weights move no edges of bins."""
    y, forecast = binary
    n, weight, target = len(y), np.random.default_rng(0).uniform(0.2, 3, len(y)), np.eye(2)[y]
    for smoother in [*PARTITIONS, IsotonicSmoother()]:
        fitted = clone(smoother).fit(forecast, target, weight)
        mates = fitted.cells_[:, None] == fitted.cells_
        means = mates * weight @ target / (mates @ weight)[:, None]
        np.testing.assert_allclose(fitted.smooth(), means)
        of_cells = fitted.label_means(y, 2)
        np.testing.assert_allclose(of_cells, fitted.cell_means(target))
        np.testing.assert_allclose(of_cells[fitted.cells_], means)
        if isinstance(smoother, IsotonicSmoother):
            continue
        np.testing.assert_array_equal(fitted.cells_, clone(smoother).fit(forecast, target).cells_)
        mates &= ~np.eye(n, dtype=bool)
        alone = ~mates.any(axis=1)
        mates[alone] = ~np.eye(n, dtype=bool)[alone]
        expected = mates * weight @ y / (mates @ weight)
        np.testing.assert_allclose(fitted.smooth_held_out(y.astype(float)), expected, atol=1e-12)
        assert alone.any() or not isinstance(smoother, LevelSets)


def test_a_weight_that_dwarfs_the_others():
    """The samples beside a giant keep their own mean: nothing cancels."""
    weight = np.append(1e20, np.ones(7))
    held_out = UniformBins(2).fit(F, T, weight).smooth_held_out()[:, 1]
    np.testing.assert_allclose(held_out[:5], [2 / 4, 0, 0, 0, 0], atol=1e-12)
    kernel = DirichletKernel().fit(F, T, weight)
    assert np.isfinite(kernel.log_likelihood()) and np.isfinite(kernel.smooth()).all()


def test_isotonic_is_that_of_scikit_learn(binary):
    y, forecast = binary
    weight, target = np.random.default_rng(0).uniform(0.2, 3, len(y)), np.eye(2)[y]
    fitted = IsotonicSmoother().fit(forecast, target, weight)
    reference = IsotonicRegression(out_of_bounds="clip").fit(forecast[:, 1], y, weight)
    np.testing.assert_allclose(fitted.smooth()[:, 1], reference.predict(forecast[:, 1]), atol=1e-12)
    grid = np.linspace(0, 1, 301)
    predicted = fitted.predict(pairs(grid))[:, 1]
    np.testing.assert_allclose(predicted, reference.predict(grid), atol=1e-12)
    assert (np.diff(fitted.level_) > 0).all()


#: Scores without ties, with ties, with distances that are equal up to rounding, at the ends.
KINDS = ["plain", "ties", "almost equal", "ends"]


def line_data(kind, n_samples=600):
    rng = np.random.default_rng(0)
    score = rng.random(n_samples)
    if kind == "ties":
        score = np.round(score, 2)
    elif kind == "almost equal":
        score = np.round(64 * score) / 64 + rng.choice([0, 1e-13, 2e-13], n_samples)
    elif kind == "ends":
        score = rng.beta(0.02, 0.02, n_samples)
    score = np.clip(score, 0, 1)
    return score, (rng.random(n_samples) < score).astype(float), rng.uniform(0.1, 3, n_samples)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_held_out_isotonic_curves_are_refits_of_the_folds(kind, weighted):
    """Sorted once, the folds give the numbers that a fit per fold gives, to the last bit."""
    score, y, weight = line_data(kind, 300)
    fitted = IsotonicSmoother().fit(pairs(score), pairs(y), weight if weighted else None)
    for values in (None, (y - score)[:, None]):
        expected = Smoother.smooth_held_out(fitted, values)
        np.testing.assert_array_equal(fitted.smooth_held_out(values), expected)


@pytest.mark.parametrize("weighted", [True, False])
def test_neighbours_on_a_line_are_those_of_the_tree(weighted):
    """Intervals of the sorted scores against the tree, also where differences lose their digits."""
    for kind in [*KINDS, "one is heavy"]:
        score, y, weight = line_data(kind, 240)
        weight = weight if weighted else np.ones(240)
        if kind == "one is heavy":
            weight[score.argmax()] = 1e12
        new = pairs(np.append(score[:50], np.linspace(0, 1, 50)))
        for n_neighbors in (70, 150, 239):
            fitted = NearestNeighborsSmoother(n_neighbors).fit(pairs(score), pairs(y), weight)
            by_intervals = fitted.smooth(), fitted.predict(new)
            with sizes(interval_neighbors=10**6):
                expected = fitted.smooth(), fitted.predict(new)
            for means, means_of_tree in zip(by_intervals, expected, strict=True):
                np.testing.assert_allclose(means, means_of_tree, rtol=0, atol=1e-12)


def test_neighbours_at_the_same_distance_count_alike():
    """Forecasts on a lattice, in two orders, beside the definition; the weights differ."""
    for n_classes, n_neighbors in ((2, 1), (3, 149), (2, 7), (2, 80), (20, 7)):
        rng = np.random.default_rng(n_classes)
        forecast = 0.01 + np.round(6 * rng.dirichlet(np.ones(n_classes), 150)) / 6
        forecast /= forecast.sum(axis=1, keepdims=True)
        values, weight = rng.normal(size=(150, 1)), rng.uniform(0.5, 2, 150)
        fitted = NearestNeighborsSmoother(n_neighbors).fit(forecast, values, weight)
        order, smoothed = rng.permutation(150), fitted.smooth()
        reordered = NearestNeighborsSmoother(n_neighbors)
        reordered.fit(forecast[order], values[order], weight[order])
        np.testing.assert_allclose(reordered.smooth(), smoothed[order], atol=1e-12)
        predicted = reordered.predict(forecast)
        np.testing.assert_allclose(predicted, fitted.predict(forecast), atol=1e-12)
        # Two columns are as far from each other as one, but for a factor.
        distance = np.round(np.linalg.norm(forecast[:, None] - forecast, axis=2), 10)
        np.fill_diagonal(distance, np.inf)
        last = np.sort(distance, axis=1)[:, n_neighbors - 1 : n_neighbors]
        inside, at_end = distance < last, distance == last
        missing = n_neighbors - inside.sum(axis=1, keepdims=True)
        share = (inside + at_end * missing / at_end.sum(axis=1, keepdims=True)) * weight
        np.testing.assert_allclose(smoothed, share @ values / share.sum(axis=1)[:, None], atol=1e-9)


def test_number_of_neighbours():
    """n / 10, 2000 and all others at most; the weight of a sample that is left out cancels."""
    for n_samples, expected in ((5, 1), (200, 20), (30_000, 2000)):
        p = pairs(np.linspace(0, 1, n_samples))
        assert NearestNeighborsSmoother().fit(p, p).n_neighbors_ == expected
    assert NearestNeighborsSmoother(100).fit(F[:2], T[:2]).n_neighbors_ == 1
    fitted = NearestNeighborsSmoother(100).fit(F, T)
    np.testing.assert_allclose(fitted.smooth()[:, 1], (Y8.sum() - Y8) / 7)
    p, values = pairs(np.repeat([0.2, 0.8], 20)), np.arange(40.0)
    fitted = NearestNeighborsSmoother(10).fit(p, p, np.where(np.arange(40) == 3, 1e30, 1.0))
    smoothed = fitted.smooth(values)
    assert smoothed[3] == pytest.approx(np.delete(values[:20], 3).mean(), rel=1e-12)
    np.testing.assert_allclose(smoothed[:3], 3.0)


def test_cross_fitted_by_loops(multiclass):
    """Stratified folds of a number; forecasts of repeated folds are averaged."""
    y, forecast = multiclass
    stratified = (StratifiedKFold(n, shuffle=True, random_state=3) for n in (2, 5))
    repeated = RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)
    cases = [(2, next(stratified)), (None, next(stratified)), (KFold(3), KFold(3))]
    for weighted, (cv, folds) in enumerate([*cases, (repeated, repeated)]):
        weight = np.random.default_rng(0).uniform(0.1, 3, len(y)) if weighted else np.ones(len(y))
        smoother = CrossFitted(GaussianNB(), cv=cv, random_state=3)
        fitted = smoother.fit(forecast, np.eye(3)[y], weight if weighted else None)
        expected = np.zeros_like(forecast)
        for train, test in folds.split(forecast, y):
            model = GaussianNB().fit(forecast[train], y[train], weight[train])
            expected[test] += model.predict_proba(forecast[test])
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(fitted.smooth(), expected, atol=1e-9)


def test_what_cannot_be_cross_fitted(multiclass):
    """Folds without some samples; weights that are not taken. Unseen classes have probability 0."""
    y, forecast = multiclass
    smoother = CrossFitted(GaussianNB(), cv=TimeSeriesSplit(3)).fit(forecast, np.eye(3)[y])
    with pytest.raises(ValueError, match="cv leaves 39 samples without an out-of-fold prediction"):
        smoother.smooth()
    neighbors = CrossFitted(KNeighborsClassifier())
    neighbors.fit(forecast, np.eye(3)[y], 1.0 + np.arange(len(y)))
    with pytest.raises(ValueError, match="KNeighborsClassifier does not take sample_weight"):
        neighbors.smooth()
    equal = neighbors.fit(forecast, np.eye(3)[y], np.full(len(y), 2.0)).smooth()
    np.testing.assert_allclose(equal.sum(axis=1), 1)
    target = np.eye(3)[np.r_[np.zeros(14, int), np.full(15, 2), 1]]
    rows = CrossFitted(GaussianNB(), cv=KFold(3)).fit(forecast[:30], target).smooth()
    assert rows[-1, 1] == 0 and rows.shape == (30, 3)
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    only_one = CrossFitted(GaussianNB()).fit(forecast[:30], np.eye(3)[np.full(30, 2)])
    np.testing.assert_array_equal(only_one.smooth(), np.eye(3)[np.full(30, 2)])


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda: QuantileBins([0, 0.5, 1]).fit(F, T), "give edges to UniformBins"),
        (lambda: UniformBins([0, 0.5]).fit(F, T), "Edges given as n_bins must be numbers"),
        (lambda: DirichletKernel(lambda *_: 0.0).fit(F, T), "bandwidth must be positive and fin"),
        (lambda: DirichletKernel(-0.1).fit(F, T), "must be 'loo', 'risk', 'scott', a positive"),
        (lambda: DirichletKernel("rule").fit(F, T), "must be 'loo', 'risk', 'scott', a positive"),
        (lambda: IsotonicSmoother().fit(F, T - F), "rows of a target of two columns must sum to 1"),
        (lambda: SplineSmoother(n_knots=2).fit(F, T), "n_knots must be 'auto', 3, 4 or 5, got"),
        (lambda: SplineSmoother(n_knots=6).fit(F, T), "n_knots must be 'auto', 3, 4 or 5, got"),
        (
            lambda: SplineSmoother().fit(np.eye(3), np.eye(3)),
            "SplineSmoother needs a problem of two columns",
        ),
        (lambda: CrossFitted(GaussianNB(), cv=1).fit(F, T).smooth(), "cv must be None, a whole"),
        (lambda: CrossFitted(LinearSVC()).fit(F, T).smooth(), "classifier with predict_proba"),
        (lambda: CrossFitted(LinearRegression()).fit(F, T).smooth(), "with predict_proba"),
        (lambda: CrossFitted(GaussianNB()).fit(F, F), "smooths one-hot labels"),
        (lambda: CrossFitted(GaussianNB()).fit(F, T).smooth(P8), "smooths one-hot labels"),
        (lambda: LogitSmoother().fit(F, np.eye(3)[[0] * 8]), "one forecast column per class"),
        (lambda: LogitSmoother().fit(F, 2 * T - 0.5), "smooths one-hot labels"),
        (lambda: UniformBins().fit(F, T[:-1]), "target as many rows"),
        (lambda: UniformBins().fit(P8, T), "forecast must have shape"),
        (lambda: UniformBins().fit(F, T, np.zeros(8)), "sample_weight must be positive"),
        (lambda: UniformBins().fit(F, T).smooth(P8[:-1]), "values must have one row per fitted"),
        (lambda: UniformBins().fit(F[:1], T[:1]).smooth_held_out(), "At least 2 samples"),
        (lambda: DirichletKernel(0.1).fit(F[:1], T[:1]).smooth(), "At least 2 samples"),
        (lambda: DirichletKernel().fit(F[:1], T[:1]), "At least 2 samples"),
        (lambda: NearestNeighborsSmoother(1).fit(F[:1], T[:1]).smooth(), "At least 2 samples"),
        (lambda: LogitSmoother().fit(F[:1], T[:1]).smooth(), "At least 2 samples"),
        (lambda: IsotonicSmoother().fit(F[:1], T[:1]).smooth_held_out(), "At least 2 samples"),
    ],
)
def test_refusals(use, words):
    with pytest.raises(ValueError, match=words):
        use()


@pytest.mark.parametrize(
    "smoother",
    [*PARTITIONS, IsotonicSmoother(), *LEAVE_ONE_OUT, CrossFitted(GaussianNB())],
    ids=repr,
)
def test_two_samples_are_enough(smoother):
    """Each gets what the other one is."""
    fitted = clone(smoother).fit(pairs([0.2, 0.7]), pairs([0.0, 1.0]))
    np.testing.assert_allclose(fitted.smooth_held_out(), [[0, 1], [1, 0]], atol=1e-12)


def test_median_cells_cut_the_largest_variance_at_its_median():
    """By hand: variances .159, .133 and .010; the median of the first coordinate is .80."""
    first, second = np.array([[0.9, 0.85, 0.8, 0.1, 0.15], [0, 0.05, 0.1, 0.6, 0.8]])
    forecast = np.column_stack([first, second, 1 - first - second])
    cells = MedianCells(min_samples=1, n_cells=2).fit(forecast, forecast)
    assert cells.cuts_ == [(0, 0, 0.80, 1)]
    np.testing.assert_array_equal(cells.cells_, [1, 1, 1, 0, 0])
    numbers = [MedianCells(min_samples=n).fit(forecast, forecast).n_cells_ for n in (3, 2, 1)]
    assert numbers == [1, 2, 5]


@pytest.mark.parametrize("min_samples", [10, 100])
def test_median_cells_are_those_of_the_recursion_of_w19(min_samples):
    forecast = make_widmann(3000, model="M2", random_state=0).y_proba
    fitted = MedianCells(min_samples=min_samples).fit(forecast, forecast)
    n_cells, todo = 0, [np.arange(3000)]
    while todo:
        rows = todo.pop()
        column = forecast[rows, forecast[rows].var(axis=0).argmax()]
        below = column < np.median(column)
        if min(below.sum(), (~below).sum()) >= min_samples:
            todo += [rows[below], rows[~below]]
        else:
            assert len(set(fitted.cells_[rows])) == 1
            n_cells += 1
    assert fitted.n_cells_ == n_cells


@pytest.mark.parametrize(("min_samples", "n_classes"), [(1, 2), (7, 3), (10, 10), (100, 3)])
def test_median_cells_keep_their_minimum(min_samples, n_classes):
    forecast = np.random.default_rng(0).dirichlet(np.full(n_classes, 0.3), 1000)
    cells = MedianCells(min_samples=min_samples).fit(forecast, forecast)
    sizes = np.bincount(cells.cells_)
    assert min_samples <= sizes.min() and sizes.max() < 2 * min_samples
    np.testing.assert_array_equal(cells.assign(forecast), cells.cells_)
    few = MedianCells(5, min_samples=min_samples).fit(forecast, forecast)
    assert few.n_cells_ == 5
    # The first cuts are the same: fewer cells are unions of more.
    assert few.cuts_ == cells.cuts_[:4]


def test_median_cells_of_ties():
    """Equal forecasts share a cell; zeros in more than half of a cell do not stop the cuts."""
    ties = np.repeat(np.eye(4), [60, 20, 15, 5], axis=0)
    cells = MedianCells(min_samples=1).fit(ties, ties).cells_
    assert len(set(cells)) == 4 and len({*zip(cells, ties.argmax(axis=1), strict=True)}) == 4
    assert MedianCells().fit(ties, ties).n_cells_ == 3
    assert MedianCells(min_samples=1).fit(ties[:60], ties[:60]).n_cells_ == 1


# --- The averaged maps, out of fold

FEW = "399 samples of 20 classes are fewer than 20 per class: .* notion='top_label'"


@pytest.mark.parametrize("n_classes", [2, 4])
def test_held_out_rows_are_the_averaged_maps_of_the_other_folds(n_classes):
    """Of `ModelAverage`, fitted to the other folds and applied to this one."""
    y, forecast, _ = world("slope", 300, n_classes, seed=0)
    target, weight = np.eye(n_classes)[y], np.random.default_rng(0).uniform(0.5, 2, 300)
    cv = KFold(4, shuffle=True, random_state=0)
    expected = np.empty_like(forecast)
    for train, test in cv.split(forecast):
        average = ModelAverage().fit(forecast[train], target[train], weight[train])
        expected[test] = average.map(forecast[test])
    fitted = LogitSmoother(cv=cv).fit(forecast, target, weight)
    np.testing.assert_allclose(fitted.smooth_held_out(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fitted.smooth(), expected, rtol=1e-9, atol=1e-12)
    whole = ModelAverage().fit(forecast, target, weight).map
    np.testing.assert_allclose(fitted.predict(forecast[:9]), whole(forecast[:9]), rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_label_distributions_and_nothing_else(n_classes):
    rng = np.random.default_rng(0)
    forecast, target = rng.dirichlet(np.ones(n_classes), (2, 200))
    fitted = LogitSmoother().fit(forecast, target)
    assert np.abs(fitted.smooth() - target.mean(axis=0)).max() < 0.2
    target[0, :2] = [-0.5, 1 - target[0, 2:].sum() + 0.5]
    for wrong in (target, 2 * np.abs(target), target[:, :1], target[:, 0]):
        with pytest.raises(ValueError, match="smooths one-hot labels|one forecast column per"):
            fitted.smooth(wrong)


def test_few_samples_of_many_classes_are_warned_of():
    """The same words as of the default error; not with enough samples, nor for few classes."""
    rng = np.random.default_rng(0)
    forecast = rng.dirichlet(np.ones(20), 400)
    y = labels_from(forecast, rng)
    target = np.eye(20)[y]
    with pytest.warns(UserWarning, match=FEW) as of_smoother:
        LogitSmoother().fit(forecast[:399], target[:399])
    with pytest.warns(UserWarning, match=FEW) as of_error:
        proper_calibration_error(y[:399], forecast[:399], labels=np.arange(20))
    assert {str(w.message) for w in of_smoother} == {str(w.message) for w in of_error}
    LogitSmoother().fit(forecast, target)  # enough: a warning would be an error here
    proper_calibration_error(y, forecast, labels=np.arange(20))
    fewer = forecast[:50, :19] / forecast[:50, :19].sum(axis=1, keepdims=True)
    LogitSmoother().fit(fewer, np.eye(19)[np.arange(50) % 19])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_that_is_missing_in_a_fold(n_classes):
    """Folds without a label of the last class, and data without one: probabilities, never a NaN."""
    rng = np.random.default_rng(3)
    forecast = rng.dirichlet(np.ones(n_classes), 120)
    y = rng.integers(n_classes - 1, size=120)
    target = np.eye(n_classes)
    some = y.copy()
    some[100:] = n_classes - 1  # the last fold of KFold holds all of them
    for labels in (some, y):
        fitted = LogitSmoother(cv=KFold(6)).fit(forecast, target[labels])
        for rows in (fitted.smooth_held_out(), fitted.predict(np.eye(n_classes))):
            assert np.isfinite(rows).all() and (rows >= 0).all()
            np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-9)
    fitted = LogitSmoother(cv=KFold(6)).fit(forecast, target[some])
    # Trained without the class, the last fold gets little of it.
    held_out = fitted.smooth_held_out()[100:, -1]
    assert held_out.mean() < 0.5 * forecast[100:, -1].mean()
