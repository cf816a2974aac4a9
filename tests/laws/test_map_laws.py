"""Each map on a grid of (0, 1) with its ends: monotone beyond its scores, and inside [0, 1]."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from public_estimators import RECALIBRATORS, quick
from scipy.special import expit, logit, softmax
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import skcalib as s
from skcalib.datasets import make_tempered_simplex
from skcalib.export import from_json, to_json
from skcalib.recalibration import OneVsRestRecalibrator

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

#: Maps that may fall among the scores that they were fitted to, as their docstrings say.
FALLING = (
    s.HistogramBinning,
    s.recalibration.KernelRecalibrator,
    s.recalibration.LabelFrequency,
    s.recalibration.ModelAverageScaling,
    s.recalibration.QuadraticScaling,
    s.SplineScaling,
    s.StackedRecalibrator,
    s.GroupRecalibrator,
    s.recalibration.MatrixScaling,
    s.DirichletCalibration,
    s.VectorScaling,
)
INSTANCES = [
    *(quick(kind) for kind in RECALIBRATORS),
    s.StackedRecalibrator(),
    s.GroupRecalibrator(s.recalibration.QuadraticScaling()),
    s.HistogramBinning(strategy="uniform"),
    s.IsotonicRecalibrator(strict=True),
    s.IsotonicRecalibrator(centered=True),
    s.recalibration.DiagonalOrderPreserving(variant="pieces"),
    s.BetaCalibration(parameters="ab"),
]
SLOW = [
    recalibrator
    for recalibrator in INSTANCES
    if isinstance(recalibrator, s.StackedRecalibrator) and recalibrator.candidates is None
]
GRID = np.unique(
    [
        *(0.0, 1e-300, 1e-40, 1e-17, 1e-7, 1 - 1e-7, 1 - 1e-16, 1.0),
        *expit(np.linspace(-37, 37, 400)),
        *(np.arange(101) / 100),
    ]
)
N_SAMPLES = 200


def saturated(rng):
    """Log odds beyond the numbers of single precision, in which many forecasts are 1."""
    return expit(rng.normal(0, 9, N_SAMPLES).astype(np.float32)).astype(np.float64)


def votes(rng):
    """Of a hundred trees."""
    return rng.binomial(100, expit(rng.normal(0, 2, N_SAMPLES)))


TIES = [0.1, 0.2, 0.3, 0.45, 0.5, 0.6, 0.8, 0.9]
SCORES = {
    "narrow": lambda rng: rng.uniform(0.3, 0.7, N_SAMPLES),
    "wide": lambda rng: expit(rng.normal(0, 3, N_SAMPLES)),
    "rare": lambda rng: expit(rng.normal(-5, 1, N_SAMPLES)),
    "tied": lambda rng: rng.choice(TIES, N_SAMPLES),
    "constant": lambda rng: np.full(N_SAMPLES, 0.3),
    "saturated": saturated,
    "nearly_saturated": lambda rng: np.clip(saturated(rng), 1e-6, 1 - 1e-6),
    "voted": lambda rng: votes(rng) / 100,
    "voted_without_ends": lambda rng: np.clip(votes(rng), 1, 99) / 100,
}


@cache
def samples(scores, reflected):
    rng = np.random.default_rng(1)
    p = SCORES[scores](rng)
    assert (p == 1).any() == (scores in ("saturated", "voted"))
    assert (p == 0).any() == (scores == "voted")
    y = (rng.random(len(p)) < expit(0.7 * logit(np.clip(p, 1e-6, 1 - 1e-6)))).astype(int)
    y[:2] = 0, 1
    return (1 - p, 1 - y) if reflected else (p, y)


def name_of(recalibrator):
    options = [
        str(v) for v in recalibrator.get_params().values() if v in ("uniform", "pieces", "ab")
    ]
    return "-".join([type(recalibrator).__name__, *options])


#: The mixture of all maps takes a second.
PAIRS = [
    pytest.param(recalibrator, scores, id=f"{name_of(recalibrator)}-{scores}")
    for recalibrator, scores in product(INSTANCES, SCORES)
    if recalibrator not in SLOW or scores in ("narrow", "voted_without_ends")
]


@pytest.mark.parametrize("reflected", [False, True], ids=["event", "other class"])
@pytest.mark.parametrize(("recalibrator", "scores"), PAIRS)
def test_maps_of_two_classes(recalibrator, scores, reflected):
    """Monotone beyond the scores, also inside unless the docstring says otherwise; in [0, 1].

    The same rows in single precision have the same answers, up to their own rounding errors.
    """
    p, y = samples(scores, reflected)
    fitted = clone(recalibrator).fit(p, y)
    proba = fitted.predict_proba(GRID)
    assert proba.min() >= 0 and proba.max() <= 1
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)
    steps = np.diff(proba[:, 1])
    beyond = (GRID[1:] <= p.min()) | (GRID[:-1] >= p.max())
    everywhere = not isinstance(recalibrator, FALLING) or fitted.preserves_order_
    checked = beyond | everywhere
    if len(np.unique(p)) > 1:  # of a single score every line through it fits the labels
        assert steps[checked].min(initial=0) >= -1e-10, GRID[:-1][checked][steps[checked].argmin()]
    if fitted.preserves_order_:
        assert np.all((GRID - 0.5) * (proba[:, 1] - 0.5) >= -1e-12)
    rows = p if scores in ("voted", "saturated") else np.clip(p, 1e-3, 1 - 1e-3)
    expected, single = (fitted.predict_proba(rows.astype(kind)) for kind in (float, np.float32))
    np.testing.assert_allclose(single, expected, rtol=0, atol=2e-3)


def simplex(kind, rng):
    z = rng.normal(0, {"narrow": 0.3, "wide": 3.0, "saturated": 30.0, "voted": 1.5}[kind], (300, 4))
    P = softmax(z, axis=1)
    if kind == "saturated":
        P = softmax(z.astype(np.float32), axis=1).astype(np.float64)
        P[P < 1e-30] = 0.0
    if kind == "voted":
        P = (rng.multinomial(100, P) + 0.25) / 101
    y = np.array([rng.choice(4, p=row) for row in softmax(0.7 * z, axis=1)])
    y[:4] = range(4)
    return P, y


@pytest.mark.parametrize("kind", ["narrow", "wide", "saturated", "voted"])
@pytest.mark.parametrize(
    "recalibrator", [map_ for map_ in INSTANCES if map_ not in SLOW], ids=name_of
)
def test_impossible_classes_of_several(recalibrator, kind):
    """Rows with exact zeros and tiny values: on the simplex, and in order where that is kept."""
    P, y = simplex(kind, np.random.default_rng(0))
    fitted = clone(recalibrator).fit(P, y)
    tiny = [0.0, 1e-300, 1e-30, 1e-12, 1e-7, 1e-4]
    rows = np.array([[0.6 - a - b, 0.4, a, b] for a in tiny for b in tiny])
    rows = np.vstack([rows, np.eye(4), rows[:, ::-1]])
    proba = fitted.predict_proba(rows)
    assert proba.min() >= 0 and np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)
    if fitted.preserves_order_:
        before = rows[:, :, None] - rows[:, None, :]
        after = proba[:, :, None] - proba[:, None, :]
        assert np.all(np.sign(before) * after >= -1e-15)


@pytest.mark.parametrize(
    "recalibrator",
    [s.VectorScaling(shrinkage=0.0), s.recalibration.MatrixScaling(shrinkage=0.0),
    s.recalibration.ModelAverageScaling(),
     s.recalibration.QuadraticScaling()],
    ids=lambda map_: type(map_).__name__,
)  # fmt: skip
def test_confidence_beyond_the_scores_of_several_classes(recalibrator):
    """Along a ray from the centre of the simplex the most likely class never becomes less likely,
    from the last confidence on that the labels support."""
    rng = np.random.default_rng(3)
    z = rng.normal(0, 0.4, (400, 3))
    y = np.array([rng.choice(3, p=row) for row in softmax(1.5 * z + [0.2, 0, -0.2], axis=1)])
    fitted = clone(recalibrator).fit(softmax(z, axis=1), y)
    direction = np.array([1.0, -0.2, -0.8])
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        rays = np.linspace(2.0, 9, 60)[:, None] * direction[order]
        top = fitted.predict_proba(softmax(rays, axis=1))[:, np.argmax(direction[order])]
        assert np.diff(top).min() >= -1e-10 and top[-1] > 0.5


# --- The limit of detection -----------------------------------------------------------------------


def test_a_probability_of_one_is_not_below_one_that_is_smaller():
    """Saturated single precision after maps were fitted without it, and unanimous forests."""
    p, y = samples("wide", False)
    votes, label = samples("voted_without_ends", False)
    for kind in (s.TemperatureScaling, s.PlattScaling, s.BetaCalibration, s.SplineScaling):
        proba = kind().fit(p, y).predict_proba([1 - 1e-7, 1.0])[:, 1]
        assert proba[0] <= proba[1]
        proba = kind().fit(votes, label).predict_proba([0.0, 0.01, 0.05])[:, 1]
        assert proba[0] <= proba[1] < proba[2]


@pytest.mark.parametrize(
    ("forecast", "limit"),
    [
        ([0.0, 0.04, 0.3], 0.02),  # half of the smallest beside zeros
        (np.arange(1, 100) / 100, 0.005),  # votes of a hundred trees
        (np.arange(1, 500) / 500, 0.001),
        (np.arange(1, 10) / 10, 0.005),  # of ten trees, which say little about less than .01
        (np.arange(1, 100).astype(np.float32) / np.float32(100), 0.005),
        (np.linspace(0.3, 0.7, 99) ** 1.1, 2.0**-25),  # no step: single precision
        ([1e-9, 2.7e-9, 0.31], 5e-10),
    ],
)
def test_limit_of_detection(forecast, limit):
    forecast = np.asarray(forecast)
    P = np.column_stack([1 - forecast, forecast])
    y = np.arange(len(P)) % 2
    detection_limit = s.TemperatureScaling(labels=[0, 1]).fit(P, y).detection_limit_
    assert detection_limit == pytest.approx(limit, rel=1e-3)
    below = np.array([0.0, limit / 1000, limit / 2, limit])
    mapped = s.PlattScaling(labels=[0, 1]).fit(P, y).predict_proba(below)[:, 1]
    np.testing.assert_allclose(mapped, mapped[-1], rtol=1e-2)


# --- Beyond the scores ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        s.recalibration.QuadraticScaling,
        s.recalibration.KernelRecalibrator,
        s.SplineScaling,
        s.recalibration.ModelAverageScaling,
    ],
    ids=lambda kind: kind.__name__,
)
def test_extremes_are_on_the_right_side_of_narrow_scores(kind):
    """Scores in [.3, .7] whose log odds are too large: means of 12 samples, within 4 errors."""
    ends, answers = np.array([1e-3, 0.999]), []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.3, 0.7, 400)
        y = (rng.random(400) < expit(0.6 * logit(p))).astype(int)
        answers.append(logit(kind().fit(p, y).predict_proba(ends)[:, 1]))
    answers = np.array(answers)
    assert np.all(answers[:, 0] < 0) and np.all(answers[:, 1] > 0)
    slope = answers.mean(axis=0) / logit(ends)
    error = answers.std(axis=0) / np.sqrt(12) / np.abs(logit(ends))
    # The truth is .6; a kernel is flatter, and the average is shrunk towards the identity.
    low, high = {
        s.recalibration.KernelRecalibrator: (0.3, 0.6),
        s.recalibration.ModelAverageScaling: (0.6, 1.0),
    }.get(kind, (0.6, 0.6))
    assert error.max() < 0.08
    assert np.all(slope > low - 4 * error) and np.all(slope < high + 4 * error)


def test_the_map_is_continuous_at_the_ends_of_its_scores_and_a_line_beyond():
    p, y = samples("narrow", False)
    for kind in (s.recalibration.QuadraticScaling, s.recalibration.KernelRecalibrator):
        fitted = kind().fit(p, y)
        odds = logit(np.array([p.min(), p.max()]))
        near = fitted.predict_proba(expit(odds[:, None] + [-1e-9, 0, 1e-9]).ravel())[:, 1]
        np.testing.assert_allclose(near.reshape(2, 3)[:, 1:], near.reshape(2, 3)[:, :2], atol=1e-8)
        line = logit(fitted.predict_proba(expit(odds[1] + np.array([1.0, 2.0, 3.0])))[:, 1])
        np.testing.assert_allclose(np.diff(line, 2), 0, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "recalibrator",
    [s.VectorScaling(shrinkage=0.0), s.recalibration.MatrixScaling(shrinkage=0.0),
    s.recalibration.ModelAverageScaling(),
     s.recalibration.QuadraticScaling(), s.recalibration.KernelRecalibrator(), s.SplineScaling(),
     s.VennAbersRecalibrator(),
     s.HistogramBinning(n_bins=4)],
    ids=lambda map_: type(map_).__name__,
)  # fmt: skip
def test_exported_maps_continue_in_the_same_way(recalibrator, n_classes):
    """Labels that fall with the score of one class, so that affine maps and splines do."""
    rng = np.random.default_rng(3)
    z = rng.normal(0, 0.5, (300, n_classes))
    slopes = np.append(np.full(n_classes - 1, 2.0), -1.5)
    y = np.array([rng.choice(n_classes, p=row) for row in softmax(slopes * z, axis=1)])
    P = softmax(z, axis=1)
    fitted = clone(recalibrator).fit(P, y)
    if n_classes == 3 and isinstance(
        fitted, (s.recalibration.QuadraticScaling, s.recalibration.KernelRecalibrator)
    ):
        assert None not in fitted._ends
    if n_classes == 3 and isinstance(fitted, s.VectorScaling):
        assert fitted._ends is not None and not fitted.injective_
    rows = np.vstack([softmax(rng.normal(0, 9, (200, n_classes)), axis=1), P, np.eye(n_classes)])
    exported = from_json(to_json(fitted)).predict_proba(rows)
    np.testing.assert_allclose(exported, fitted.predict_proba(rows), rtol=0, atol=1e-10)


def test_forecasts_outside_are_counted():
    world = make_tempered_simplex(200, 3, random_state=0)
    temperature = s.TemperatureScaling().fit(world.y_proba, world.y)
    assert (
        temperature.calibration_range_.shape == (3, 2)
        and not temperature.outside(world.y_proba).any()
    )
    assert not temperature.outside(world.y_proba.astype(np.float32)).any()
    assert temperature.outside(np.eye(3)).all()
    p, y = samples("narrow", False)
    for kind in RECALIBRATORS:
        fitted = quick(kind).fit(p, y)
        np.testing.assert_array_equal(fitted.outside([0.1, 0.5, 0.999]), [True, False, True])
    logits = s.PlattScaling(input="logits").fit(logit(p), y)
    np.testing.assert_array_equal(logits.outside([-9.0, 0.0, 9.0]), [True, False, True])
    assert issubclass(s.recalibration.QuadraticScaling, OneVsRestRecalibrator)
    sketch = s.ForecastSketch([0, 1], notion="canonical").fit(y, p)
    assert s.recalibration.QuadraticScaling().fit_sketch(sketch).outside([0.1, 0.5]).tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize("recalibrator", INSTANCES, ids=name_of)
def test_a_calibration_set_is_inside_of_its_range(recalibrator):
    """Of two and three classes and of sums, with weights of zero, which do not count."""
    rng = np.random.default_rng(2)
    for n_classes in (2, 3):
        P = softmax(rng.normal(0, 0.4, (60, n_classes)), axis=1)
        y, weight = np.arange(60) % n_classes, np.ones(60)
        P[-1], weight[-1] = np.eye(n_classes)[0] * 0.98 + 0.02 / n_classes, 0.0
        fitted = clone(recalibrator).fit(P, y, weight)
        np.testing.assert_array_equal(fitted.calibration_range_[:, 0], P[:-1].min(axis=0))
        np.testing.assert_array_equal(fitted.calibration_range_[:, 1], P[:-1].max(axis=0))
        np.testing.assert_array_equal(fitted.outside(P), weight == 0)
        np.testing.assert_array_equal(fitted.outside(P.astype(np.float32)), weight == 0)


@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize(("classifier", "n_classes"), [(LogisticRegression, 2), (LinearSVC, 3)])
@pytest.mark.parametrize(
    "recalibrator",
    [s.PlattScaling(), s.GroupRecalibrator(cv=2), s.IsotonicRecalibrator(), "auto", "select",
     s.VectorScaling(shrinkage=1.0), LogisticRegression(),
     make_pipeline(s.TemperatureScaling(), s.LabelShiftRecalibrator())],
    ids=lambda model: getattr(model, "steps", [(model, model)])[-1][1].__class__.__name__,
)  # fmt: skip
def test_samples_outside_of_a_recalibrated_classifier(
    classifier, recalibrator, n_classes, ensemble
):
    """Its maps, of this library or not, meet held-out forecasts; samples of weight 0 do not count.

    The class of the largest forecast beyond them all is certain for each model.
    """
    rng = np.random.default_rng(1)
    centres = np.eye(n_classes)
    y = np.arange(150) % n_classes
    X = centres[y] + rng.normal(0, 1, (150, n_classes))
    far = 30 * centres - 10
    weight = np.r_[np.ones(150), np.full(n_classes, 1e-9), np.zeros(n_classes)]
    X, y = np.vstack([X, 0.1 * far, far]), np.r_[y, np.arange(n_classes), np.arange(n_classes)]
    weight[150 : 150 + n_classes] = 1.0
    model = s.RecalibratedClassifierCV(
        classifier(), recalibrator, cv=3, ensemble=ensemble, candidates=_few(recalibrator)
    ).fit(X, y, weight)
    low, high = model.calibration_range_.T
    assert model.calibration_range_.shape == (n_classes, 2) and np.all((low > 0) & (high < 1))
    assert model.outside(far).all()
    assert model.outside(X[:150]).mean() < 0.05
    if not ensemble and isinstance(model.recalibrator_, s.PlattScaling | s.VectorScaling):
        np.testing.assert_array_equal(
            model.calibration_range_, model.recalibrator_.calibration_range_
        )


def _few(recalibrator):
    names = ("auto", "select")
    return [s.TemperatureScaling(), s.PlattScaling()] if recalibrator in names else None


def test_samples_outside_of_a_frozen_classifier():
    """They are those that the fitted map finds outside."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    y = (X.sum(axis=1) + rng.normal(size=300) > 0).astype(int)
    frozen = FrozenEstimator(LogisticRegression().fit(X[:100], y[:100]))
    model = s.RecalibratedClassifierCV(frozen, "platt").fit(X[100:200], y[100:200])
    assert not model.outside(X[100:200]).any()
    rows = np.vstack([5 * X[200:], X[200:]])
    expected = model.recalibrator_.outside(frozen.predict_proba(rows))
    assert 0 < expected.mean() < 1
    np.testing.assert_array_equal(model.outside(rows), expected)
    labels = s.LabelShiftRecalibrator([0.5, 0.5], [0.4, 0.6]).fit([0.3, 0.4, 0.6])
    np.testing.assert_array_equal(labels.outside([0.2, 0.35, 0.7]), [True, False, True])


def test_labels_outside_of_their_range():
    """Each of several labels has a map and a range of its own, from its known cells."""
    rng = np.random.default_rng(1)
    P = rng.uniform(0.2, 0.8, (100, 2))
    y = (rng.random(P.shape) < P).astype(float)
    P[0, 1], y[0, 1] = 0.99, np.nan
    fitted = s.MultilabelRecalibrator().fit(P, y)
    assert fitted.calibration_range_.shape == (2, 2)
    expected = np.zeros(P.shape, dtype=bool)
    expected[0, 1] = True
    np.testing.assert_array_equal(fitted.outside(P), expected)
    with pytest.raises(ValueError, match="does not know its calibration set"):
        from_json(to_json(fitted)).outside(P)


# --- What a report recommends ---------------------------------------------------------------------

OFTEN = np.array([1e-6, 0.001, 0.01, 0.5])
RANGES = {
    "middle": lambda rng, n: rng.uniform(0.3, 0.7, n),
    "wide": lambda rng, n: rng.uniform(0.02, 0.98, n),
    "bell": lambda rng, n: rng.beta(2, 2, n),
    "low": lambda rng, n: rng.uniform(0.001, 0.3, n),
    "high": lambda rng, n: rng.uniform(0.6, 0.98, n),
    "certain": lambda rng, n: expit(rng.normal(0, 4, n)),
    "rare": lambda rng, n: expit(rng.normal(-4, 1.5, n)),
}


def overconfident(p):
    """About .052, .167, .236, .422 for OFTEN."""
    return expit(0.187 * logit(p) - 0.313)


def world(scores, n, seed):
    rng = np.random.default_rng(1000 * n + seed)
    p = RANGES[scores](rng, n)
    return p, (rng.random(n) < overconfident(p)).astype(int)


def recommended(p, y):
    """The map that a report recommends, fitted to all samples."""
    name = s.CalibrationReport.from_predictions(y, p).findings.advice.recommended
    options = {"strict": True} if name == "IsotonicRecalibrator" else {}
    return getattr(s.recalibration, name or "IdentityRecalibrator")(**options).fit(p, y)


def check_extremes(fitted, p, y):
    """Monotone everywhere, and no answer to a rare forecast is above that to an even one."""
    proba = fitted.predict_proba(np.union1d(GRID, p))[:, 1]
    assert np.diff(proba).min() >= -1e-10
    assert fitted.predict_proba(OFTEN)[:, 1].max() <= 0.65


@pytest.mark.parametrize(("scores", "n", "seed"), [("rare", 200, 8), ("middle", 500, 11)])
def test_recommended_maps_do_not_fall(scores, n, seed):
    """Seeds that recommended a spline that fell, and ones that did not."""
    p, y = world(scores, n, seed)
    check_extremes(recommended(p, y), p, y)


@pytest.mark.parametrize(
    ("scores", "n", "seed"),
    [("middle", 200, 0), ("bell", 200, 3), ("low", 200, 4), ("high", 200, 4)],
)
def test_mixtures_do_not_fall_by_chance(scores, n, seed):
    """Seeds of which the mixture of all maps fell, some at the rare forecasts."""
    p, y = world(scores, n, seed)
    fitted = s.StackedRecalibrator().fit(p, y)
    assert fitted.monotone_
    check_extremes(fitted, p, y)


def test_mixtures_fall_where_the_labels_do():
    """A truth that falls, and scores of the other class."""
    rng = np.random.default_rng(1)
    odds = rng.normal(size=1500)
    for truth in (0.4 * odds + 0.9 * np.sin(2 * odds), -odds):
        y = (rng.random(len(odds)) < expit(truth)).astype(int)
        fitted = s.StackedRecalibrator().fit(expit(odds), y)
        assert not fitted.monotone_
        gap = fitted.predict_proba(expit(odds))[:, 1] - expit(truth)
        assert np.sqrt(np.mean(gap**2)) < 0.06


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 500, 2000])
@pytest.mark.parametrize("scores", RANGES)
def test_recommended_maps_over_seeds(scores, n):
    """The recommended map never falls; the mixture at most once, where labels speak for it."""
    falls, errors = 0, []
    for seed in range(6):
        p, y = world(scores, n, seed)
        check_extremes(recommended(p, y), p, y)
        mixture = s.StackedRecalibrator().fit(p, y)
        falls += not mixture.monotone_
        proba = mixture.predict_proba(OFTEN)[:, 1]
        assert np.all(proba < 0.7)
        errors.append(proba - overconfident(OFTEN))
    assert falls <= 1
    bias = np.abs(np.mean(errors, axis=0))
    assert bias[1:3].max() < (0.25 if n == 200 else 0.2)
