"""Laws of errors, each for every error that has it: problems of a notion, weights, swapped classes.

And what errors, intervals, tests and groups refuse, beside ``tests/public/test_messages.py``. The
sources of data (frames, chunks, sketches) are in ``tests/laws/test_quantities.py``, the order of
rows and columns in ``tests/public/test_determinism.py``.
"""

from functools import partial

import numpy as np
import pandas as pd
import pytest

import skcalib as s
from skcalib.data.notions import Classwise, Notion, TopK
from skcalib.kernels import LaplacianKernel
from skcalib.scores import Lp, ProperScore, TotalVariation
from skcalib.smoothers import DirichletKernel, LevelSets, UniformBins


def corp(name, **options):
    def error(y_true, y_proba, **arguments):
        return getattr(s.corp_decomposition(y_true, y_proba, **options, **arguments), name)

    return error


BINS = {"n_bins": (0, 0.25, 0.4, 0.8, 1)}
BIASED = {"statistic": "biased", "kernel": LaplacianKernel(0.3)}
#: Errors of one score at a time.
OF_ONE_SCORE = {
    "l1": partial(s.calibration_error, **BINS),
    "squared l2": partial(s.calibration_error, norm="l2", squared=True, **BINS),
    "ks": s.ks_calibration_error,
    "kde": partial(s.errors.kde_calibration_error, bandwidth=0.05),
    "smooth": s.smooth_calibration_error,
}
#: Errors of all notions.
OF_ANY_NOTION = {
    "kernel": partial(s.kernel_calibration_error, **BIASED),
    "upper bound": s.calibration_upper_bound,
    "upper bound, log": partial(s.calibration_upper_bound, loss="log"),
    **{
        f"{loss}, {method}": partial(
            s.proper_calibration_error, loss=loss, method=method, smoother=DirichletKernel(0.1)
        )
        for loss in ("brier", "log")
        for method in ("risk", "direct")
    },
    "total variation": partial(
        s.proper_calibration_error,
        loss=TotalVariation(),
        method="direct",
        smoother=DirichletKernel(0.1),
    ),
    "ici": partial(s.integrated_calibration_index, smoother=DirichletKernel(0.1)),
}
CORP = {
    f"{name}, {loss}": corp(name, loss=loss)
    for name in ("miscalibration", "discrimination", "uncertainty")
    for loss in ("brier", "log")
}
AVERAGED = {
    f"averaged, {loss}": partial(s.proper_calibration_error, loss=loss) for loss in ("brier", "log")
}
WITH_NOTIONS = OF_ONE_SCORE | OF_ANY_NOTION | CORP | AVERAGED
WITH_NOTIONS["kde, scott"] = s.errors.kde_calibration_error
#: Errors in which a sample of weight 2 is as good as the same sample twice.
OF_WEIGHTS = {
    **OF_ONE_SCORE,
    **CORP,
    "kernel": OF_ANY_NOTION["kernel"],
    "upper bound": s.calibration_upper_bound,
    "root of the Brier score": s.root_brier_score,
    "simplex, uniform": partial(s.errors.simplex_calibration_error, bins=UniformBins(5)),
    "simplex, level sets": partial(s.errors.simplex_calibration_error, bins=LevelSets()),
}


@pytest.mark.parametrize("name", WITH_NOTIONS)
def test_notions_are_means_and_sums_of_binary_problems(name, multiclass):
    y, proba = multiclass[0], 0.98 * multiclass[1] + 0.02 / 3  # so that the log loss is finite
    error, right = WITH_NOTIONS[name], y == proba.argmax(axis=1)
    errors = [error(y == k, proba[:, k]) for k in range(3)]
    assert error(y, proba, notion="classwise") == pytest.approx(np.mean(errors), rel=1e-9)
    assert error(y, proba, notion=Classwise("sum")) == pytest.approx(np.sum(errors), rel=1e-9)
    top = error(y, proba, notion="top_label")
    assert top == pytest.approx(error(right, proba.max(axis=1)), rel=1e-6)


@pytest.mark.parametrize("name", OF_WEIGHTS)
def test_whole_weights_are_repetitions(name, multiclass):
    y, proba = multiclass
    error, weight = OF_WEIGHTS[name], np.random.default_rng(0).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    notions = ["top_label", "classwise"] if name in WITH_NOTIONS else [None]
    for options in ({} if notion is None else {"notion": notion} for notion in notions):
        weighted = error(y, proba, sample_weight=weight, **options)
        assert weighted == pytest.approx(error(y[rows], proba[rows], **options), rel=1e-7)


@pytest.mark.parametrize("name", ["kde", "kde, scott", "smooth", *OF_ANY_NOTION, *AVERAGED])
def test_the_two_classes_may_be_swapped(name, binary):
    y, proba = binary[0], 0.98 * binary[1] + 0.01
    error = partial(WITH_NOTIONS[name], notion="canonical")
    expected = error(y, proba)
    assert error(1 - y, proba[:, ::-1]) == pytest.approx(expected, rel=1e-6)
    assert error(y, proba[:, 1]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", OF_ONE_SCORE)
def test_several_scores_at_a_time_are_refused(name, multiclass):
    y, proba = multiclass

    class Half(Notion):
        def problems(self, forecast, target):
            yield forecast[:, :2], target[:, :2] / 2

    with pytest.raises(ValueError, match="One score at a time needs problems of two columns"):
        OF_ONE_SCORE[name](y, proba, notion="canonical")
    with pytest.raises(ValueError, match="numbers other than 0 and 1"):
        OF_ONE_SCORE[name](y, proba, notion=Half())


def noise_of_densities(n_samples):
    """The error of two density estimates from noise alone, to which smoothing adds 10 to 15 %."""
    h = np.sqrt(1 / 12) * (2 * n_samples) ** -0.2
    return np.sqrt(0.173 / (n_samples * h)) * np.pi / 8


ISOTONIC = "miscalibration, brier"
#: The law of the mean error of n samples, the number of sets of each n, and the range of the ratio.
BIAS = {
    # of the largest distance of a Brownian motion from zero, above that of a walk
    "ks": (lambda n: np.sqrt(np.pi / 12 / n), {1000: 2000}, (0.95, 1.02)),
    "kde, scott": (noise_of_densities, {500: 300, 5000: 300}, (1, 1.2)),
    "smooth": (lambda n: 0.303 * n ** (-1 / 3), {300: 40, 3000: 40}, (0.88, 1.12)),
    ISOTONIC: (lambda n: n ** (-2 / 3), {100: 400, 1000: 100, 10_000: 20}, (0.45, 0.62)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BIAS)
def test_bias_of_calibrated_forecasts(name):
    """Of uniform ones, as the docstrings state it."""
    (law, sets, (low, high)), rng = BIAS[name], np.random.default_rng(0)
    for n_samples, n_sets in sets.items():
        forecasts = rng.random((n_sets, n_samples))
        labels = rng.random(forecasts.shape) < forecasts
        bias = np.array([*map(WITH_NOTIONS[name], labels, forecasts)]) / law(n_samples)
        room = 3 * bias.std() / np.sqrt(n_sets) if "kde" in name else 0
        assert bias.min() >= 0 and low - room < bias.mean() < high + room


PLACES = np.array([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3]])
TOP = {"locations": [0.3, 0.4], "notion": "top_label"}
AT_PLACES = [
    ("sum to 1", {"locations": 0.9 * PLACES}),
    ("locations have 2 columns", {"locations": [0.3, 0.4]}),
    ("2 locations, but 1", {"locations": PLACES, "location_labels": [0]}),
    ("none of the classes", {"locations": PLACES, "location_labels": [0, 5]}),
    ("has 3 problems", {"locations": PLACES, "notion": "classwise"}),
    ("need notion='canonical'", {**TOP, "location_labels": [0, 1]}),
]
WITH_INTERVALS = [
    ("may only have keyword arguments", {"metric": partial(s.calibration_error, None)}),
    ("needs norm='l2'", {"metric": "l1", "debiased": True}),
    ("'jackknife'", {"metric": lambda y_true, y_proba: y_proba.max(), "method": "delta"}),
    (r"groups must have shape \(150,\), one label of a cluster per sample", {"groups": [0, 1, 2]}),
    (r"groups must have shape \(150,\).*got shape \(150, 2\)", {"groups": [[0, 1]] * 150}),
    ("groups is missing for 2 samples", {"groups": [None] * 2 + ["a"] * 148}),
    ("groups is missing for 1 samples", {"groups": [np.nan] + [1.0] * 149}),
    (
        "groups is missing for 3 samples",
        {"groups": pd.Series([pd.NA] * 3 + [1] * 147, dtype="Int64")},
    ),
    (
        "groups is missing for 2 samples",
        {"groups": pd.Series([pd.NA] * 2 + ["a"] * 148, dtype=object)},
    ),
    ("groups has one cluster for all 150 samples", {"groups": ["a"] * 150}),
    (
        "kde_calibration_error has no interval: noise and",
        {"metric": s.errors.kde_calibration_error, "method": "delta"},
    ),
]
IN_TESTS = [
    ("one of 'asymptotic', 'bound' for", {"method": "spectral", "statistic": "linear"}),
    ("locations must be", {"method": "embedding", "locations": 0}),
    ("locations have 2 columns", {"method": "embedding", "locations": [0.3, 0.4]}),
    ("has 3 problems", {"method": "embedding", "notion": "classwise"}),
    ("require equal weights", {"method": "bound", "sample_weight": np.arange(1, 151)}),
]
BY_GROUP = [
    ("by must have the group of each of the 150 samples, got shape", {"by": [0, 1]}),
    ("by is an empty dict: pass a mask", {"by": {}}),
    (
        r"by has masks, but by\['a'\] must be a mask of 150 booleans too, got int64",
        {"by": {"a": [0, 1] * 75, "b": np.ones(150, bool)}},
    ),
    ("The group 'a' has no samples of positive weight", {"by": {"a": np.zeros(150, bool)}}),
    ("by is missing: pass the group of each sample", {"by": None}),
]
BANDWIDTH = "bandwidth must be None or a number from 0.0001 to 1"
REFUSED = {
    s.corp_decomposition: [("a binary event, but Canonical.* 3 columns", {"notion": "canonical"})],
    s.errors.corp_bands: [
        ("TopK.k=2. gives 3 columns: use notion='top_label'", {"notion": TopK(2)}),
        ("at least 39 for a band of level 0.95", {"n_resamples": 38}),
    ],
    s.smooth_calibration_error: [(BANDWIDTH, {"bandwidth": width}) for width in (1.5, 1e-5)],
    s.proper_calibration_error: [
        ("a distance without a loss, which only method='direct'", {"loss": Lp(1)})
    ],
    s.calibration_upper_bound: [
        (r"ProperScore\(\) has no lowest entropy", {"loss": ProperScore()})
    ],
    s.errors.unconditional_mean_embedding_error: AT_PLACES,
    s.calibration_error_interval: WITH_INTERVALS,
    s.kernel_calibration_test: IN_TESTS,
    s.calibration_by_group: BY_GROUP,
}


@pytest.mark.parametrize(
    ("function", "words", "options"),
    [(function, *case) for function, cases in REFUSED.items() for case in cases],
)
def test_what_is_refused(function, words, options, multiclass):
    y, proba = multiclass
    with pytest.raises(ValueError, match=words):
        function(y, proba, **options)
