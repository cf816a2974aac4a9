"""Laws of errors, each for every error that has it: problems of a notion, weights, swapped classes.

The sources of data (frames, chunks, sketches) are in ``tests/laws/test_quantities.py``, the order
of rows and columns in ``tests/public/test_determinism.py``.
"""

from functools import partial

import numpy as np
import pytest

import skcalib as s
from skcalib.kernels import LaplacianKernel
from skcalib.notions import Classwise, Notion
from skcalib.scores import TotalVariation
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
    "kde": partial(s.kde_calibration_error, bandwidth=0.05),
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
SCOTT = {"kde, scott": s.kde_calibration_error}
WITH_NOTIONS = OF_ONE_SCORE | OF_ANY_NOTION | CORP | AVERAGED | SCOTT
#: Errors in which a sample of weight 2 is as good as the same sample twice.
OF_WEIGHTS = {
    **OF_ONE_SCORE,
    **CORP,
    "kernel": OF_ANY_NOTION["kernel"],
    "upper bound": s.calibration_upper_bound,
    "root of the Brier score": s.root_brier_score,
    "simplex, uniform": partial(s.simplex_calibration_error, bins=UniformBins(5)),
    "simplex, level sets": partial(s.simplex_calibration_error, bins=LevelSets()),
}


@pytest.fixture
def inside(multiclass):
    """Forecasts above zero, so that the log loss is finite, with ties."""
    y, proba = multiclass
    return y, 0.98 * proba + 0.02 / 3


@pytest.mark.parametrize("name", WITH_NOTIONS)
def test_notions_are_means_and_sums_of_binary_problems(name, inside):
    y, proba = inside
    error, right = WITH_NOTIONS[name], y == proba.argmax(axis=1)
    each = [error(y == k, proba[:, k]) for k in range(3)]
    assert error(y, proba, notion="classwise") == pytest.approx(np.mean(each), rel=1e-9)
    assert error(y, proba, notion=Classwise("sum")) == pytest.approx(np.sum(each), rel=1e-9)
    top = error(y, proba, notion="top_label")
    assert top == pytest.approx(error(right, proba.max(axis=1)), rel=1e-6)


@pytest.mark.parametrize("name", OF_WEIGHTS)
def test_whole_weights_are_repetitions(name, multiclass):
    y, proba = multiclass
    error, weight = OF_WEIGHTS[name], np.random.default_rng(0).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    notions = ["top_label", "classwise"] if name in WITH_NOTIONS else [None]
    for options in ({} if notion is None else {"notion": notion} for notion in notions):
        found = error(y, proba, sample_weight=weight, **options)
        assert found == pytest.approx(error(y[rows], proba[rows], **options), rel=1e-7)


@pytest.mark.parametrize("name", ["kde", "kde, scott", "smooth", *OF_ANY_NOTION, *AVERAGED])
def test_the_two_classes_may_be_swapped(name, binary):
    y, proba = binary[0], 0.98 * binary[1] + 0.01
    error = partial(WITH_NOTIONS[name], notion="canonical")
    expected = error(y, proba)
    assert error(1 - y, proba[:, ::-1]) == pytest.approx(expected, rel=1e-6)
    assert error(y, proba[:, 1]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", OF_ONE_SCORE)
def test_several_scores_at_a_time_are_refused(name, multiclass):
    class Half(Notion):
        def problems(self, forecast, target):
            yield forecast[:, :2], target[:, :2] / 2

    with pytest.raises(ValueError, match="One score at a time needs problems of two columns"):
        OF_ONE_SCORE[name](*multiclass, notion="canonical")
    with pytest.raises(ValueError, match="numbers other than 0 and 1"):
        OF_ONE_SCORE[name](*multiclass, notion=Half())
