"""Errors against the sample size: the subsamples, the folded-normal curves, the picture, doors."""

from functools import partial

import numpy as np
import pytest
from grids import rotated
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal

import skcalib as s
from skcalib.data.notions import Classwise
from skcalib.datasets import make_tempered_simplex

draw = s.displays.EstimationDisplay.from_predictions
ECE = {"strategy": "uniform", "n_bins": 15}
DEBIASED = {"norm": "l2", "squared": True, "debiased": True}
#: What the names stand for; all but the first and "ks" are squares, of which the root is drawn.
ERRORS = {
    "ece": partial(s.calibration_error, **ECE),
    "debiased": partial(s.calibration_error, **DEBIASED, **ECE),
    "ks": s.ks_calibration_error,
    "proper": s.proper_calibration_error,
    "kernel": s.kernel_calibration_error,
    "rbs": s.calibration_upper_bound,
}


#: Over-confident forecasts of three classes, and the posterior, which is calibrated.
WORLD = make_tempered_simplex(6000, 3, score_temperature=0.7, random_state=0)
Y, P, POSTERIOR = WORLD.y, WORLD.y_proba, WORLD.posterior


def test_subsamples_are_rows_without_replacement_and_shared_by_all_errors():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), 50)
    seen = []

    def spy(y_true, y_proba, *, labels):
        assert labels.tolist() == [0, 1, 2]
        rows = [np.flatnonzero((proba == row).all(axis=1))[0] for row in y_proba]
        assert len(set(rows)) == len(rows) and np.array_equal(y[rows], y_true)
        seen.append(tuple(rows))
        return float(len(rows))

    y = rng.integers(3, size=50)
    display = draw(y, proba, errors={"a": spy, "b": spy}, sample_sizes=[7, 50, 20], n_repeats=4)
    assert seen[0::2] == seen[1::2] and len(seen) == 2 * (4 + 4 + 1)
    assert len(set(seen)) == 9 and sorted(map(len, seen[::2])) == [7] * 4 + [20] * 4 + [50]
    for curve in display.curves:
        assert_array_equal(curve.mean, [7, 20, 50])
        assert curve.prediction is None and curve.floor is None


def test_squares_are_averaged_before_the_root_is_taken():
    (curve,), (squared,) = (
        draw(Y, POSTERIOR, errors=errors, sample_sizes=[150]).curves
        for errors in ("debiased", {"x": ERRORS["debiased"]})
    )
    assert curve.mean == pytest.approx(np.sign(squared.mean) * np.sqrt(np.abs(squared.mean)))
    assert squared.low < 0 and curve.low == pytest.approx(-np.sqrt(-squared.low))


def test_a_notion_is_for_the_errors_of_the_table():
    for notion in ("classwise", Classwise()):
        display = draw(Y[:300], P[:300], errors=list(ERRORS), notion=notion, n_repeats=1)
        for curve, (name, error) in zip(display.curves, ERRORS.items(), strict=True):
            value = error(Y[:300], P[:300], notion="classwise")
            if name not in ("ece", "ks"):  # the root of a square, with its sign
                value = np.sign(value) * np.sqrt(np.abs(value))
            assert curve.mean[-1] == pytest.approx(value, rel=1e-12)
    root = draw(Y[:300], P[:300], errors=s.root_brier_score, n_repeats=1).curves[0]
    assert root.mean[-1] == pytest.approx(s.root_brier_score(Y[:300], P[:300]), rel=1e-12)


def test_the_ece_of_calibrated_forecasts_falls_and_the_root_brier_score_does_not():
    """G22."""
    options = {"errors": ["ece", "rbs"], "sample_sizes": [100, 600, 6000]}
    ece, rbs = draw(Y, POSTERIOR, **options).curves
    assert np.all(np.diff(ece.mean) < 0) and ece.mean[0] > 4 * ece.mean[-1]
    assert_allclose(rbs.mean / rbs.mean[-1], 1, rtol=0.02)


OPTIONS = [
    ECE,
    {},
    {"n_bins": 10},
    {"notion": "classwise", **ECE},
    {"notion": Classwise("sum"), "n_bins": 8},
    {"notion": "classwise", "reduce": "sum", "n_bins": (0, 0.1, 0.5, 1)},
]


@pytest.mark.parametrize(("options", "weighted"), rotated(OPTIONS, [False, True], 1), ids=str)
def test_the_prediction_explains_the_mean(options, weighted):
    """Within 4 %, G22's accuracy, and three standard errors of the mean of subsamples."""
    error = partial(s.calibration_error, **options)
    weight = np.random.default_rng(1).uniform(0.2, 2, 6000) if weighted else None
    (curve,) = draw(
        Y, POSTERIOR, errors=error, sample_sizes=[464, 1500, 6000],
        n_repeats=120, sample_weight=weight, confidence_level=0.68,
    ).curves  # fmt: skip
    noise = 3 * (curve.high - curve.low) / 2 / np.sqrt(120)
    assert np.all(np.abs(curve.mean - curve.prediction) < 0.04 * curve.prediction + noise)
    assert np.all(noise[:2] < 0.1 * curve.mean[:2]) and curve.name == "calibration_error"
    if options.get("n_bins") and "reduce" not in options:  # the bins are those of all samples
        assert curve.prediction[-1] == pytest.approx(curve.mean[-1], rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_floor_is_the_error_of_calibrated_labels(weighted):
    """Labels are drawn from over-confident forecasts; the floor depends on no label."""
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.2, 2, 6000) if weighted else np.ones(6000)
    error = partial(s.calibration_error, notion="canonical", **ECE)
    options = {"n_repeats": 1, "sample_weight": weight if weighted else None}
    score = P[:, 1]
    (curve,) = draw(Y == 1, score, errors=error, sample_sizes=[600], **options).curves
    draws = []
    for _ in range(300):
        rows = rng.choice(6000, 600)
        y = (rng.random(600) < score[rows]).astype(int)
        draws.append(error(y, score[rows], labels=[0, 1], sample_weight=weight[rows]))
    assert curve.floor[0] == pytest.approx(np.mean(draws), rel=0.04)
    assert curve.mean[0] > 1.2 * curve.floor[0]


def test_only_l1_binned_errors_have_folded_normal_curves():
    errors = {norm: partial(s.calibration_error, norm=norm) for norm in ("l1", "l2", "max")}
    errors |= {"plain": s.calibration_error, "ks": "ks"}
    for curve in draw(Y[:500], P[:500], errors=errors, n_repeats=2).curves:
        assert (curve.prediction is not None) == (curve.name in ("l1", "plain"))
        if curve.prediction is not None:  # more bins for more samples, and still the noise falls
            assert np.all(np.diff(curve.floor) < 0) and np.all(curve.floor > 0)


def test_the_result_depends_on_the_seed_and_not_on_n_jobs():
    with parallel_config("threading"):  # processes would take longer to start than to draw
        means = [
            draw(Y[:300], P[:300], n_repeats=3, random_state=seed, n_jobs=jobs).curves[0].mean
            for seed, jobs in ((0, None), (0, 2), (1, None))
        ]
    assert_array_equal(means[0], means[1])
    assert not np.array_equal(means[0], means[2]) and means[0][-1] == means[2][-1]


def test_artists():
    display = draw(Y, P, errors=["ece", "rbs"], n_repeats=2, truth=0.1, name="A")
    (ece, rbs), first = display.line_, display.curves[0]
    for line, curve in zip(display.line_, display.curves, strict=True):
        assert_array_equal(line.get_xydata(), np.column_stack([curve.size, curve.mean]))
    assert_array_equal(display.prediction_.get_ydata(), first.prediction)
    assert_array_equal(display.floor_.get_ydata(), first.floor)
    assert display.prediction_.get_color() == ece.get_color() != rbs.get_color()
    assert len(display.band_) == len(display.truth_) == 2 and display.ax_.get_xscale() == "log"
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts[:2] == ["A: ECE", "A: Root Brier score"] and len(texts) == 6
    assert {"95 % of the subsamples", "truth"} < set(texts)
    second = draw(Y, POSTERIOR, errors="ece", n_repeats=2, ax=display.ax_, name="B")
    assert second.ax_ is display.ax_
    assert second.line_.get_color() not in (ece.get_color(), rbs.get_color())
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts[:3] == ["A: ECE", "A: Root Brier score", "B: ECE"]


def test_few_samples_missing_classes_and_errors_of_every_form():
    (curve,) = draw([1], [0.7], errors="ece", labels=[0, 1]).curves
    assert (curve.size, curve.mean) == ([1], pytest.approx([0.3]))
    assert curve.prediction == pytest.approx([0.3])  # nothing is left to chance
    y, proba = [0, 0, 0, 2], [[0.8, 0.1, 0.1], [0.5, 0.3, 0.2], [1, 0, 0], [0, 0, 1]]
    for curve in draw(y, proba, errors=["ece", "rbs", "ks"], labels=[0, 1, 2]).curves:
        assert curve.size.tolist() == [2, 3, 4] and np.isfinite(curve.mean).all()
    log = partial(s.proper_calibration_error, loss="log", notion="top_label")
    errors = {"ECE": "ece", **{f.__name__: f for f in (s.root_brier_score, s.ks_calibration_error)}}
    errors["proper_calibration_error"] = log
    for weight in (None, np.ones(200)):
        options = {"errors": list(errors.values()), "n_repeats": 1, "sample_weight": weight}
        display = draw(Y[:200], P[:200], **options)
        assert [curve.name for curve in display.curves] == list(errors)


def test_refusals():
    for options, message in (
        ({"errors": "brier"}, "errors must be among 'proper', 'ece'.*got 'brier'"),
        ({"errors": ["ece", 3]}, "errors must be among .* got 3"),
        ({"errors": []}, "at least one error"),
        ({"errors": [s.calibration_error, s.calibration_error]}, "with distinct names"),
        ({"errors": lambda y, p, labels: np.nan}, "returned NaN"),
        ({"sample_sizes": [10, 201]}, "from 1 to the number of samples, 200"),
        ({"sample_sizes": [0]}, "sample_sizes must be a list of whole numbers"),
        ({"sample_sizes": [10.5]}, "sample_sizes must be"),
        ({"truth": {"TCE": 0.1}}, "truth must be a number, or a dict"),
        ({"errors": "debiased", "sample_sizes": [1]}, "bins of at least two samples"),
    ):
        with pytest.raises(ValueError, match=message):
            draw(Y[:200], P[:200], **{"n_repeats": 1, "errors": "ece", **options})
