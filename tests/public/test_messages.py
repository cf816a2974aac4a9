"""Error messages, word by word: what was wrong, what was expected, what to do.

Each line of a table is a call and the whole message; numbers of digits are given by a pattern.
Those of bins and of kernels are with their formulas, in `tests/laws`.
"""

import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import make_forecasts
from public_functions import BESIDE, FORECASTS, MOMENTS, SCALARS, public_name
from sklearn.dummy import DummyClassifier

import skcalib as s
from skcalib.grouping import differences_at_equal_scores
from skcalib.kernels import median_distance
from skcalib.regression import dawid_sebastiani_improvement
from skcalib.significance import CalibrationTest

Y, P = make_forecasts(40, 2)
Y3, P3 = make_forecasts(40, 3)
NAN = np.where(np.arange(40) == 3, np.nan, P[:, 1])
OFF = P * np.where(np.arange(40) == 7, 1.001, 1)[:, None]
IMPOSSIBLE = np.where(np.arange(40) == np.flatnonzero(Y == 1)[0], 0.0, 0.5)

#: The message of each pair of labels and forecasts.
INVALID_DATA = {
    r"y_true and y_proba must have the same number of samples: "
    r"y_true has 2, y_proba has 1\.": ([0, 1], [[0.5, 0.5]]),
    r"y_proba is empty: at least one sample is needed\.": ([0, 1], np.empty((0, 2))),
    r"y_proba contains NaN: remove or correct these rows first\.": (Y, NAN),
    r"y_proba contains infinity: "
    r"remove or correct these rows first\.": (Y, np.where(P[:, 1] > 0.5, np.inf, 0)),
    r"y_proba has the value -0\.5, outside \[0, 1\]: probabilities are expected\. Map logits or "
    r"decision values to probabilities first, for example by scipy\.special\.softmax or "
    r"scipy\.special\.expit\.": (Y, P[:, 1] - 0.5),
    r"y_proba has the value \d+(\.\d+)?, outside \[0, 1\]: probabilities are expected\. The rows "
    r"sum to 100, so these are percentages: divide by 100\.": (Y, P * 100),
    r"y_proba has the value 3, outside \[0, 1\]: .*\.expit\.": (Y, P * 3),
    r"y_proba has the value \d+(\.\d+)?, outside \[0, 1\]: probabilities are expected\. If these "
    r"are percentages, divide by 100\. Map logits or decision values to probabilities first, for "
    r"example by scipy\.special\.softmax or scipy\.special\.expit\.": (Y, P[:, 1] * 100),
    r"Each row of y_proba must sum to 1 \(within 1e-05\), but row 7 sums to 1\.001\. Pass one "
    r"probability per class in each row; divide by the row sum first if that is "
    r"intended\.": (Y, OFF),
    r"y_proba must be a numeric array of "
    r"shape \(n,\) or \(n, n_classes\): .*\.": (Y, [["a", "b"]] * 40),
    r"y_proba must (have|be a numeric array of) "
    r"shape \(n,\) or \(n, n_classes\).*\.": (Y, P[:, :, None]),
    r"y_true must hold one label per sample, shape \(n,\); got shape \(40, 2\)\. Turn one-hot "
    r"rows into labels with \.argmax\(axis=1\); for an indicator matrix of 0 and 1 "
    r"pass a column of y_true and of y_proba at a time, or notion=Multilabel\(\) to a function "
    r"that takes it; soft labels are label distributions or annotator counts \(n, "
    r"n_classes\)\.": (np.eye(2)[Y], P),
    r"y_true contains missing values \(NaN or None\): "
    r"remove these rows first\.": (np.where(Y == 1, None, 0), P),
    r"y_true contains continuous values: class labels are expected\. Did you swap labels and "
    r"forecasts\?": (P[:, 1], Y),
    r"y_proba is a generator, not an array: pass list\(y_proba\)\.": (Y, (row for row in P)),
    r"y_proba is the method predict_proba: "
    r"call it, such as predict_proba\(X\)\.": (Y, DummyClassifier().predict_proba),
    r"y_proba is the function len: call it, such as len\(X\)\.": (Y, len),
    r"y_proba is a dict, not an array: pass list\(y_proba\.values\(\)\)\.": (Y, {0: 0.5}),
    r"y_proba is a set, which has no order: pass a list or an array\.": (Y, {0.5}),
    r"y_proba must be a numeric array of shape \(n,\) or \(n, n_classes\): got "
    r"DummyClassifier\(\)\.": (Y, DummyClassifier()),
    r"y_proba must be a numeric array of shape \(n,\) or \(n, n_classes\): it holds "
    r"\{0: 1\}\.": (Y, [{0: 1}] * 40),
    r"y_true is a map, not an array: pass list\(y_true\)\.": (map(int, Y), P),
    r"y_true is a dict_values, not an array: pass list\(y_true\)\.": ({0: 1}.values(), P),
    r"y_true is a dict, not an array: pass list\(y_true\.values\(\)\)\.": ({0: 1}, P),
    r"y_true is a frozenset, which has no order: pass a list or an array\.": (frozenset([0]), P),
    r"y_true must hold one label per sample, shape \(n,\); got 'churn'\.": ("churn", P),
    r"y_true mixes labels of types that cannot be ordered\.": ([{0: 1}] * 40, P),
    r"(y_true must hold one label.* Or|y_true holds .*:) did you swap .*\?": (P, Y),
    r"y_true has 3 classes but y_proba has 2 columns: pass labels= with the class of each column "
    r"of y_proba \(for a scikit-learn classifier: its classes_\)\.": (Y3, P),
    r"y_true has only the class 'x', so it is unknown which class y_proba of shape \(n,\) is the "
    r"probability of: pass labels=\[negative, positive\] or pos_label=\.": (["x"] * 40, P[:, 1]),
}
#: The message of each argument beside valid labels and forecasts.
INVALID_ARGUMENTS = {
    r"y_true contains 1, which is none of the classes \[0, 2\]: pass labels= with the class of "
    r"each column\.": ("labels", [0, 2]),
    r"labels has a class twice: \[1, 1\]\.": ("labels", [1, 1]),
    r"labels must list at least two classes, one for each column of y_proba\.": ("labels", [0]),
    r"sample_weight must have shape \(40,\), one weight per sample; "
    r"got shape \(1,\)\.": ("sample_weight", [1.0]),
    r"sample_weight must be finite and not negative\.": ("sample_weight", -np.ones(40)),
    r"sample_weight sums to zero: "
    r"at least one weight must be positive\.": ("sample_weight", np.zeros(40)),
    r"sample_weight must be an array of numbers\.": ("sample_weight", "heavy"),
    r"sample_weight is a generator, not an array: "
    r"pass list\(sample_weight\)\.": ("sample_weight", (1 for _ in Y)),
    r"pos_label=7 is not one of the classes \[0, 1\]\.": ("pos_label", 7),
}
INVALID_INPUT = [
    *((arguments, {}, words) for words, arguments in INVALID_DATA.items()),
    *(((Y, P), {name: value}, words) for words, (name, value) in INVALID_ARGUMENTS.items()),
    (
        (Y3, P3),
        {"pos_label": 1},
        r"pos_label is for binary problems, but there are 3 classes: omit it; if there is a "
        r"notion= argument, 'classwise' evaluates every class\.",
    ),
]
PLAIN = [
    recipe
    for recipe in {public_name(r.function): r for r in reversed(FORECASTS)}.values()
    if recipe.takes == "forecast" and "transform" not in recipe.options
]


@pytest.mark.parametrize("recipe", PLAIN, ids=str)
def test_same_message_from_every_function(recipe):
    """Invalid input gives one message, whatever function receives it."""
    for arguments, options, words in INVALID_INPUT:
        if public_name(recipe.function) in BESIDE and (
            words.startswith("y_true has") or "pos_label" in options
        ):
            continue  # a stream has explicit labels
        if recipe.accepts("labels") and not (recipe.binary and "are 3 classes" in words):
            assert_says(words, recipe, *arguments, **options)


OF_TWO_CLASSES = [r for r in FORECASTS if r.binary and not r.accepts("notion")]


@pytest.mark.parametrize("recipe", OF_TWO_CLASSES, ids=str)
def test_functions_of_two_classes_refuse_three(recipe):
    with pytest.raises(ValueError, match="is for two classes, but y_proba has 3 columns: "):
        recipe(Y3, P3)


def assert_says(words, call, *arguments, **options):
    with pytest.raises(ValueError) as caught:
        call(*arguments, **options)
    assert re.fullmatch(words, str(caught.value)), str(caught.value)


SCORERS = (
    "'neg_brier_calibration_error', 'neg_log_calibration_error', 'neg_l1_calibration_error', "
    "'neg_l2_calibration_error', 'neg_max_calibration_error', 'neg_ks_calibration_error', "
    "'neg_kernel_calibration_error', 'neg_root_brier_score', 'neg_log_refinement', "
    "'neg_brier_refinement', 'neg_decision_regret', 'net_benefit', 'neg_grouping_loss'"
)
ONE, TWO = ([1], [0.3]), ([0.0, 1.0], [0.0, 0.0], [1.0, 1.0])
LAST = 1e-9 * np.ones(40)
LAST[0] = 1e9
CERTAIN, ALONE = np.eye(2)[Y], DummyClassifier().fit(P, ["a"] * 40)
#: Function -> {(option, invalid value): message}, for labels and forecasts of two classes.
INVALID_OPTIONS = {
    s.proper_calibration_error: {
        (
            "loss",
            "brie",
        ): "loss must be one of 'brier', 'log', 'spherical', 'rps' or a ProperScore, got 'brie'. "
        "Did you mean 'brier'?",
        ("notion", "top"): "notion must be one of 'auto', 'canonical', 'classwise', 'top_label', "
        "'cumulative' or a Notion, got 'top'. Did you mean 'top_label'?",
        ("smoother", "kern"): "smoother must be one of 'isotonic', 'quantile', 'uniform', "
        "'smooth', 'kernel', 'binning' or a Smoother, got 'kern'.",
        ("method", "exact"): "method must be one of 'auto', 'risk', 'direct', 'cross', got "
        "'exact'.",
    },
    s.score_decomposition: {
        ("method", "direct"): "method='direct' estimates the calibration error only, and does not "
        "add up with a refinement to the loss: use 'risk' or 'cross'."
    },
    s.sharpness: {("transform", "logit"): "transform must be None or 'simplex', got 'logit'."},
    s.calibration_error: {
        (
            "reduce",
            "sum",
        ): "reduce='sum' is for notion='classwise' or 'cumulative', got notion='auto': leave it "
        "out.",
        ("notion", "top_k"): "notion must be one of 'auto', 'canonical', 'classwise', 'top_label', "
        "'cumulative' or a Notion, got 'top_k': use notion=TopK(k) of skcalib.data.notions.",
        ("notion", "Top-label"): "notion must be one of 'auto', 'canonical', 'classwise', "
        "'top_label', 'cumulative' or a Notion, got 'Top-label'. Did you mean 'top_label'?",
    },
    s.kernel_calibration_error: {
        (
            "kernel",
            "rbf",
        ): "kernel must be one of 'laplacian', 'gaussian' or a Kernel, got 'rbf'. "
        "Did you mean 'gaussian'?"
    },
    s.kernel_calibration_test: {
        ("method", "exact"): "method must be 'auto' or one of 'spectral', 'multipliers', "
        "'bootstrap', 'bound', 'embedding' for statistic='auto', got 'exact'."
    },
    s.significance.distribution_free_bound: {
        ("statistic", "block"): "statistic must be one of 'auto', 'biased', 'unbiased', 'linear', "
        "for which bounds are known, got 'block'."
    },
    s.significance.consistency_test: {
        ("metric", "ece"): "metric must be a function of (y_true, y_proba, labels=...), got 'ece'.",
        ("n_resamples", 0): "n_resamples must be a whole number of at least 1, got 0.",
    },
    s.significance.spiegelhalter_test: {
        ("n_resamples", -1): "n_resamples must be a whole number of at least 0, got -1."
    },
    s.hosmer_lemeshow_test: {("ddof", -1): "ddof must be a whole number of at least 0, got -1."},
    s.significance.cumulative_test: {
        ("statistic", "x"): "statistic must be one of 'ks', 'kuiper', got 'x'."
    },
    s.integrated_calibration_index: {
        ("quantile", 2): "quantile must be None or a number in [0, 1], got 2."
    },
    s.errors.kde_calibration_error: {
        ("norm", "max"): "norm must be 'l1', 'l2' or a finite number of at least 1, got 'max': the "
        "largest gap is where the density is lowest and nothing is known. Use calibration_error "
        "for the largest gap of bins.",
        ("bandwidth", 0.5): "bandwidth must be 'scott' or a number in (0, 1/3], got 0.5.",
    },
}
#: The message of each of other calls.
INVALID_CALLS = {
    "DawidSebastiani() scores means and variances, not class probabilities: use 'brier', 'log', "
    "'spherical', 'rps' or a ProperScore on the simplex.": partial(
        s.proper_calibration_error, Y, P, loss=s.scores.DawidSebastiani()
    ),
    "method='cross' needs a score that is a multiple of the squared distance, such as 'brier'; "
    "LogLoss() is not: use method='risk'.": partial(
        s.proper_calibration_error, Y, P, method="cross", loss="log"
    ),
    "At least 2 samples are needed: an estimate that leaves samples out has no data to learn "
    "from. Functions of the loss alone, such as root_brier_score and calibration_upper_bound, "
    "accept one sample.": partial(s.proper_calibration_error, *ONE),
    "IsotonicSmoother needs a problem of two columns; got forecasts of shape (40, 3) and a "
    "target of shape (40, 3). Use notion='classwise' or 'top_label', which are made of such "
    "problems.": partial(s.proper_calibration_error, Y3, P3, smoother="isotonic"),
    "The smoother gives probability 0 to the label of 2 held-out samples, so its own log loss is "
    "infinite and no comparison is possible: use the default smoother, method='direct' or "
    "loss='brier'.": partial(
        s.proper_calibration_error,
        [0, 0, 1, 1, 1, 0],
        [0.2, 0.2, 0.2, 0.8, 0.8, 0.8],
        smoother=s.smoothers.LevelSets(),
        loss="log",
    ),
    "sharpness of a representation needs method='risk': there is no forecast for the other "
    "methods.": partial(s.sharpness, Y, P, transform="simplex", method="cross"),
    "sharpness of a representation needs notion='canonical'.": partial(
        s.sharpness, Y, P, transform="simplex", notion="top_label"
    ),
    "y_proba must have shape (n,) or (n, n_classes), got (2, 40, 3). It may be that of a model of "
    "several labels: pass the probabilities of one label at a time, such as "
    "predict_proba(X)[k].": partial(s.calibration_error, Y3, [P3, P3]),
    "TopK(k=3) needs at least 3 classes, got 2.": partial(
        s.proper_calibration_error, Y, P, notion=s.data.notions.TopK(3)
    ),
    "One score at a time needs problems of two columns, and Canonical() gives 3: use "
    "notion='top_label' or 'classwise', or simplex_calibration_error for all columns "
    "at once.": partial(s.calibration_error, Y3, P3, notion="canonical"),
    "bins must be one of 'median', 'uniform' or a PartitionSmoother, got 'grid'.": partial(
        s.errors.simplex_calibration_error, Y3, P3, bins="grid"
    ),
    "reduce must be 'mean', 'sum' or 'predicted', got 'all'.": partial(
        s.ks_calibration_error, Y3, P3, notion="classwise", reduce="all"
    ),
    "A test needs at least 4 samples of positive weight, got 3: use more or, for class "
    "probabilities, distribution_free_bound, "
    "which is valid for any number.": partial(s.kernel_calibration_test, Y[:3], P[:3]),
    "A test needs at least two blocks, but 6 samples give one of 4.": partial(
        s.kernel_calibration_test, Y[:6], P[:6], statistic="block", block_size=4
    ),
    "A test needs at least two effective blocks, but sample_weight gives nearly all of the "
    "weight to one: use more even weights, or statistic='unbiased'.": partial(
        s.kernel_calibration_test,
        Y,
        P,
        statistic="linear",
        sample_weight=LAST + 1e8 * (np.arange(40) == 1),
    ),
    "The distribution-free bounds require equal weights: leave out sample_weight, or use the "
    "method 'spectral' of kernel_calibration_test.": partial(
        s.significance.distribution_free_bound, Y, P, sample_weight=1 + np.arange(40)
    ),
    "A comparison needs at least 5 blocks, but 6 samples give 3 of 2: use smaller blocks or more "
    "samples.": partial(s.compare_calibration, Y[:6], P[:6], P[:6]),
    "spiegelhalter_test is for two classes, but y_proba has 3 columns: use "
    "calibration_test, or test each class c against the rest, spiegelhalter_test(y_true "
    "== c, y_proba[:, c]), and multiply the p-values by 3.": partial(
        s.significance.spiegelhalter_test, Y3, P3
    ),
    "Labels drawn from the forecasts are not valid for forecasts that were fitted to the labels: "
    "use ddof=0 with held-out samples, "
    "or n_resamples=None.": partial(s.hosmer_lemeshow_test, Y, P, ddof=2, n_resamples=99),
    "The calibration intercept and slope have no finite estimate: all labels of forecasts other "
    "than 0 and 1 are of one class. "
    "More samples are needed.": partial(s.calibration_intercept_slope, Y, CERTAIN),
    "y_proba is exactly 0 for the class that occurred in 1 samples, so the likelihood is 0 for "
    "every intercept and positive slope: use integrated_calibration_index, which allows such "
    "forecasts, or a classifier that never predicts exactly 0 or 1 (a forest with larger leaves, "
    "a softmax in double precision).": partial(s.calibration_intercept_slope, Y, IMPOSSIBLE),
    "The calibration slope is for two classes, but y_proba has 3 columns: pass one class against "
    "the rest, (y_true == c, y_proba[:, c]), or whether the prediction was right and its "
    "confidence.": partial(s.calibration_intercept_slope, Y3, P3),
    "kde_calibration_error has no interval: noise and smoothing bias it, by an amount that is "
    "not known. Use metric='l1' for the error of binned forecasts, or metric='brier'.": partial(
        s.calibration_error_interval, Y, P, metric=s.errors.kde_calibration_error, norm="l2"
    ),
    "calibration_improvement needs at least 4 samples of positive weight, got 3: fewer give no "
    "usable standard error.": partial(
        s.calibration_improvement, Y[:3], P[:3], P[:3], injective=True
    ),
    "y_true has 2 classes but after has 3 columns: pass labels=range(3) if labels are the numbers "
    "of columns (for a scikit-learn classifier: "
    "its classes_).": partial(s.calibration_improvement, Y, P, P3),
    "The losses are infinite for 40 samples before and 40 after, because labels of probability 0 "
    "occurred, and inf - inf is undefined: use loss='brier', or probabilities that are all "
    "positive.": partial(s.calibration_improvement, Y, 1 - CERTAIN, 1 - CERTAIN, loss="log"),
    "y_var must be positive, but row 1 holds 0: the score of a forecast without variance is "
    "infinite. Give the regressor a noise term, or leave these rows out.": partial(
        s.regression.dawid_sebastiani_score, [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]
    ),
    "y_true, y_mean and y_var must have the same number of samples, got 2, 1 and 2.": partial(
        s.regression.dawid_sebastiani_score, [0.0, 1.0], [0.0], [1.0, 1.0]
    ),
    "y_true must hold real numbers, got an array of type <U1.": partial(
        s.regression.dawid_sebastiani_score, ["a"], [0.0], [1.0]
    ),
    "before must have the shape (n_samples, 2), mean and variance, got (2,).": partial(
        dawid_sebastiani_improvement, [0.0, 1.0], [0.0, 0.0], [[0.0, 1.0], [0.0, 1.0]]
    ),
    "confidence_level must lie strictly between 0 and 1, got 95.": partial(
        s.regression.variance_reliability, *TWO, confidence_level=95
    ),
    "forecast_bandwidth must be 'median' or a positive number, got -1.": partial(
        s.regression.kernel_calibration_error_gaussian, *TWO, forecast_bandwidth=-1
    ),
    "A test needs at least 4 samples of positive weight, got 2: use more or, for class "
    "probabilities, distribution_free_bound, "
    "which is valid for any number.": partial(s.regression.kernel_calibration_test_gaussian, *TWO),
    "n_samples must be a whole number of at least 1, got 0.": partial(s.optimal_n_bins, 0),
    "lipschitz must be the Lipschitz constant of E[Y|f], finite and not negative; got -1.": partial(
        s.optimal_n_bins, 10, lipschitz=-1
    ),
    "The bound needs two samples per bin, but n_samples=10 is less than 2 * n_bins=12: use at "
    "most 5 bins, or more samples.": partial(s.theory.ece_bias_bound, 10, 6),
    "strategy must be 'uniform' or 'quantile', got 'equal'.": partial(
        s.theory.ece_bias_bound, 100, 6, strategy="equal"
    ),
    "ecmi=100 nats exceeds n ln 2 = 69.3147, the entropy of the choice of n training samples, "
    "which is the maximum.": partial(s.theory.ece_generalization_bound, 100, 10, ecmi=100),
    "bound='metric_entropy' holds for uniform bins: use bound='tce'.": partial(
        s.theory.ece_generalization_bound, 100, 10, bound="metric_entropy", strategy="quantile"
    ),
    "radius must lie in (0, 1/n_bins] = (0, 0.1] for bound='metric_entropy', got 0.2.": partial(
        s.theory.ece_generalization_bound, 100, 10, bound="metric_entropy", radius=0.2
    ),
    "ecmi=1 and residual_cmi=2 are two choices of the same information: give one of them.": partial(
        s.theory.ece_generalization_bound, 100, 10, ecmi=1, residual_cmi=2
    ),
    f"name must be one of {SCORERS}, got 'accuracy'.": partial(s.get_scorer, "accuracy"),
    "names must be a list of names of scorers, got 'accuracy'.": partial(s.get_scorers, "accuracy"),
    f"names must be different names of scikit-learn's scorers or of {SCORERS}; unknown: "
    "'brier'.": partial(s.get_scorers, ["brier"]),
    "rule must be one of 'median', 'median_pairs', got 'mean'.": partial(
        median_distance, np.eye(3), rule="mean"
    ),
    "X and y_true must have the same number of samples: X has 39, y_true has 40.": partial(
        differences_at_equal_scores, Y, P, P[:39]
    ),
    "metric must be one of 'total_variation', 'euclidean', got 'l1'.": partial(
        median_distance, np.eye(3), metric="l1"
    ),
    "forecast must hold numbers of shape (n, K), got shape (1,) of type <U1.": partial(
        median_distance, ["a"]
    ),
    "forecast contains NaN or infinity: remove these rows first.": partial(
        median_distance, [[0.5, np.nan]]
    ),
    "by must have the group of each of the 40 samples, got shape (0,): pass an array, a data "
    "frame, or a dict of masks.": partial(s.CalibrationReport.from_predictions, Y, P[:, 1], by=[]),
    "pos_label must be the label of one class, got 0 1 1 0 dtype: int64.": partial(
        s.calibration_error, Y, P[:, 1], pos_label=pd.Series([1, 0])
    ),
    "X must have a row of features for each sample, got 5.": partial(
        s.decision_regret, Y, P, threshold=0.3, X=5
    ),
    "costs must be at most 1e+100 in size, got [[0, -1e+308], [0.5, 0]]: use a larger "
    "unit.": partial(s.decision_regret, Y, P, costs=[[0, -1e308], [0.5, 0]]),
    "confidence_level must be at least 1e-10, got 1e-320: 0.95 is usual.": partial(
        s.decision_regret, Y, P, threshold=0.3, confidence_level=1e-320
    ),
    "by contains missing values (NaN or None): remove these rows first.": partial(
        s.compare_windows, Y, P, by=[None, "a"] * 20
    ),
    "lipschitz must be at most 1e+100, got 1e+308.": partial(
        s.optimal_n_bins, 100, lipschitz=1e308
    ),
    "tests is empty: pass at least one CalibrationTest.": partial(s.significance.combine_tests, []),
    "The metric returned NaN, which cannot be compared with other errors: pass a metric that is "
    "defined for all labels with positive probability.": partial(
        s.significance.consistency_test, Y, P, metric=lambda y, p, labels: np.nan, n_resamples=9
    ),
    "SimpleNamespace.predict_proba(P) has shape (39, 2), but 40 samples of 2 classes were "
    "expected.": partial(
        s.calibration_improvement,
        Y,
        P,
        SimpleNamespace(predict_proba=lambda proba: proba[:-1], classes_=np.arange(2)),
    ),
    "The classifier and y have only one class, 'a': its probability is always 1, and there is "
    "nothing to evaluate.": partial(
        s.CalibrationErrorEstimator.fit, s.CalibrationErrorEstimator(ALONE), P, ["a"] * 40
    ),
    "level must lie strictly between 0 and 1, got 1.5.": partial(
        CalibrationTest.rejects, CalibrationTest(1.0, 0.2, 0.1, "a method"), 1.5
    ),
}
CALLS = [
    *(
        (partial(function, Y, P, **{name: value}), words)
        for function, options in INVALID_OPTIONS.items()
        for (name, value), words in options.items()
    ),
    *((call, words) for words, call in INVALID_CALLS.items()),
]


@pytest.mark.parametrize(
    ("call", "words"), CALLS, ids=[f"{c.func.__name__}-{k}" for k, (c, _) in enumerate(CALLS)]
)
def test_message(call, words):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == words


def test_every_public_function_has_a_message_in_the_tables():
    named = {public_name(call.func) for call, _ in CALLS}
    named |= {public_name(recipe.function) for recipe in PLAIN}
    known = {public_name(r.function) for r in (*FORECASTS, *MOMENTS)} | {*map(public_name, SCALARS)}
    assert known - named == {"get_scorer_names"}  # it takes nothing


def test_estimators_tell_where_the_probabilities_go():
    X = np.column_stack([P[:, 1], 3 * P[:, 0]])
    assert_says(
        r"X has the value \S+, outside \[0, 1\]: .* Without an estimator X must be probabilities, "
        r"one column per class; pass estimator=\.\.\. for features\.",
        s.CalibrationErrorEstimator().fit,
        X,
        Y,
    )
    assert_says(
        r"GroupingLossEstimator without an estimator needs the probabilities: pass y_proba "
        r"next to the features X, fit\(X, y, y_proba\)\.",
        s.GroupingLossEstimator().fit,
        X,
        Y,
    )
