"""A report fits nothing twice."""

import numpy as np
import pytest
from conftest import report_of
from doc_studies import load

from skcalib import CalibrationReport, ForecastSketch
from skcalib._util.parallel import add_fit, fit_once, shared_fits
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.links.averaging import ModelAverage

structure = load("structure")
needs_study = pytest.mark.skipif(structure is None, reason="needs the folder doc")
N = 120
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
ROWS = {
    "groups": RNG.integers(0, 60, N),
    "by": RNG.choice(["a", "b", "c"], N),
    "sample_weight": RNG.uniform(0.5, 2, N),
}
DATA = make_tempered_simplex(N, 2, random_state=0)
SKETCH = ForecastSketch([0, 1]).fit(DATA.y, DATA.y_proba)


def report_with_named_groups():
    """The trees, the model and the correction by the features."""
    samples = make_grouping_problem(600, random_state=0)
    report = CalibrationReport.from_predictions(samples.y, samples.y_proba[:, 1], samples.X)
    assert report.findings.grouping.correction is not None
    return report


@needs_study
@pytest.mark.parametrize(
    "make",
    [
        lambda: report_of(N, 2),
        lambda: report_of(N, 3),
        lambda: report_of(N, 2, X=X, threshold=0.3),
        lambda: report_of(N, 3, X=X, costs=1 - np.eye(3)),
        lambda: report_of(N, 3, X=X, threshold=0.6, random_state=1),
        lambda: report_of(N, 2, by=ROWS["by"]),
        lambda: report_of(N, 3, X=X, by=ROWS["by"]),
        lambda: report_of(N, 2, X=X, groups=ROWS["groups"]),
        lambda: report_of(N, 3, X=X, groups=ROWS["groups"], by=ROWS["by"]),
        lambda: report_of(N, 2, X=X, sample_weight=ROWS["sample_weight"]),
        lambda: report_of(N, 3, X=X, **ROWS),
        report_with_named_groups,
        lambda: CalibrationReport.from_sketch(SKETCH, threshold=0.2),
    ],
)
def test_no_fit_of_a_report_repeats_another(make):
    with structure.recorded_fits() as seen:
        make()
    assert {name for name, _ in seen} > {"ModelAverage", "isotonic_regression"}
    assert not structure.repeated(seen)


@needs_study
def test_repeated_fits_are_counted():
    forecast, label, weight = np.full((9, 2), 0.5), np.resize([0, 1], 9), np.ones(9)
    with structure.recorded_fits() as seen:
        for size in (9, 9, 8):
            ModelAverage().fit(forecast[:size], label[:size], weight[:size])
    assert structure.repeated(seen) == {"ModelAverage": 1}
    with structure.recorded_fits() as seen:  # two reports do not share their fits
        for threshold in (0.2, 0.3):
            report_of(N, 2, threshold=threshold)
    repeated = structure.repeated(seen)
    assert repeated["ModelAverage"] >= 5 and repeated["isotonic_regression"] >= 5


def test_shared_fits_are_those_of_equal_inputs():
    calls = []

    def fit(values, power):
        calls.append(power)
        return float(np.sum(values**power))

    values = np.arange(4.0)
    with shared_fits():
        with shared_fits():
            assert fit_once(fit, values, 2) == 14
        assert fit_once(fit, values[::-1][::-1], 2) == 14 and calls == [2]
        for similar in (values.astype(np.float32), values[:, None], np.nextafter(values, 9)):
            fit_once(fit, similar, 2)
        assert fit_once(fit, values, 3) == 36 and len(calls) == 5
        add_fit(0.0, fit, values, 3)
        assert fit_once(fit, values, 3) == 0
    assert fit_once(fit, values, 3) == 36 and len(calls) == 6  # nothing is kept
