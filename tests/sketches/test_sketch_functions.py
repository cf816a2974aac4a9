"""Functions of a sketch against the same functions of the samples.

Differences of estimates and limits are in standard errors, unless stated otherwise.
"""

from dataclasses import fields, is_dataclass
from functools import partial, reduce

import numpy as np
import pytest
from dense_directions import labels_from
from grids import covering, rotated
from scipy.stats import binom
from sklearn.exceptions import NotFittedError

import skcalib as s
from skcalib.datasets import make_tempered_simplex

CASES = {"binary": (2, "canonical"), "top label": (3, "top_label"), "classwise": (3, "classwise")}
WEIGHTS = ("none", "equal", "whole", "gamma")


def tied(n_samples, n_classes=2, *, seed=0):
    """Labels, and forecasts of few distinct values that are not calibrated."""
    rng = np.random.default_rng(seed)
    if n_classes == 2:
        score = rng.integers(1, 100, n_samples) / 100
        return (rng.random(n_samples) < 0.1 + 0.75 * score).astype(int), score
    parts = rng.integers(1, 20, (n_samples, 3))
    parts = np.round(20 * parts / parts.sum(axis=1, keepdims=True)).astype(int)
    parts[:, 2] = 20 - parts[:, :2].sum(axis=1)
    parts[(parts < 1).any(axis=1)] = [12, 5, 3]
    return labels_from(0.8 * parts / 20 + 0.2 / 3, rng), parts / 20


def continuous(n_samples, n_classes=2, *, seed=0):
    """Labels and forecasts without ties, some of them below 1e-9 or within 1e-9 of 1."""
    rng = np.random.default_rng(seed)
    if n_classes == 2:
        score = rng.beta(0.4, 0.5, n_samples)
        return (rng.random(n_samples) < 0.1 + 0.75 * score).astype(int), score
    proba = rng.dirichlet(np.full(3, 0.5), n_samples)
    return labels_from(0.8 * proba + 0.2 / 3, rng), proba


def weights(kind, n_samples, seed=1):
    rng = np.random.default_rng(seed)
    return {
        "none": None,
        "equal": np.full(n_samples, 0.3),
        "whole": rng.integers(1, 4, n_samples).astype(float),
        "gamma": rng.gamma(2.0, 1.0, n_samples),
    }[kind]


def sketch_of(case, y, proba, weight=None, **options):
    n_classes, notion = CASES[case]
    return s.ForecastSketch(range(n_classes), notion=notion, **options).fit(y, proba, weight)


def numbers(record, name=""):
    """All numbers and texts of a result by name."""
    if is_dataclass(record):
        record = {field.name: getattr(record, field.name) for field in fields(record)}
    elif isinstance(record, list | tuple):
        record = dict(enumerate(record))
    elif not isinstance(record, dict):
        return {name: record}
    return {
        k: v for key, value in record.items() for k, v in numbers(value, f"{name}.{key}").items()
    }


def agree(record, expected, rtol, atol=1e-12, others=None):
    """The same texts, and the same numbers up to a tolerance; no NaN.

    `others` are pairs of the beginning of a name and another tolerance.
    """
    record, expected = numbers(record), numbers(expected)
    others = [*(others or ()), (".unreliability_pvalue", (0, 0.08))]  # of 999 labelings
    if "labels drawn" in str(expected.get(".method")):
        others.append((".pvalue", (0, 0.08)))
    assert record.keys() == expected.keys()
    for name, value in expected.items():
        if value is None or isinstance(value, str | bool):
            assert record[name] == value, name
        else:
            assert not np.isnan(record[name]).any(), name
            special = [tolerance for start, tolerance in others if name.startswith(start)]
            tolerance = special[0] if special else (rtol, atol)
            np.testing.assert_allclose(record[name], value, *tolerance, err_msg=name)


ONE_NUMBER = s.proper_calibration_error, s.refinement_loss, s.calibration_upper_bound
#: Functions of a loss and a notion.
OF_LOSSES = (*ONE_NUMBER, s.score_decomposition)
TIED = {f"{f.__name__}, {loss}": (f, {"loss": loss}) for f in OF_LOSSES
        for loss in ("brier", "log")}  # fmt: skip
WITHOUT_LEVERAGE = {
    "mean distance": (s.integrated_calibration_index, {}),
    "quantile of distances": (s.integrated_calibration_index, {"quantile": 0.9}),
    "confidence band": (s.errors.corp_bands, {"band": "confidence"}),
    "isotonic": (s.corp_decomposition, {}),
    "isotonic, spherical": (s.corp_decomposition, {"loss": "spherical"}),
}
OF_EVENTS = {**TIED, **WITHOUT_LEVERAGE}
ALONE = [name for name in TIED if "decomposition" in name]  # for one event
CALLS = covering(CASES, WEIGHTS, [name for name in OF_EVENTS if name not in ALONE])
CALLS += covering(["binary", "top label"], WEIGHTS, ALONE)


@pytest.mark.parametrize(("case", "kind", "name"), CALLS)
def test_functions_of_tied_scores(case, kind, name):
    """Unequal weights in a cell: the leverage of a sample is that of its mean weight, and the
    p-value of the shifts in cells uses third moments of the samples."""
    y, proba = tied(3000, CASES[case][0])
    weight = weights(kind, 3000)
    function, options = OF_EVENTS[name]
    options = {"notion": CASES[case][1], **options}
    if name in WITHOUT_LEVERAGE:
        tolerance = 1e-11 if weight is None else 1e-4, 1e-12
    else:
        tolerance = 0, 1e-13 if kind in ("none", "equal") or "bound" in name else 2e-6
    value = function(sketch_of(case, y, proba, weight), **options)
    agree(value, function(y, proba, sample_weight=weight, **options), *tolerance)


#: Metrics whose noise has its third and fourth moments from the samples.
MOMENTS = ("brier", "log", "ici")
METRICS = ("l1", "ece", "l2", "debiased_l2", "squared_l2", "max", "ks", "upper_bound", *MOMENTS)


@pytest.mark.parametrize("case", ["binary", "top label"])
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("metric", METRICS)
def test_intervals_of_tied_scores(case, kind, metric):
    """Unequal weights in a cell: below .01 standard errors, .06 for lower limits close to zero."""
    y, proba = tied(3000, CASES[case][0])
    weight, options = weights(kind, 3000), {"metric": metric, "notion": CASES[case][1]}
    interval = s.calibration_error_interval(sketch_of(case, y, proba, weight), **options)
    expected = s.calibration_error_interval(y, proba, sample_weight=weight, **options)
    unknown = metric in MOMENTS and kind in ("whole", "gamma")
    tolerance = (0.1 if unknown else 1e-8) * expected.standard_error
    for name in ("low", "high"):
        assert getattr(interval, name) == pytest.approx(getattr(expected, name), abs=tolerance)
    assert interval.estimate == pytest.approx(expected.estimate, abs=tolerance / 100)
    relative = 0.02 if unknown else 1e-8
    assert interval.standard_error == pytest.approx(expected.standard_error, rel=relative)
    for name in ("method", "target", "valid", "conservative"):
        assert getattr(interval, name) == getattr(expected, name)


def test_many_times_the_samples_are_that_many_samples():
    """Rows of many samples have the standard errors of that many samples."""
    y, score = tied(200)
    sketch = sketch_of("binary", y, score)
    many = reduce(lambda total, _: total + total, range(4), sketch)
    times = np.repeat(np.arange(200), 16)
    for function in BINARY.values():
        agree(function(many), function(y[times], score[times]), 1e-8)


@pytest.mark.parametrize("kind", ["none", "equal"])
def test_consistency_bands_have_the_same_law(kind):
    """Ends of 1,999 draws: their Monte Carlo error is about .03 of the width of the band."""
    y, score = tied(1500)
    weight = weights(kind, 1500)
    (bands,) = s.errors.corp_bands(sketch_of("binary", y, score, weight), n_resamples=1999)
    (expected,) = s.errors.corp_bands(y, score, sample_weight=weight, n_resamples=1999)
    np.testing.assert_allclose(bands.forecast, expected.forecast, rtol=1e-14)
    np.testing.assert_allclose(bands.recalibrated, expected.recalibrated, rtol=1e-12)
    width = expected.high - expected.low
    for end in ("low", "high"):
        assert (np.abs(getattr(bands, end) - getattr(expected, end)) < 0.2 * width).all()
    assert (bands.high - bands.low).mean() == pytest.approx(width.mean(), rel=0.02)


@pytest.mark.parametrize(("case", "loss"), [("top label", "brier"), ("binary", "log")])
def test_corp_tests_have_the_same_law(case, loss):
    y, proba = tied(400, CASES[case][0], seed=3)
    near = np.random.default_rng(1).random(400) < 0.6  # p-values that are neither 0 nor 1
    if case == "binary":
        y = np.where(near, np.random.default_rng(2).random(400) < proba, y).astype(int)
    options = {"loss": loss, "n_resamples": 1999}
    pvalues = s.errors.corp_test(sketch_of(case, y, proba), **options)
    expected = s.errors.corp_test(y, proba, notion=CASES[case][1], **options)
    assert pvalues.statistic == pytest.approx(expected.statistic, rel=1e-10)
    assert pvalues.method == expected.method
    middle = (pvalues.pvalue + expected.pvalue) / 2
    error = np.sqrt(2 * middle * (1 - middle) / 2000)
    assert 0.01 < middle < 0.99 and abs(pvalues.pvalue - expected.pvalue) < 4 * error
    assert pvalues.estimate == pytest.approx(expected.estimate, abs=0.05 * pvalues.statistic)


#: Metric -> largest difference of estimates and limits, in standard errors.
CONTINUOUS = {
    **dict.fromkeys(("l1", "ece"), 0.2),  # the lower limit depends on the bins near zero
    **dict.fromkeys(("l2", "debiased_l2", "squared_l2"), 0.03),
    "ks": 0.1,  # thresholds are cuts of equal mass, which cells move by a part of a cell
    **dict.fromkeys(("max", "ici"), 0.08),
    **dict.fromkeys(("brier", "log"), 0.15),  # ties are in one cell of the partition for jumps
    "upper_bound": 1e-4,
}
SLOW = {"marks": pytest.mark.slow}
INTERVALS = [(metric, 3000, kind) for metric in CONTINUOUS for kind in ("none", "gamma")]
INTERVALS += [(metric, 100_000, "none") for metric in ("ks", "brier")]
INTERVALS += [pytest.param(m, 100_000, "none", **SLOW) for m in ("log", "ici", "l1", "l2")]


@pytest.mark.parametrize("case", ["binary", "top label"])
@pytest.mark.parametrize(("metric", "n_samples", "kind"), INTERVALS)
def test_intervals_of_scores_without_ties(case, metric, n_samples, kind):
    y, proba = continuous(n_samples, CASES[case][0])
    weight, options = weights(kind, n_samples), {"metric": metric, "notion": CASES[case][1]}
    interval = s.calibration_error_interval(sketch_of(case, y, proba, weight), **options)
    expected = s.calibration_error_interval(y, proba, sample_weight=weight, **options)
    tolerance = CONTINUOUS[metric] * expected.standard_error
    most = 0.08 if metric in ("l1", "ece", "max") else CONTINUOUS[metric]
    for name in ("estimate", "low", "high"):
        allowed = tolerance if name == "low" else most * expected.standard_error
        assert getattr(interval, name) == pytest.approx(getattr(expected, name), abs=allowed)
    assert interval.standard_error == pytest.approx(expected.standard_error, rel=0.01)
    assert interval.method == expected.method and interval.valid == expected.valid
    if metric == "upper_bound":
        assert interval.estimate == pytest.approx(expected.estimate, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_the_corp_test_has_its_level(weighted):
    """Calibrated forecasts: at most one in ten p-values of at most .1, and not far fewer."""
    rng, n_seeds, rejected = np.random.default_rng(0), 250, 0
    for seed in range(n_seeds):
        score = rng.integers(1, 20, 200) / 20 if seed % 2 else rng.beta(0.7, 0.7, 200)
        y = (rng.random(200) < score).astype(int)
        weight = rng.uniform(0.5, 1.5, 200) if weighted else None
        sketch = s.ForecastSketch([0, 1]).fit(y, score, weight)
        rejected += s.errors.corp_test(sketch, n_resamples=39, random_state=seed).pvalue <= 0.1
    low, high = binom.ppf([1e-3, 0.999], n_seeds, 0.1)  # 12 and 41 of 250
    assert low <= rejected <= high


@pytest.mark.slow
def test_consistency_bands_hold_calibrated_curves_as_often_as_they_say():
    """Rows of about 60 samples; bands of 99 draws hold nine in ten points."""
    rng, inside = np.random.default_rng(0), []
    for seed in range(200):
        score = rng.integers(1, 30, 1800) / 30
        sketch = s.ForecastSketch([0, 1]).fit((rng.random(1800) < score).astype(int), score)
        (band,) = s.errors.corp_bands(
            sketch, n_resamples=99, confidence_level=0.9, random_state=seed
        )
        assert len(band.forecast) == 29
        held = (band.low <= band.recalibrated) & (band.recalibrated <= band.high)
        inside.append(held[[2, 8, 14, 20, 26]])
    frequency, error = np.mean(inside, axis=0), np.sqrt(0.9 * 0.1 / 200)
    assert (frequency > 0.9 - 3.5 * error).all() and frequency.mean() < 0.9 + 3.5 * error


def base(n_samples=200):
    rng = np.random.default_rng(0)
    score = rng.integers(1, 20, n_samples) / 20
    return (rng.random(n_samples) < score).astype(int), score


Y, SCORE = base()
MORE = {
    "zeros and ones": ([0, 1, 0, 1], [0.0, 1.0, 0.0, 1.0]),
    "wrong and certain": ([1, 0], [0.0, 1.0]),
    "tiny": ([0, 1, 1], [1e-300, 1e-300, 1 - 2**-53]),
}
HOSTILE = {
    **{k: (np.append(Y, y), np.append(SCORE, p), None) for k, (y, p) in MORE.items()},
    "certain": (np.array([0, 1, 0, 1, 1]), np.array([0.0, 1, 0, 1, 1]), None),
    "certain, one wrong": (np.array([0, 1, 0, 1, 0]), np.array([0.0, 1, 0, 1, 1]), None),
    "events only": (np.ones(50, dtype=int), SCORE[:50], None),
    "no events": (np.zeros(50, dtype=int), SCORE[:50], None),
    "one sample": (np.array([1]), np.array([0.5]), None),
    "two samples": (np.array([0, 1]), np.array([0.2, 0.7]), None),
    "two equal forecasts": (np.array([0, 1]), np.array([0.5, 0.5]), None),
    "three samples": (np.array([0, 1, 1]), np.array([0.2, 0.7, 0.4]), None),
    "one forecast": (Y, np.full(200, 0.5), None),
    "separated": ((SCORE > 0.5).astype(int), SCORE, None),
    "weights 1e-150": (Y, SCORE, np.full(200, 1e-150)),
    "weights 1e150": (Y, SCORE, np.full(200, 1e150)),
    "two sizes of weights": (Y, SCORE, np.repeat([1e-150, 1.0], 100)),
    "unequal weights of 1e150": (Y, SCORE, 1e150 * weights("gamma", 200)),
    **{f"tied, {kind} weights": (*tied(3000), weights(kind, 3000)) for kind in WEIGHTS},
}
UNTIED = [case for case in HOSTILE if "tied," not in case]
BINARY = {
    "proper": s.proper_calibration_error,
    "refinement": s.refinement_loss,
    "decomposition": s.score_decomposition,
    "bound": s.calibration_upper_bound,
    "distance": s.integrated_calibration_index,
    "root": s.root_brier_score,
    "lines": s.calibration_intercept_slope,
    "summary": s.calibration_summary,
    "confidence band": partial(s.errors.corp_bands, band="confidence"),
    "log": partial(s.score_decomposition, loss="log"),
    "log bound": partial(s.calibration_upper_bound, loss="log"),
    "uniform bins": partial(s.calibration_error, strategy="uniform", n_bins=7),
    "quantile bins": partial(s.calibration_error, n_bins=7),
    "without bias": partial(s.calibration_error, norm="l2", debiased=True, n_bins=3),
    "edges": partial(s.calibration_error, n_bins=[0, 0.33, 1]),
    "differences": s.errors.cumulative_curve,
    "kde": s.errors.kde_calibration_error,
    "ks": s.ks_calibration_error,
    "smooth": s.smooth_calibration_error,
    "corp": s.corp_decomposition,
    "z": s.significance.spiegelhalter_test,
    "walk": s.significance.cumulative_test,
    "kuiper": partial(s.significance.cumulative_test, statistic="kuiper"),
    "ratio": s.significance.logistic_calibration_test,
    "ratio of the slope": partial(s.significance.logistic_calibration_test, hypothesis="slope"),
    "quantiles": s.hosmer_lemeshow_test,
    "ranges": partial(s.hosmer_lemeshow_test, strategy="uniform"),
    "many quantiles": partial(s.hosmer_lemeshow_test, n_bins="auto"),
    **{
        f"interval of {metric}": partial(s.calibration_error_interval, metric=metric)
        for metric in ("l2", "squared_l2", "brier", "log", "ici", "upper_bound", "root_brier_score")
    },
}
#: What depends on the leverage of samples -> the numbers that do.
LEVERAGE = dict.fromkeys(("proper", "refinement", "decomposition", "log"), "")
LEVERAGE |= dict.fromkeys(("interval of brier", "interval of log", "interval of ici"), "")
LEVERAGE["summary"] = ".brier_calibration_error"
UNEQUAL = {f"tied, {kind} weights": (0, 1e-5) for kind in ("whole", "gamma")}
UNEQUAL["unequal weights of 1e150"] = (0.05, 2e-3)


def value_or_error(function, *samples, **options):
    try:
        return function(*samples, **options)
    except ValueError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore:.*samples per class")
@pytest.mark.parametrize("case", HOSTILE)
def test_difficult_input_has_the_same_value_or_error(case):
    """Where leverage matters, weights that are unequal in a cell have their mean."""
    y, score, weight = HOSTILE[case]
    sketch = s.ForecastSketch([0, 1]).fit(y, score, weight)
    tolerance = (1e-11, 1e-12) if "tied" in case else (1e-8, 1e-9)
    loose = UNEQUAL.get(case, tolerance)
    for name, function in BINARY.items():
        result = value_or_error(function, sketch)
        expected = value_or_error(function, y, score, sample_weight=weight, labels=[0, 1])
        exceptions = [(LEVERAGE[name], loose)] if name in LEVERAGE else []
        try:
            agree(result, expected, *tolerance, exceptions)
        except AssertionError as error:
            error.add_note(name)
            raise


@pytest.mark.parametrize(("case", "loss"), rotated(UNTIED, ["brier", "log"], 1))
def test_draws_of_difficult_input(case, loss):
    y, score, weight = HOSTILE[case]
    options, exact = {"loss": loss, "n_resamples": 99}, {"sample_weight": weight, "labels": [0, 1]}
    sketch = s.ForecastSketch([0, 1]).fit(y, score, weight)
    sketched, expected = (
        s.errors.corp_test(sketch, **options),
        s.errors.corp_test(y, score, **options, **exact),
    )
    assert sketched.statistic == pytest.approx(expected.statistic, rel=1e-8, abs=1e-12)
    assert np.isinf(sketched.estimate) == np.isinf(expected.estimate)
    assert 0 <= sketched.pvalue <= 1 and not np.isnan(sketched.estimate)
    assert (sketched.pvalue == 0) == (expected.pvalue == 0)
    (sketched,), (expected,) = s.errors.corp_bands(sketch), s.errors.corp_bands(y, score, **exact)
    np.testing.assert_allclose(sketched.recalibrated, expected.recalibrated, atol=1e-12)
    for band in (sketched, expected):
        assert ((band.low >= 0) & (band.low <= band.high) & (band.high <= 1)).all()


@pytest.mark.parametrize("kind", ["none", "gamma"])
@pytest.mark.parametrize("n_cells", [16, 65_536])
def test_mean_losses_are_exact(kind, n_cells):
    """Scores of all sizes, a third of them within 1e-12 of 0 or 1, and wrong labels there."""
    rng = np.random.default_rng(0)
    score = rng.random(5000)
    score[::6] = 10.0 ** rng.uniform(-300, -12, len(score[::6]))
    score[1::6] = 1 - rng.integers(1, 9000, len(score[1::6])) * 2.0**-53
    y = rng.integers(2, size=5000)
    weight = np.ones(5000) if kind == "none" else weights(kind, 5000)
    sketch = s.ForecastSketch([0, 1], n_cells=n_cells)
    for rows in np.array_split(np.arange(5000), 7):
        sketch.partial_fit(y[rows], score[rows], weight[rows])

    def values(*samples, **options):
        summary = s.calibration_summary(*samples, **options)
        bounds = [
            s.calibration_upper_bound(*samples, loss=loss, **options) for loss in ("brier", "log")
        ]
        root = s.root_brier_score(*samples, **options)
        return [*bounds, summary.brier.estimate, summary.log_loss.estimate, root]

    assert values(sketch) == pytest.approx(values(y, score, sample_weight=weight), rel=1e-12)
    proba = np.column_stack([score, (1 - score) / 4, 3 * (1 - score) / 4])
    several = s.ForecastSketch([0, 1, 2], notion="classwise").fit(y, proba, weight)
    bound = s.calibration_upper_bound(y, proba, notion="classwise", sample_weight=weight,
                                      labels=[0, 1, 2])  # fmt: skip
    assert s.calibration_upper_bound(several, notion="classwise") == pytest.approx(bound, rel=1e-12)


def test_exact_mean_losses_are_inside_their_intervals():
    """Labels of tiny forecasts that share their cell with larger ones."""
    y, score = base()
    y, score = np.append(y, [1, *[0] * 1000]), np.append(score, [1e-300, *[1e-10] * 1000])
    sketch = s.ForecastSketch([0, 1]).fit(y, score)
    interval = s.calibration_error_interval(sketch, metric="upper_bound", loss="log")
    expected = s.calibration_upper_bound(y, score, loss="log")
    assert interval.low < interval.estimate < interval.high
    assert interval.estimate == pytest.approx(expected, rel=1e-12)


@pytest.fixture(scope="module")
def sketches():
    several = {case: sketch_of(case, *tied(300, 3)) for case in ("top label", "classwise")}
    return {"binary": sketch_of("binary", *base()), **several}


INTERVAL = s.calibration_error_interval
BY_CLASS = {"notion": "classwise"}
OF_SAMPLES = (
    *(
        s.significance.consistency_test,
        s.significance.distribution_free_bound,
        s.kernel_calibration_error,
    ),
    *(s.kernel_calibration_test, s.sharpness, s.errors.simplex_calibration_error),
    *(partial(INTERVAL, metric=metric) for metric in ("kernel", lambda *samples, **options: 0.0)),
    *(partial(INTERVAL, method=method) for method in ("jackknife", "subsampling", "bootstrap")),
)
SMOOTHED = (*ONE_NUMBER, s.score_decomposition, INTERVAL, s.integrated_calibration_index)
CLUSTERED = [
    partial(f, groups=[0, 1]) for f in (s.calibration_summary, INTERVAL, s.errors.corp_bands)
]
#: Words -> what says them, and the sketch to which it does.
REFUSED = {
    "3 separate classes, and the dependence of their errors is not known: make a sketch": (
        "classwise",
        *(partial(INTERVAL, metric=metric, **BY_CLASS) for metric in METRICS),
        partial(s.score_decomposition, **BY_CLASS),
        s.calibration_intercept_slope,
    ),
    "labels from whole rows of y_proba, which a sketch of se": (
        "classwise",
        partial(s.errors.corp_test, **BY_CLASS),
    ),
    "for two classes, but the sketch has more": ("top label", s.significance.cumulative_test),
    "needs the labels and forecasts themselves, got a ForecastSketch: pass y_": (
        "binary",
        *OF_SAMPLES,
    ),
    "needs the samples, not a sketch: leave out smoother=": (
        "binary",
        *(partial(f, smoother="isotonic") for f in SMOOTHED if f != s.calibration_upper_bound),
    ),
    "and not their clusters: omit groups": ("binary", *CLUSTERED),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_a_sketch_cannot_answer(sketches, words):
    case, *functions = REFUSED[words]
    for function in functions:
        with pytest.raises(ValueError, match=words):
            function(sketches[case], None)


@pytest.mark.parametrize("option", [{"method": "risk"}, {"method": "cross"}, {"loss": "spherical"}])
def test_folds_of_a_sketch(option):
    """The samples of each cell are divided at random: another division than that of the samples."""
    simulation = make_tempered_simplex(20_000, 2, random_state=0)
    sources = (
        (s.ForecastSketch([0, 1]).fit(simulation.y, simulation.y_proba),),
        (simulation.y, simulation.y_proba),
    )
    estimate, expected = (s.proper_calibration_error(*source, **option) for source in sources)
    assert estimate == pytest.approx(expected, rel=0.02)
    assert estimate == s.proper_calibration_error(*sources[0], **option)
    if "loss" in option:
        first, second = (s.calibration_error_interval(*source, **option) for source in sources)
        assert (first.low, first.high) == pytest.approx((second.low, second.high), rel=0.03)


@pytest.mark.parametrize("case", ["top label", "classwise"])
def test_another_notion_is_named(sketches, case):
    notion = CASES[case][1]
    words = rf"made for notion='{notion}', got notion=Canonical\(\): pass notion='{notion}' if the"
    functions = [*ONE_NUMBER, s.score_decomposition, s.calibration_error_interval]
    for function in (*functions, s.root_brier_score, s.calibration_summary):
        with pytest.raises(ValueError, match=words):
            function(sketches[case])
    for function in functions[: 5 if case == "top label" else 3]:
        function(sketches[case], notion=notion)


@pytest.mark.parametrize("function", BINARY.values(), ids=BINARY)
def test_arguments_that_the_sketch_has_already(sketches, function):
    with pytest.raises(ValueError, match="classes already: leave out sample_weight"):
        function(sketches["binary"], sample_weight=[1.0])
    with pytest.raises(ValueError, match="leave out y_proba"):
        function(sketches["binary"], [0.5])
    with pytest.raises(NotFittedError):
        function(s.ForecastSketch([0, 1]))
    with pytest.raises(ValueError, match="y_proba"):
        function([0, 1])


def test_the_order_of_samples_in_a_cell_is_lost():
    """As the page of accuracy states: without a bound in a few cells, and small from five on."""

    def pairs(y, p):
        sources = (y, p), (sketch_of("binary", y, p),)
        terms = [s.corp_decomposition(*source) for source in sources]
        return [s.errors.kde_calibration_error(*source) for source in sources], terms

    (exact, sketched), (exact_terms, sketched_terms) = pairs(
        np.array([0, 1]), np.array([0.5, 0.5 + 1e-9])
    )
    assert exact > 0.39 and sketched < 1e-6
    assert (exact_terms.miscalibration, sketched_terms.miscalibration) == pytest.approx(
        (0.25, 0), abs=1e-6
    )
    rng = np.random.default_rng(0)
    p = 0.3 + 1e-4 * rng.normal(size=2000)
    y = (rng.random(2000) < np.where(p > 0.3, 0.5, 0.1)).astype(int)
    (exact, sketched), (exact_terms, sketched_terms) = pairs(y, p)
    assert (
        abs(exact - sketched) < 0.002
        and abs(exact_terms.miscalibration - sketched_terms.miscalibration) < 0.003
    )
    _, (exact_terms, sketched_terms) = pairs(*continuous(3000))
    assert exact_terms.score == pytest.approx(sketched_terms.score, abs=1e-6)
    for name in ("miscalibration", "discrimination"):  # the curve has no steps inside a cell
        assert -1e-6 < getattr(exact_terms, name) - getattr(sketched_terms, name) < 1e-4
