"""Several labels per sample: an indicator matrix and a probability for each label."""

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import get_tags

import skcalib as s
from skcalib.data.notions import Multilabel
from skcalib.data.problem import check_problem
from skcalib.risk_models.decisions import net_benefit
from skcalib.scorers import GroupingScorer, ProbaScorer
from skcalib.testing import check_notion

NOTION = Multilabel()
X, Y = make_multilabel_classification(500, n_classes=3, random_state=0)
MODEL = OneVsRestClassifier(GaussianNB()).fit(X[:250], Y[:250])
X_NEW, LABELS, P = X[250:], Y[250:], MODEL.predict_proba(X[250:])
#: With cells that are not known.
GAPS = LABELS.astype(np.float64)
GAPS[::3, 0] = GAPS[1::4, 1] = np.nan
KNOWN = ~np.isnan(GAPS)
FIRST = slice(80)  # rows, for statistics of all pairs
WEIGHT = 1.0 + np.arange(len(P)) % 3
cells = pytest.mark.parametrize("y", [LABELS, GAPS], ids=["all cells", "known cells"])


def alone(function, k, y=GAPS, weight=None, **options):
    """The value of the known rows of one label."""
    rows = ~np.isnan(y[:, k])
    weight = None if weight is None else weight[rows]
    return function(LABELS[rows, k], P[rows, k], sample_weight=weight, **options)


def world(n_samples, seed, slope=0.6):
    """Three labels of a sample depend on each other, and the forecasts are over-confident."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n_samples, 3))
    forecast, truth = 1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(-slope * logits))
    y = rng.uniform(size=(n_samples, 1)) < truth  # one draw for all labels of a sample
    return y.astype(int), forecast, truth


ERRORS = [
    (s.calibration_error, {}),
    (s.calibration_error, {"strategy": "uniform", "norm": "l2", "squared": True, "debiased": True}),
    (s.ks_calibration_error, {}),
    (s.kernel_calibration_error, {}),
    (s.proper_calibration_error, {}),
    (s.proper_calibration_error, {"loss": "log", "smoother": "isotonic", "method": "direct"}),
    (s.refinement_loss, {}),
    (s.sharpness, {}),
    (s.calibration_upper_bound, {"loss": "log"}),
    (s.integrated_calibration_index, {}),
    (s.errors.kde_calibration_error, {}),
]


@cells
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize(
    ("function", "options"),
    [*ERRORS, (net_benefit, {"threshold": 0.4}), (s.smooth_calibration_error, {})],
)
def test_the_error_is_the_mean_over_labels(function, options, weight, y):
    """Each label counts equally, by its known cells."""
    values = [alone(function, k, y, weight, **{"notion": "canonical", **options}) for k in range(3)]
    run = {"sample_weight": weight, **options}
    value = function(y, P, notion=NOTION, **run)
    assert value == pytest.approx(np.mean(values), rel=1e-9)
    assert function(y, P, notion=Multilabel("sum"), **run) == pytest.approx(sum(values), rel=1e-9)
    complete = np.flatnonzero(KNOWN.all(axis=1))
    of_complete = function(LABELS[complete], P[complete], notion=NOTION, **options)
    assert y is LABELS or value not in (function(LABELS, P, notion=NOTION, **run), of_complete)


@pytest.mark.parametrize(("function", "options"), ERRORS[:5])
def test_weights_the_order_of_rows_and_one_label(function, options):
    weight = 1.0 + np.arange(len(P)) % 3
    weight[::5] = 0
    rows = np.flatnonzero(weight)[::-1]
    value = function(LABELS, P, notion=NOTION, sample_weight=weight, **options)
    arguments = {"notion": NOTION, "sample_weight": weight[rows], **options}
    assert function(LABELS[rows], P[rows], **arguments) == pytest.approx(value, rel=1e-9)
    of_one_label = function(LABELS[:, :1], P[:, :1], notion=NOTION, **options)
    assert of_one_label == pytest.approx(function(LABELS[:, 0], P[:, 0], **options))


def test_names_of_labels_and_the_notion():
    names = ["sky", "sea", "sand"]
    frame = pd.DataFrame(LABELS, columns=names)
    assert check_problem(frame, P, Multilabel()).classes.tolist() == names
    bands = s.errors.corp_bands(frame, P, notion=NOTION, n_resamples=39, random_state=0)
    assert [band.event for band in bands] == [f"label {name}" for name in names]
    named = s.errors.corp_bands(
        LABELS, P, notion=NOTION, labels=names, n_resamples=39, random_state=0
    )
    assert [band.event for band in named] == [band.event for band in bands]
    check_notion(Multilabel())
    assert repr(Multilabel("sum")) == "Multilabel(reduce='sum')"


@pytest.mark.parametrize(
    "model",
    [
        MultiOutputClassifier(GaussianNB()),
        RandomForestClassifier(5, random_state=0),
        KNeighborsClassifier(),
        ClassifierChain(GaussianNB()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_answers_of_classifiers(model):
    """Lists of arrays (n, 2), or a matrix (n, L)."""
    proba = model.fit(X[:250], Y[:250]).predict_proba(X_NEW)
    lists = isinstance(proba, list)
    matrix = np.column_stack([part[:, 1] for part in proba]) if lists else proba
    value = s.calibration_error(LABELS, proba, notion=NOTION)
    assert value == s.calibration_error(LABELS, matrix, notion=NOTION)
    estimator = s.CalibrationErrorEstimator(model, notion=NOTION).fit(X_NEW, LABELS)
    expected = s.proper_calibration_error(LABELS, matrix, notion=NOTION)
    assert estimator.calibration_error_ == pytest.approx(expected)
    scorer = ProbaScorer(s.calibration_error, notion=NOTION)
    assert scorer(model, X_NEW, LABELS) == -value
    weight = np.arange(1.0, len(LABELS) + 1)
    weighted = s.calibration_error(LABELS, proba, notion=NOTION, sample_weight=weight)
    assert scorer(model, X_NEW, LABELS, sample_weight=weight) == -weighted != -value
    s.ReliabilityDisplay.from_estimator(model, X_NEW, LABELS, notion=NOTION, band=None)
    scorer.response_method = "decision_function"
    with pytest.raises(ValueError, match="needs the predict_proba of"):
        scorer(model, X_NEW, LABELS)


def test_few_labels_that_are_turned_have_the_same_pvalue():
    """Events of labels that are rare, or nearly always there, are drawn in the same way."""
    rng = np.random.default_rng(0)
    proba = rng.uniform(0.002, 0.02, size=(300, 2))
    labels = (rng.random((300, 2)) < 2 * proba).astype(int)
    options = {"notion": NOTION, "n_resamples": 99}
    test = s.kernel_calibration_test(labels, proba, **options)
    turned = s.kernel_calibration_test(1 - labels, 1 - proba, **options)
    assert "of labels drawn" in test.method
    assert turned.pvalue == pytest.approx(test.pvalue, rel=1e-9)


def test_a_label_that_one_of_a_list_of_answers_lacks():
    forest = RandomForestClassifier(5, random_state=0).fit(X[:250], Y[:250] * [1, 0, 1])
    matrix = np.column_stack([p @ np.arange(p.shape[1]) for p in forest.predict_proba(X_NEW)])
    assert not matrix[:, 1].any() and matrix[:, 0].any()
    estimator = s.CalibrationErrorEstimator(forest, notion=NOTION).fit(X_NEW, LABELS)
    expected = s.proper_calibration_error(LABELS, matrix, notion=NOTION)
    assert estimator.calibration_error_ == pytest.approx(expected)


def test_scorers_in_cross_validation_and_a_label_that_the_training_data_lack():
    model = OneVsRestClassifier(GaussianNB())
    ours = ProbaScorer(s.proper_calibration_error, notion=NOTION)
    kind = {"response_method": "predict_proba", "greater_is_better": False}
    theirs = make_scorer(s.proper_calibration_error, notion=NOTION, **kind)
    values = cross_val_score(model, X, Y, scoring=ours, cv=3)
    assert_allclose(values, cross_val_score(model, X, Y, scoring=theirs, cv=3))
    assert (values < 0).all()
    forest = RandomForestClassifier(5, random_state=0).fit(X[:250], Y[:250] * [1, 1, 0])
    assert ours(forest, X_NEW, LABELS) < -(np.mean(LABELS[:, 2]) ** 2) / 3 / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "missing", "least"),
    [("brier", 0, 33), ("l2", 0, 33), ("kernel", 0, 33), ("brier", 1 / 3, 35)],
)
def test_intervals_cover_and_the_level_of_the_test(metric, missing, least):
    """40 data sets of labels that depend on each other: 33 or more are covered (p < 1e-3).

    Of a third unknown cells 35 or more (p < .05 at 95 %).
    """
    truth, covered = 0.0, 0
    if metric == "brier":
        _, forecast, calibrated = world(200_000, 10**6)
        truth = np.mean((forecast - calibrated) ** 2)
    for seed in range(40):
        y, forecast, _ = world(400, seed, slope=0.6 if metric == "brier" else 1.0)
        unknown = np.random.default_rng(seed).random(y.shape) < missing
        y = np.where(unknown, np.nan, y) if missing else y
        interval = s.calibration_error_interval(y, forecast, metric=metric, notion=NOTION)
        covered += interval.low <= truth <= interval.high
    assert covered >= least


@cells
@pytest.mark.parametrize(
    ("recalibrator", "of_label"),
    [
        (None, s.PlattScaling()),
        ("beta", s.BetaCalibration()),
        *((map_, map_) for map_ in (s.TemperatureScaling(), s.IsotonicRecalibrator())),
        (s.recalibration.ModelAverageScaling(), s.recalibration.ModelAverageScaling()),
    ],
)
def test_one_recalibrator_for_each_label(recalibrator, of_label, y):
    together = s.MultilabelRecalibrator(recalibrator).fit(P, y, sample_weight=WEIGHT)
    after = together.predict_proba(P)
    for k, rows in enumerate(~np.isnan(y.T)):
        fitted = clone(of_label).fit(P[rows, k], LABELS[rows, k], sample_weight=WEIGHT[rows])
        assert_allclose(after[:, k], fitted.predict_proba(P[:, k])[:, 1], rtol=1e-12)
    assert_allclose(together.transform(P), after)
    assert np.array_equal(together.predict(P), after > 0.5)
    scorer = ProbaScorer(s.calibration_error, notion=NOTION)
    assert scorer(MODEL, X_NEW, y) == -s.calibration_error(y, P, notion=NOTION)


def test_the_recalibrator_of_lists_frames_and_jobs():
    parts = [np.column_stack([1 - p, p]) for p in P.T]
    matrix = s.MultilabelRecalibrator().fit(P, LABELS)
    with joblib.parallel_config("threading"):
        listed = s.MultilabelRecalibrator(n_jobs=2).fit(parts, LABELS)
    assert_allclose(listed.predict_proba(parts), matrix.predict_proba(P))
    assert get_tags(matrix).input_tags.positive_only
    named = s.MultilabelRecalibrator().fit(P, pd.DataFrame(LABELS, columns=["a", "b", "c"]))
    assert named.labels_.tolist() == ["a", "b", "c"]
    assert named.get_feature_names_out().tolist()[0] == "multilabelrecalibrator_a"
    with pytest.raises(ValueError, match="columns of X are named"):
        named.predict_proba(pd.DataFrame(P, columns=["c", "b", "a"]))
    with pytest.raises(ValueError, match="3 labels but X has 2 columns"):
        named.predict_proba(P[:, :2])


def test_the_kernel_test_and_the_error_that_is_left():
    """A tenth of the error at the most."""
    y, forecast, _ = world(2000, 0)
    recalibrator, new = s.MultilabelRecalibrator().fit(forecast[:1000], y[:1000]), forecast[1000:]
    both = new, recalibrator.predict_proba(new)
    errors = [s.proper_calibration_error(y[1000:], p, notion=NOTION) for p in both]
    assert errors[1] < 0.1 * errors[0]
    assert s.kernel_calibration_test(y[:150], forecast[:150], notion=NOTION).rejects()


@pytest.mark.slow
def test_the_level_of_the_kernel_test():
    """Within 3 standard errors."""
    tests = (world(200, seed) for seed in range(60))
    pvalues = [s.kernel_calibration_test(y, c, notion=NOTION).pvalue for y, _, c in tests]
    assert np.mean(np.array(pvalues) < 0.1) < 0.1 + 3 * np.sqrt(0.09 / 60)


def test_the_grouping_loss_and_its_scorer():
    scorer = GroupingScorer(notion=NOTION, partitioner=LinearRegression(), method="risk")
    x, y = X_NEW[:120], GAPS[:120]
    estimator = s.GroupingLossEstimator(MODEL, **scorer.kwargs).fit(x, y)
    assert scorer(MODEL, x, y) == -estimator.grouping_loss_
    regions = s.GroupingLossEstimator(MODEL, notion=NOTION, method="partition", n_permutations=0)
    events = {region.event for region in regions.fit(x, LABELS[:120]).regions_}
    assert events and events <= {f"label {k}" for k in range(3)}


MISSING = [
    pd.DataFrame(GAPS, columns=["a", "b", "c"]),
    pd.DataFrame(GAPS).astype("Int64"),
    pd.DataFrame(GAPS).astype("boolean"),
    np.where(KNOWN, LABELS, None),
    np.where(KNOWN, LABELS, None).tolist(),
]


@pytest.mark.parametrize("gaps", MISSING, ids=lambda gaps: type(gaps).__name__)
def test_missing_cells_of_any_container(gaps):
    value = s.calibration_error(GAPS, P, notion=NOTION)
    assert s.calibration_error(gaps, P, notion=NOTION) == value
    before = str(gaps)
    s.MultilabelRecalibrator().fit(P, gaps)
    assert str(gaps) == before


@cells
def test_records_and_displays(y):
    for function, column in (
        (s.reliability_bins, "mass"),
        (s.errors.cumulative_curve, "difference"),
    ):
        records, (record,) = (
            function(y, P, notion=NOTION),
            alone(function, 1, y, notion="canonical"),
        )
        assert len(records) == 3
        assert_allclose(getattr(records[1], column), getattr(record, column))
    terms = s.score_decomposition(y, P, notion=NOTION)
    of_labels = [alone(s.score_decomposition, k, y) for k in range(3)]
    for name in ("loss", "calibration", "refinement", "sharpness", "uncertainty"):
        expected = np.mean([getattr(record, name) for record in of_labels])
        assert getattr(terms, name) == pytest.approx(expected)
    corp = s.corp_decomposition(y, P, notion=NOTION)
    assert corp.scores[0] == pytest.approx(alone(s.corp_decomposition, 0, y).score)
    assert corp.score == pytest.approx(terms.loss)
    for make in (s.ReliabilityDisplay, s.MurphyDisplay, s.DecisionCurveDisplay):
        options = {"band": None} if make is s.ReliabilityDisplay else {}
        display = make.from_predictions(y, P, notion=NOTION, **options)
        assert [curve.event for curve in display.curves] == ["label 0", "label 1", "label 2"]
        assert len(np.ravel(display.ax_)) == 3 or make is not s.ReliabilityDisplay
    bands = s.errors.corp_bands(y, P, notion=NOTION, n_resamples=39)
    assert [band.event for band in bands] == ["label 0", "label 1", "label 2"]
    display = s.ReliabilityDisplay.from_predictions(y, P, notion=NOTION, band=None)
    assert [len(curve.scores) for curve in display.curves] == (~np.isnan(y)).sum(axis=0).tolist()


@pytest.mark.parametrize("metric", ["brier", "log", "l1", "l2", "squared_l2", "max", "ks", "kernel",
                                    "ici", "upper_bound"])  # fmt: skip
def test_intervals_of_known_cells(metric):
    interval = s.calibration_error_interval(GAPS, P, metric=metric, notion=NOTION)
    parts = [
        alone(s.calibration_error_interval, k, metric=metric, notion="canonical") for k in range(3)
    ]
    lows, highs = ([getattr(part, name) for part in parts] for name in ("low", "high"))
    assert min(lows) <= interval.low <= interval.estimate <= interval.high <= max(highs)
    if metric in ("brier", "l1", "ks"):
        assert interval.low == pytest.approx(np.mean(lows))
        assert interval.high == pytest.approx(np.mean(highs))
    assert interval.conservative and "label by label" in interval.method
    full = s.calibration_error_interval(LABELS, P, metric=metric, notion=NOTION)
    assert "label by label" not in full.method and 0 <= full.low <= full.estimate <= full.high
    with pytest.raises(ValueError, match="Intervals from parts of the samples"):
        s.calibration_error_interval(LABELS, P, metric=metric, notion=NOTION, method="jackknife")
    groups = np.arange(len(P)) // 5
    clustered = s.calibration_error_interval(
        GAPS, P, metric=metric, notion=NOTION, groups=groups, sample_weight=WEIGHT
    )
    assert clustered.low <= clustered.high
    if metric == "brier":
        estimator = s.CalibrationErrorEstimator(notion=NOTION).fit(P, GAPS)
        assert estimator.calibration_error_ == pytest.approx(interval.estimate)
        assert estimator.confidence_interval_ == pytest.approx((interval.low, interval.high))


TESTS = {
    "kernel": lambda y, p, **run: s.kernel_calibration_test(y, p, notion=NOTION, **run),
    "multipliers": lambda y, p, **run: s.kernel_calibration_test(
        y, p, notion=NOTION, method="multipliers", n_resamples=99, **run
    ),
    "block": lambda y, p, **run: s.kernel_calibration_test(
        y, p, notion=NOTION, statistic="block", block_size=20, **run
    ),
    "clusters": lambda y, p, **run: s.kernel_calibration_test(
        y, p, notion=NOTION, groups=np.arange(len(y)) // 2, **run
    ),
    "e-value": lambda y, p, **run: s.significance.calibration_e_value(y, p, notion=NOTION, **run),
    "regret": lambda y, p, **run: s.decision_regret(y, p, threshold=0.4, notion=NOTION, **run),
}


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize("name", TESTS)
def test_forecasts_of_missing_cells_do_not_count(name, weight):
    y, p, weight = GAPS[FIRST], P[FIRST], None if weight is None else weight[FIRST]
    outcome = TESTS[name](y, p, sample_weight=weight)
    replaced = TESTS[name](y, np.where(KNOWN[FIRST], p, 0.123), sample_weight=weight)
    assert outcome == replaced != TESTS[name](LABELS[FIRST], p, sample_weight=weight)


def test_rows_of_missing_cells_do_not_count():
    y, p = GAPS[FIRST], P[FIRST]
    longer = np.vstack([y, np.full((40, 3), np.nan)]), np.vstack([p, p[:40]])
    expected, outcome = TESTS["kernel"](y, p), TESTS["kernel"](*longer)
    assert expected.estimate == pytest.approx(outcome.estimate)
    assert expected.pvalue == pytest.approx(outcome.pvalue, rel=1e-6)
    assert TESTS["regret"](y, p) == TESTS["regret"](*longer)


def test_the_kernel_test_has_the_estimate_of_the_kernel_error():
    y, p = GAPS[FIRST], P[FIRST]
    for notion, weight in ((NOTION, None), (Multilabel("sum"), WEIGHT[FIRST])):
        run = {"notion": notion, "sample_weight": weight}
        test = s.kernel_calibration_test(y, p, **run)
        assert test.estimate == pytest.approx(s.kernel_calibration_error(y, p, **run))
    only, known = (y[:, :1], p[:, :1]), KNOWN[FIRST, 0]
    of_label = y[known, 0].astype(int), p[known, 0]
    test = s.kernel_calibration_test
    assert test(*only, notion=NOTION) == test(*of_label, notion="canonical")
    e_value = s.significance.calibration_e_value
    expected = e_value(*of_label, notion="canonical").e_value
    assert e_value(*only, notion=NOTION).e_value == pytest.approx(expected)


def test_regrets():
    x, y, p = X_NEW[FIRST, :2], LABELS[FIRST, :2], P[FIRST, :2]
    of_all = s.decision_regret(LABELS, P, threshold=0.5, notion=NOTION)
    assert of_all.expected_cost.estimate == pytest.approx(0.5 * np.mean((P > 0.5) != LABELS))
    regret = s.decision_regret(GAPS[FIRST, :2], p, X=x, threshold=0.4, notion=NOTION)
    of_labels = [
        s.decision_regret(y[rows, k], p[rows, k], X=x[rows], threshold=0.4, notion="canonical")
        for k, rows in enumerate(KNOWN[FIRST, :2].T)
    ]
    for name in ("expected_cost", "calibration", "grouping", "rest"):
        for field in ("estimate", "low", "high", "standard_error"):
            expected = np.mean([getattr(getattr(record, name), field) for record in of_labels])
            assert getattr(getattr(regret, name), field) == pytest.approx(expected)
    assert regret.changed == pytest.approx(np.mean([record.changed for record in of_labels]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "rare"),
    [("kernel", 700, 1.0), ("block", 700, 1.0), ("clusters", 700, 1.0), ("e-value", 60, 1.0),
     ("kernel", 200, 0.05)],
)  # fmt: skip
def test_levels_with_missing_cells(name, n, rare):
    """Calibrated labels of one latent cause; a cell is missing more often for high forecasts.

    100 data sets: at most 11 p-values below .05, the 99 % limit of a binomial variable; and all of
    5 sets of miscalibrated forecasts.
    """
    rejected = {"calibrated": 0, "miscalibrated": 0}
    for seed in range(100):
        rng = np.random.default_rng(seed)
        p = rare * rng.uniform(size=(n, 3))
        y = (rng.uniform(size=(n, 1)) < p).astype(float)  # one uniform number for all labels
        gaps = rng.uniform(size=p.shape) < 0.2 + 0.6 * p / rare
        y[gaps] = np.nan
        rejected["calibrated"] += TESTS[name](y, p).rejects()
        if seed < 5 and rare == 1:
            rejected["miscalibrated"] += TESTS[name](y, p**3).rejects()
    assert rejected["calibrated"] <= 11
    assert rejected["miscalibrated"] == 5 or rare < 1


def bounds(y, proba, X, **given):
    """The grouping loss, its standard error, the calibration error and the loss."""
    notion = NOTION if y.shape[1] > 1 else "canonical"  # y of one column is a label
    estimator = s.GroupingLossEstimator(notion=notion, **given.pop("options")).fit(
        X, y, y_proba=proba, **given
    )
    names = ("grouping_loss_", "standard_error_", "calibration_error_", "expected_loss_")
    return np.array([getattr(estimator, name) for name in names])


@pytest.mark.filterwarnings("ignore:The regions hold")  # 250 samples
@pytest.mark.parametrize("method", ["risk", "partition", "auto", "regions"])
@pytest.mark.parametrize("complete", [[1], [0, 2]])
def test_grouping_loss_of_known_cells(method, complete):
    """The first label has gaps, and its seed is the same alone; the others have none."""
    first = ({0, 1, 2} - set(complete)).pop()
    rows = KNOWN[:, first]
    y = np.column_stack([GAPS[:, first], LABELS[:, complete]])
    proba = P[:, [first, *complete]]
    options = {"method": "partition" if method == "regions" else method, "n_permutations": 9}
    options |= {"partitioner": LinearRegression()} if method == "risk" else {}
    row = {"sample_weight": WEIGHT, "groups": np.arange(len(P)) // 2 if method == "risk" else None}
    row["regions"] = X_NEW[:, 0] > 0 if method == "regions" else None

    def of(y, proba, rows=slice(None)):
        arrays = {name: None if known is None else known[rows] for name, known in row.items()}
        return bounds(y[rows], proba[rows], X_NEW[rows], options=dict(options), **arrays)

    full = np.column_stack([LABELS[:, first], LABELS[:, complete]])
    known, whole = of(full[:, :1], proba[:, :1], rows), of(full[:, :1], proba[:, :1])
    change = len(proba.T) * (of(y, proba) - of(full, proba))
    assert_allclose(change, known - whole, atol=1e-12)
    assert np.abs(known - whole).max() > 1e-6


def test_parts_of_the_loss_of_known_cells():
    y, p, x = GAPS[:60, :2], P[:60, :2], X_NEW[:60, :3]
    terms = s.DecompositionDisplay.from_predictions(y, p, x, notion=NOTION).terms[0]
    assert terms.loss == pytest.approx(np.nanmean((p - y) ** 2, axis=0).mean())
    estimator = s.CalibrationErrorEstimator(notion=NOTION).fit(p, y)
    assert terms.calibration.estimate == pytest.approx(estimator.calibration_error_)
    kind = s.GroupingLossEstimator(notion=NOTION, n_permutations=0)
    grouping = kind.fit(x, y, y_proba=p)
    assert terms.grouping.estimate == pytest.approx(grouping.grouping_loss_)
    only = s.DecompositionDisplay.from_predictions(y, p, notion=NOTION).terms[0]
    assert only.grouping is None and only.calibration == terms.calibration


SEVERAL, SINGLE = check_problem(LABELS, P, NOTION), check_problem([0, 1], [0.2, 0.7])
FEW = np.where((np.arange(len(P))[:, None] > 2) & (np.arange(3) == 1), np.nan, GAPS)
NO_CELL = MISSING[0].assign(b=np.nan)
RESULTS = {"estimator": [MODEL], "indices": {"test": [np.arange(9)]}}
KIND = "For several labels .*known rows, or notion=Mul"
#: What is called, labels and forecasts, options, and the message.
REFUSED = [
    *(
        (function, (y, proba), {"notion": NOTION}, words)
        for function in (s.calibration_error, s.proper_calibration_error)
        for y, proba, words in (
            (LABELS[:, 0], P, r"indicator matrix \(n, n_labels\).*notion='classwise'"),
            (LABELS + 1, P, "holds other values"),
            (LABELS, P[:, :2], "3 labels but y_proba has 2 columns"),
            (LABELS, P[:9], "y_true has 250, y_proba has 9"),
            (LABELS, 2 * P, "outside"),
            (np.where(LABELS, np.inf, 0), P, "holds other values"),
            (LABELS.astype(str), P, "holds other values"),
            (np.where(KNOWN, LABELS, -1), P, "and NaN where that is not known"),
        )
    ),
    *(
        (function, (y, P), {}, KIND)
        for function in (
            s.calibration_error,
            s.proper_calibration_error,
            s.ReliabilityDisplay.from_predictions,
            s.CalibrationReport.from_predictions,
        )
        for y in (LABELS, np.where(np.arange(3) == 1, np.nan, LABELS))
    ),
    *(
        (call, arguments, {"notion": NOTION}, r"The label 'b' of y\w* has no known cell")
        for call, arguments in (
            (s.calibration_error, (NO_CELL, P)),
            (s.calibration_error_interval, (NO_CELL, P)),
        )
    ),
    (s.MultilabelRecalibrator().fit, (P, NO_CELL), {}, "The label 'b' of y has no known cell"),
    (
        s.GroupingLossEstimator(notion=NOTION).fit,
        (X_NEW, NO_CELL),
        {"y_proba": P},
        "The label 'b' of y_true has no known cell",
    ),
    (
        s.calibration_error,
        (GAPS, P),
        {"notion": NOTION, "sample_weight": np.where(KNOWN[:, 1], 0.0, 1.0)},
        "The label 1 of y_true has no known cell of positive",
    ),
    (
        s.kernel_calibration_test,
        (GAPS, P),
        {"notion": NOTION, "method": "bound"},
        "method='bound' is for labels that are all known, and y_true has missing cells .*one label "
        "at a time",
    ),
    (
        s.kernel_calibration_test,
        (FEW, P),
        {"notion": NOTION},
        "The label 1 of y_true has known cells of . samples or",
    ),
    (s.errors.corp_test, (LABELS, P), {"notion": NOTION}, "one label from each row"),
    (
        s.calibration_error,
        (LABELS, P),
        {"notion": NOTION, "pos_label": 1},
        "pos_label is for two classes",
    ),
    (
        s.proper_calibration_error,
        (SINGLE, None),
        {"notion": NOTION},
        "the Problem holds labels",
    ),
    (s.proper_calibration_error, (SEVERAL, None), {}, "holds an indicator matrix"),
    (
        s.ReliabilityDisplay.from_predictions,
        (np.tile(LABELS, 10), np.tile(P, 10)),
        {"notion": NOTION},
        "one panel per label, and 30 labels exceed",
    ),
    (
        s.ReliabilityDisplay.from_cv_results,
        (RESULTS, X_NEW, LABELS),
        {"notion": NOTION},
        "from_cv_results takes one label per sample",
    ),
    (
        check_problem,
        (MISSING[0], pd.DataFrame(P, columns=["c", "b", "a"]), NOTION),
        {},
        "columns of y_proba are named",
    ),
    (
        check_problem,
        (MISSING[0], P, NOTION),
        {"labels": ["c", "b", "a"]},
        "columns of y_true are named",
    ),
    (Multilabel, ("max",), {}, "reduce must be 'mean' or 'sum'"),
    # an array is no list of arrays
    (s.MultilabelRecalibrator().fit, (np.stack([P, 1 - P]), LABELS), {}, "X must"),
    *(
        (estimator.fit, (P + 1.5 - P.max(), LABELS), {}, r"^X has the value 1\.5")
        for estimator in (s.MultilabelRecalibrator(), s.CalibrationErrorEstimator(notion=NOTION))
    ),
]


@pytest.mark.parametrize(("call", "arguments", "options", "words"), REFUSED)
def test_refusals(call, arguments, options, words):
    with pytest.raises(ValueError, match=words):
        call(*arguments, **options)


def test_a_label_that_all_samples_lack_is_stated():
    only = np.where(KNOWN & (np.arange(3) == 1), 0, GAPS)
    with pytest.warns(UserWarning, match="The label 1 is 0 in all of its known cells"):
        s.MultilabelRecalibrator("isotonic").fit(P, only)
