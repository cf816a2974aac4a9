"""Error messages, word by word: what was wrong, what was expected, what to do.

Each line of a table is a call and the whole message; numbers of digits are given by a pattern.
Messages of the door (labels, forecasts, weights) are in `test_checks` too; here they are complete.
"""

import re

import numpy as np
import pytest
from conftest import make_forecasts
from public_functions import BESIDE, FORECASTS, MOMENTS, SCALARS, public_name
from scipy.sparse import csr_array

import skcalib as s
from skcalib.grouping import differences_at_equal_scores
from skcalib.kernels import median_distance
from skcalib.regression import (
    dawid_sebastiani_improvement,
    dawid_sebastiani_score,
    kernel_calibration_error_gaussian,
    kernel_calibration_test_gaussian,
    variance_reliability,
)

Y, P = make_forecasts(40, 2)
Y3, P3 = make_forecasts(40, 3)
NAN = np.where(np.arange(40) == 3, np.nan, P[:, 1])
OFF = P * np.where(np.arange(40) == 7, 1.001, 1)[:, None]
IMPOSSIBLE = np.where(np.arange(40) == np.flatnonzero(Y == 1)[0], 0.0, 0.5)

# A call is a function, its positional arguments and the rest.
INVALID_INPUT = [
    (
        ([0, 1], [[0.5, 0.5]]),
        {},
        r"y_true and y_proba must have the same number of samples: y_true has 2, y_proba has 1\.",
    ),
    (([], []), {}, r"y_true is empty: at least one sample is needed\."),
    (([0, 1], np.empty((0, 2))), {}, r"y_proba is empty: at least one sample is needed\."),
    ((Y, NAN), {}, r"y_proba contains NaN: remove or correct these rows first\."),
    (
        (Y, np.where(P[:, 1] > 0.5, np.inf, 0)),
        {},
        r"y_proba contains infinity: remove or correct these rows first\.",
    ),
    (
        (Y, P[:, 1] - 0.5),
        {},
        r"y_proba has the value -0\.5, outside \[0, 1\]: probabilities are expected\. Map logits "
        r"or decision values to probabilities first, for example by scipy\.special\.softmax or "
        r"scipy\.special\.expit\.",
    ),
    (
        (Y, P * 100),
        {},
        r"y_proba has the value \d+(\.\d+)?, outside \[0, 1\]: probabilities are expected\. The "
        r"rows sum to 100, so these are percentages: divide by 100\.",
    ),
    (
        (Y, P[:, 1] * 100),
        {},
        r"y_proba has the value \d+(\.\d+)?, outside \[0, 1\]: probabilities are expected\. If "
        r"these are percentages, divide by 100\. Map logits or decision values to probabilities "
        r"first, for example by scipy\.special\.softmax or scipy\.special\.expit\.",
    ),
    (
        (Y, OFF),
        {},
        r"Each row of y_proba must sum to 1 \(within 1e-05\), but row 7 sums to 1\.001\. Pass one "
        r"probability per class in each row; divide by the row sum first if that is "
        r"intended\.",
    ),
    (
        (Y, csr_array(P)),
        {},
        r"y_proba is sparse: pass a dense array, for example y_proba\.toarray\(\)\.",
    ),
    (
        (Y, [["a", "b"]] * 40),
        {},
        r"y_proba must be a numeric array of shape \(n,\) or \(n, n_classes\): .*\.",
    ),
    (
        (Y, P[:, :, None]),
        {},
        r"y_proba must (have|be a numeric array of) shape \(n,\) or \(n, n_classes\).*\.",
    ),
    (
        (np.eye(2)[Y], P),
        {},
        r"y_true must hold one label per sample, shape \(n,\); got shape \(40, 2\)\. Turn one-hot "
        r"rows into labels with \.argmax\(axis=1\); an indicator matrix of 0 and 1 needs "
        r"notion=Multilabel\(\), and soft labels are label distributions or annotator counts "
        r"\(n, n_classes\)\.",
    ),
    (
        (np.where(Y == 1, None, 0), P),
        {},
        r"y_true contains missing values \(NaN or None\): remove these rows first\.",
    ),
    ((Y + 0.5, P), {}, r"y_true contains continuous values: class labels are expected\."),
    (
        (Y3, P),
        {},
        r"y_true has 3 classes but y_proba has 2 columns: pass labels= with the class of each "
        r"column of y_proba \(for a scikit-learn classifier: its classes_\)\.",
    ),
    (
        (Y, P),
        {"labels": [0, 2]},
        r"y_true contains 1, which is none of the classes \[0, 2\]: pass labels= with the class of "
        r"each column\.",
    ),
    ((Y, P), {"labels": [1, 1]}, r"labels has a class twice: \[1, 1\]\."),
    (
        (Y, P),
        {"labels": [0]},
        r"labels must list at least two classes, one for each column of y_proba\.",
    ),
    ((Y, P[:, 1]), {"pos_label": 7}, r"pos_label=7 is not one of the classes \[0, 1\]\."),
    (
        (Y3, P3),
        {"pos_label": 1},
        r"pos_label is for binary problems, but there are 3 classes: omit it; if there is a "
        r"notion= argument, 'classwise' evaluates every class\.",
    ),
    (
        (["x"] * 40, P[:, 1]),
        {},
        r"y_true has only the class 'x', so it is unknown which class y_proba of shape \(n,\) "
        r"is the probability of: pass labels=\[negative, positive\] or pos_label=\.",
    ),
    (
        (Y, P),
        {"sample_weight": [1.0]},
        r"sample_weight must have shape \(40,\), one weight per sample; got shape \(1,\)\.",
    ),
    ((Y, P), {"sample_weight": -np.ones(40)}, r"sample_weight must be finite and not negative\."),
    (
        (Y, P),
        {"sample_weight": np.zeros(40)},
        r"sample_weight sums to zero: at least one weight must be positive\.",
    ),
    ((Y, P), {"sample_weight": "heavy"}, r"sample_weight must be an array of numbers\."),
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


def assert_says(words, call, *arguments, **options):
    with pytest.raises(ValueError) as caught:
        call(*arguments, **options)
    assert re.fullmatch(words, str(caught.value)), str(caught.value)


SCORERS = (
    "'neg_brier_calibration_error', 'neg_log_calibration_error', 'neg_l1_calibration_error', "
    "'neg_l2_calibration_error', 'neg_max_calibration_error', 'neg_ks_calibration_error', "
    "'neg_kernel_calibration_error', 'neg_root_brier_score', 'neg_decision_regret', "
    "'neg_grouping_loss'"
)
ONE = ([1], [0.3])
LAST = 1e-9 * np.ones(40)
LAST[0] = 1e9
CERTAIN = np.eye(2)[Y]
FUNCTIONS = [
    # proper errors
    (
        s.proper_calibration_error,
        (Y, P),
        {"loss": "brie"},
        r"loss must be one of 'brier', 'log', 'spherical' or a ProperScore, got 'brie'\.",
    ),
    (
        s.proper_calibration_error,
        (Y, P),
        {"loss": s.scores.DawidSebastiani()},
        r"DawidSebastiani\(\) scores means and variances, not class probabilities: use 'brier', "
        r"'log', 'spherical' or a ProperScore on the simplex\.",
    ),
    (
        s.proper_calibration_error,
        (Y, P),
        {"notion": "top"},
        r"notion must be one of 'auto', 'canonical', 'classwise', 'top_label' or a Notion, "
        r"got 'top'\.",
    ),
    (
        s.proper_calibration_error,
        (Y, P),
        {"smoother": "kern"},
        r"smoother must be one of 'isotonic', 'quantile', 'uniform', 'smooth', 'kernel', 'binning' "
        r"or a Smoother, got 'kern'\.",
    ),
    (
        s.proper_calibration_error,
        (Y, P),
        {"method": "exact"},
        r"method must be one of 'auto', 'risk', 'direct', 'cross', got 'exact'\.",
    ),
    (
        s.proper_calibration_error,
        (Y, P),
        {"method": "cross", "loss": "log"},
        r"method='cross' needs a score that is a fixed quadratic form, such as 'brier'; "
        r"LogLoss\(\) "
        r"is not: use method='risk'\.",
    ),
    (
        s.proper_calibration_error,
        ONE,
        {},
        r"At least 2 samples are needed: an estimate that leaves samples out has no data to learn "
        r"from\. Functions of the loss alone, such as root_brier_score and "
        r"calibration_upper_bound, "
        r"accept one sample\.",
    ),
    (
        s.proper_calibration_error,
        (Y3, P3),
        {"smoother": "isotonic"},
        r"IsotonicSmoother needs a problem of two columns; got forecasts of shape \(40, 3\) and a "
        r"target of shape \(40, 3\)\. Use notion='classwise' or 'top_label', which are made of "
        r"such "
        r"problems\.",
    ),
    (
        s.proper_calibration_error,
        ([0, 0, 1, 1, 1, 0], [0.2, 0.2, 0.2, 0.8, 0.8, 0.8]),
        {"smoother": s.smoothers.LevelSets(), "loss": "log"},
        r"The smoother gives probability 0 to the label of \d held-out samples, so its "
        r"own log loss is infinite and no comparison is possible: use the default smoother, "
        r"method='direct' or loss='brier'\.",
    ),
    (
        s.score_decomposition,
        (Y, P),
        {"method": "direct"},
        r"method='direct' estimates the calibration error only, and does not add up with a "
        r"refinement to the loss: use 'risk' or 'cross'\.",
    ),
    (
        s.sharpness,
        (Y, P),
        {"transform": "logit"},
        r"transform must be None or 'simplex', got 'logit'\.",
    ),
    (
        s.sharpness,
        (Y, P),
        {"transform": "simplex", "method": "cross"},
        r"sharpness of a representation needs method='risk': there is no forecast for the "
        r"other methods\.",
    ),
    (
        s.sharpness,
        (Y, P),
        {"transform": "simplex", "notion": "top_label"},
        r"sharpness of a representation needs notion='canonical'\.",
    ),
    (
        s.proper_calibration_error,
        (Y, P),
        {"notion": s.notions.TopK(3)},
        r"TopK\(k=3\) needs at least 3 classes, got 2\.",
    ),
    # binned errors
    (
        s.calibration_error,
        (Y, P),
        {"norm": "l3"},
        r"norm must be 'l1', 'l2', 'max' or a number p of at least 1, got 'l3'\.",
    ),
    (
        s.calibration_error,
        (Y, P),
        {"strategy": "equal"},
        r"strategy must be 'quantile' or 'uniform', got 'equal'\.",
    ),
    (
        s.calibration_error,
        (Y, P),
        {"n_bins": "many"},
        r"n_bins must be a whole number of at least 1, 'auto', 'cube_root' or edges, got 'many'\.",
    ),
    (
        s.calibration_error,
        (Y, P),
        {"n_bins": [0, 2]},
        r"Edges given as n_bins must be numbers that increase strictly from 0 to 1\.",
    ),
    (
        s.calibration_error,
        (Y, P),
        {"debiased": True},
        r"debiased=True needs norm='l2': for 'l1' no unbiased correction is known\. Use norm='l2', "
        r"or proper_calibration_error\.",
    ),
    (
        s.calibration_error,
        ONE,
        {"debiased": True, "norm": "l2"},
        r"debiased=True needs bins of at least two samples: use fewer bins\.",
    ),
    (
        s.calibration_error,
        (Y, P),
        {"squared": True},
        r"squared=True omits the root of norm='l2', got norm='l1'\.",
    ),
    (
        s.calibration_error,
        (Y, P),
        {"reduce": "sum"},
        r"reduce='sum' is for notion='classwise', got notion='auto': leave it out\.",
    ),
    (
        s.calibration_error,
        (Y3, P3),
        {"notion": "canonical"},
        r"One score at a time needs problems of two columns, and Canonical\(\) gives 3: use "
        r"notion='top_label' or 'classwise', or simplex_calibration_error for all columns at "
        r"once\.",
    ),
    (
        s.simplex_calibration_error,
        (Y3, P3),
        {"bins": "grid"},
        r"bins must be one of 'median', 'uniform' or a PartitionSmoother, got 'grid'\.",
    ),
    # kernel errors and tests
    (
        s.kernel_calibration_error,
        (Y, P),
        {"kernel": "rbf"},
        r"kernel must be one of 'laplacian', 'gaussian' or a Kernel, got 'rbf'\.",
    ),
    (
        s.kernel_calibration_error,
        (Y, P),
        {"statistic": "u"},
        r"statistic must be one of 'auto', 'biased', 'unbiased', 'linear', 'block', got 'u'\.",
    ),
    (
        s.kernel_calibration_error,
        (Y, P),
        {"block_size": 4},
        r"block_size is for statistic='block', not for 'auto'\.",
    ),
    (
        s.kernel_calibration_error,
        (Y, P),
        {"statistic": "block"},
        r"statistic='block' needs a block_size, a whole number from 2 to the number of samples, "
        r"40; "
        r"got None\.",
    ),
    (
        s.kernel_calibration_error,
        ONE,
        {},
        r"statistic='unbiased' needs at least two samples of positive weight: use 'biased'\.",
    ),
    (
        s.kernel_calibration_error,
        (Y, P),
        {"sample_weight": LAST},
        r"sample_weight gives nearly all of the weight to one sample of every pair, so there are "
        r"no effective pairs: use statistic='biased', or more even weights\.",
    ),
    (
        s.kernel_calibration_test,
        (Y[:3], P[:3]),
        {},
        r"A test needs at least 4 samples of positive weight, got 3: use more or, for class "
        r"probabilities, distribution_free_bound, which is valid for any number\.",
    ),
    (
        s.kernel_calibration_test,
        (Y, P),
        {"method": "exact"},
        r"method must be 'auto' or one of 'spectral', 'multipliers', 'bootstrap', 'bound', "
        r"'embedding' for statistic='auto', got 'exact'\.",
    ),
    (
        s.kernel_calibration_test,
        (Y[:6], P[:6]),
        {"statistic": "block", "block_size": 4},
        r"A test needs at least two blocks, but 6 samples give one of 4\.",
    ),
    (
        s.kernel_calibration_test,
        (Y, P),
        {"statistic": "linear", "sample_weight": LAST + 1e8 * (np.arange(40) == 1)},
        r"A test needs at least two effective blocks, but sample_weight gives nearly all of the "
        r"weight to one: use more even weights, or statistic='unbiased'\.",
    ),
    (
        s.distribution_free_bound,
        (Y, P),
        {"sample_weight": 1 + np.arange(40)},
        r"The distribution-free bounds require equal weights: leave out "
        r"sample_weight, or "
        r"use the method 'spectral' of kernel_calibration_test\.",
    ),
    (
        s.distribution_free_bound,
        (Y, P),
        {"statistic": "block"},
        r"statistic must be one of 'auto', 'biased', 'unbiased', 'linear', for which bounds are "
        r"known, got 'block'\.",
    ),
    (
        s.compare_calibration,
        (Y[:6], P[:6], P[:6]),
        {},
        r"A comparison needs at least 5 blocks, but 6 samples give 3 of 2: use smaller blocks "
        r"or more "
        r"samples\.",
    ),
    (
        s.compare_calibration,
        (Y, P, P),
        {"confidence_level": "high"},
        r"confidence_level must lie strictly between 0 and 1, got 'high'\.",
    ),
    (
        s.consistency_test,
        (Y, P),
        {"metric": "ece"},
        r"metric must be a function of \(y_true, y_proba, labels=\.\.\.\), got 'ece'\.",
    ),
    (
        s.consistency_test,
        (Y, P),
        {"n_resamples": 0},
        r"n_resamples must be a whole number of at least 1, got 0\.",
    ),
    # binary tests and the slope
    (
        s.spiegelhalter_test,
        (Y3, P3),
        {},
        r"spiegelhalter_test is for two classes, but y_proba has 3 columns: use "
        r"kernel_calibration_test, or test each class c against the rest, "
        r"spiegelhalter_test\(y_true "
        r"== c, y_proba\[:, c\]\), and multiply the p-values by 3\.",
    ),
    (
        s.spiegelhalter_test,
        (Y, P),
        {"n_resamples": -1},
        r"n_resamples must be a whole number of at least 0, got -1\.",
    ),
    (
        s.hosmer_lemeshow_test,
        (Y, P),
        {"ddof": -1},
        r"ddof must be a whole number of at least 0, got -1\.",
    ),
    (
        s.hosmer_lemeshow_test,
        (Y, P),
        {"n_bins": True},
        r"n_bins must be a whole number of at least 1, 'auto', 'cube_root' or edges, got True\.",
    ),
    (
        s.hosmer_lemeshow_test,
        (Y, P),
        {"ddof": 2, "n_resamples": 99},
        r"Labels drawn from the forecasts are not valid for forecasts that were fitted to the "
        r"labels: "
        r"use ddof=0 with held-out samples, or n_resamples=None\.",
    ),
    (
        s.cumulative_test,
        (Y, P),
        {"statistic": "x"},
        r"statistic must be one of 'ks', 'kuiper', got 'x'\.",
    ),
    (
        s.calibration_intercept_slope,
        (Y, CERTAIN),
        {},
        r"The calibration intercept and slope have no finite estimate: all labels of forecasts "
        r"other "
        r"than 0 and 1 are of one class\. More samples are needed\.",
    ),
    (
        s.calibration_intercept_slope,
        (Y, IMPOSSIBLE),
        {},
        r"y_proba is exactly 0 for the class that occurred in 1 samples, so the likelihood is 0 "
        r"for every intercept and positive slope: use integrated_calibration_index, which allows "
        r"such forecasts, or a classifier that never predicts exactly 0 or 1 \(a forest with "
        r"larger leaves, a softmax in double precision\)\.",
    ),
    (
        s.calibration_intercept_slope,
        (Y3, P3),
        {},
        r"The calibration slope is for two classes, but y_proba has 3 columns: pass one class "
        r"against "
        r"the rest, \(y_true == c, y_proba\[:, c\]\), or whether the prediction was right and its "
        r"confidence\.",
    ),
    (
        s.integrated_calibration_index,
        (Y, P),
        {"quantile": 2},
        r"quantile must be None or a number in \[0, 1\], got 2\.",
    ),
    (
        s.kde_calibration_error,
        (Y, P),
        {"norm": "max"},
        r"norm must be 'l1', 'l2' or a finite number of at least 1, got 'max': the largest gap is "
        r"where the density is lowest and nothing is known\. Use calibration_error for the largest "
        r"gap of bins\.",
    ),
    (
        s.kde_calibration_error,
        (Y, P),
        {"norm": 0.5},
        r"norm must be 'l1', 'l2', 'max' or a number p of at least 1, got 0\.5\.",
    ),
    (
        s.kde_calibration_error,
        (Y, P),
        {"bandwidth": 0.5},
        r"bandwidth must be 'scott' or a number in \(0, 1/3\], got 0\.5\.",
    ),
    (
        s.calibration_error_interval,
        (Y, P),
        {"metric": s.kde_calibration_error, "norm": "l2"},
        r"kde_calibration_error has no interval: noise and smoothing bias it, by an amount that is "
        r"not known\. Use metric='l1' for the error of binned forecasts, or metric='brier'\.",
    ),
    # the gain of a map
    (
        s.calibration_improvement,
        (Y[:3], P[:3], P[:3]),
        {"injective": True},
        r"calibration_improvement needs at least 4 samples of positive weight, got 3: fewer "
        r"give no usable standard error\.",
    ),
    (
        s.calibration_improvement,
        (Y, P, P3),
        {},
        r"y_true has 2 classes but after has 3 columns: pass labels= with the class of each "
        r"column "
        r"of after \(for a scikit-learn classifier: its classes_\)\.",
    ),
    (
        s.calibration_improvement,
        (Y, 1 - CERTAIN, 1 - CERTAIN),
        {"loss": "log"},
        r"The losses are infinite for 40 samples before and 40 after, because labels of "
        r"probability 0 "
        r"occurred, and inf - inf is undefined: use loss='brier', or probabilities that are all "
        r"positive\.",
    ),
    # regression
    (
        dawid_sebastiani_score,
        ([0.0, 1.0], [0.0, 0.0], [1.0, 0.0]),
        {},
        r"y_var must be positive, but row 1 holds 0: the score of a forecast without variance is "
        r"infinite\. Give the regressor a noise term, or leave these rows out\.",
    ),
    (
        dawid_sebastiani_score,
        ([0.0, 1.0], [0.0], [1.0, 1.0]),
        {},
        r"y_true, y_mean and y_var must have the same number of samples, got 2, 1 and 2\.",
    ),
    (
        dawid_sebastiani_score,
        (["a"], [0.0], [1.0]),
        {},
        r"y_true must hold real numbers, got an array of type <U1\.",
    ),
    (
        dawid_sebastiani_improvement,
        ([0.0, 1.0], [0.0, 0.0], [[0.0, 1.0], [0.0, 1.0]]),
        {},
        r"before must have the shape \(n_samples, 2\), mean and variance, got \(2,\)\.",
    ),
    (
        dawid_sebastiani_improvement,
        (np.arange(3.0), np.ones((3, 2)), np.ones((3, 2))),
        {},
        r"dawid_sebastiani_improvement needs at least 4 samples of positive weight, got 3: fewer "
        r"give no usable standard error\.",
    ),
    (
        variance_reliability,
        ([0.0, 1.0], [0.0, 0.0], [1.0, 1.0]),
        {"confidence_level": 95},
        r"confidence_level must lie strictly between 0 and 1, got 95\.",
    ),
    (
        kernel_calibration_error_gaussian,
        ([0.0, 1.0], [0.0, 0.0], [1.0, 1.0]),
        {"forecast_bandwidth": -1},
        r"forecast_bandwidth must be 'median' or a positive number, got -1\.",
    ),
    (
        kernel_calibration_test_gaussian,
        ([0.0, 1.0], [0.0, 0.0], [1.0, 1.0]),
        {},
        r"A test needs at least 4 samples of positive weight, got 2: use more or, for class "
        r"probabilities, distribution_free_bound, which is valid for any number\.",
    ),
    # numbers
    (s.optimal_n_bins, (0,), {}, r"n_samples must be a whole number of at least 1, got 0\."),
    (
        s.optimal_n_bins,
        (10,),
        {"lipschitz": -1},
        r"lipschitz must be the Lipschitz constant of E\[Y\|f\], finite and not negative; got -1\.",
    ),
    (
        s.ece_bias_bound,
        (10, 6),
        {},
        r"The bound needs two samples per bin, but n_samples=10 is less than 2 \* n_bins=12: "
        r"use at "
        r"most 5 bins, or more samples\.",
    ),
    (
        s.ece_bias_bound,
        (100, 6),
        {"strategy": "equal"},
        r"strategy must be one of 'uniform', 'quantile', got 'equal'\.",
    ),
    (
        s.ece_generalization_bound,
        (100, 10),
        {"ecmi": 100},
        r"ecmi=100 nats exceeds n ln 2 = 69\.3147, the entropy of the choice of n training "
        r"samples, which is the maximum\.",
    ),
    (
        s.ece_generalization_bound,
        (100, 10),
        {"bound": "metric_entropy", "strategy": "quantile"},
        r"bound='metric_entropy' holds for uniform bins: use bound='tce'\.",
    ),
    (
        s.ece_generalization_bound,
        (100, 10),
        {"bound": "metric_entropy", "radius": 0.2},
        r"radius must lie in \(0, 1/n_bins\] = \(0, 0\.1\] for bound='metric_entropy', got 0\.2\.",
    ),
    (
        s.ece_generalization_bound,
        (100, 10),
        {"ecmi": 1, "residual_cmi": 2},
        r"ecmi=1 and residual_cmi=2 are two choices of the same information: give one of them\.",
    ),
    # names
    (s.get_scorer, ("accuracy",), {}, rf"name must be one of {SCORERS}, got 'accuracy'\."),
    (
        s.get_scorers,
        ("accuracy",),
        {},
        r"names must be a list of names of scorers, got 'accuracy'\.",
    ),
    (
        s.get_scorers,
        (["brier"],),
        {},
        rf"names must be different names of scikit-learn's scorers or of {SCORERS}; unknown: "
        r"'brier'\.",
    ),
    (
        median_distance,
        (np.eye(3),),
        {"rule": "mean"},
        r"rule must be one of 'median', 'median_pairs', got 'mean'\.",
    ),
    (
        differences_at_equal_scores,
        (Y, P, P[:39]),
        {},
        r"X and y_true must have the same number of samples: X has 39, y_true has 40\.",
    ),
    (
        median_distance,
        (np.eye(3),),
        {"metric": "l1"},
        r"metric must be one of 'total_variation', 'euclidean', got 'l1'\.",
    ),
    (
        median_distance,
        (["a"],),
        {},
        r"forecast must hold numbers of shape \(n, K\), got shape \(1,\) of type <U1\.",
    ),
    (
        median_distance,
        ([[0.5, np.nan]],),
        {},
        r"forecast contains NaN or infinity: remove these rows first\.",
    ),
    (
        s.combine_tests,
        ([],),
        {},
        r"tests is empty: pass at least one CalibrationTest\.",
    ),
]


@pytest.mark.parametrize(
    ("function", "arguments", "options", "words"),
    FUNCTIONS,
    ids=[f"{public_name(function)}-{k}" for k, (function, *_) in enumerate(FUNCTIONS)],
)
def test_message(function, arguments, options, words):
    assert_says(words, function, *arguments, **options)


def test_every_public_function_has_a_message_in_the_tables():
    named = {public_name(function) for function, *_ in FUNCTIONS} | {
        public_name(recipe.function) for recipe in PLAIN
    }
    known = {public_name(r.function) for r in (*FORECASTS, *MOMENTS)} | set(
        map(public_name, SCALARS)
    )
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
    for rest in ((), (P,)):  # by position these would be weights
        assert_says(
            r"GroupingLossEstimator without an estimator needs the probabilities: pass y_proba "
            r"next to the features X, by keyword: fit\(X, y, y_proba=\.\.\.\)\.",
            s.GroupingLossEstimator().fit,
            X,
            Y,
            *rest,
        )
