"""Every error of the table is the same number from every source, and under each of its names."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import skcalib as s
from skcalib.data.problem import check_problem
from skcalib.datasets import make_tempered_simplex
from skcalib.error_intervals.quantities import DEBIASED, QUANTITIES, by

WORLDS = {"two classes": 2, "three classes": 3}
QUICK = {"n_resamples": 20}


def data_of(n_classes, n_samples=300):
    world = make_tempered_simplex(n_samples, n_classes, score_temperature=0.7, random_state=0)
    return world.y, world.y_proba


def needed(quantity, n_classes):
    """Arguments that an error needs beside labels and forecasts."""
    if quantity.name != "embedding":
        return {}
    rows = np.arange(8)
    return {"locations": data_of(n_classes)[1][rows], "location_labels": rows % n_classes}


#: Name -> (y, P) in another form, which every error reads as it reads arrays.
SOURCES = {
    "problem": lambda y, p: (check_problem(y, p), p),
    "names in frames": lambda y, p: (pd.Series(np.array(list("abc"))[y]), pd.DataFrame(p)),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("n_classes", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: quantity.name)
def test_the_same_number_from_every_source(quantity, n_classes, source):
    y, p = data_of(n_classes)
    locations, read = needed(quantity, n_classes), needed(quantity, n_classes)
    if "names" in source and locations:
        read["location_labels"] = np.array(list("abc"))[locations["location_labels"]]
    error = quantity.metric(*SOURCES[source](y, p), **read)
    expected = quantity.metric(y, p, **locations)
    assert error == pytest.approx(expected, rel=1e-10)
    if n_classes == 2:  # one column is the event
        assert quantity.metric(y, p[:, 1], **locations) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("quantity", [q for q in QUANTITIES if q.binary], ids=lambda q: q.name)
def test_a_sketch_has_the_error_of_its_samples(quantity):
    """Of one event, up to the width of the cells; an error of all classes needs the samples."""
    y, p = data_of(2, 3000)
    sketch = s.ForecastSketch([0, 1]).fit(y, p)
    interval = s.calibration_error_interval(sketch, metric=quantity.name, **QUICK)
    exact = quantity.metric(y, p, notion="auto")
    assert interval.estimate == pytest.approx(exact, rel=0.02, abs=2e-4)
    assert quantity.metric(sketch) == pytest.approx(exact, rel=0.02, abs=2e-4)


@pytest.mark.parametrize("n_classes", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: quantity.name)
def test_an_interval_by_name_is_that_of_the_function(quantity, n_classes):
    (y, p), locations = data_of(n_classes, 120), needed(quantity, n_classes)
    named, of_function = (
        s.calibration_error_interval(y, p, metric=metric, **QUICK, **locations)
        for metric in (quantity.name, quantity.metric)
    )
    assert named == of_function
    assert named.low <= named.high and np.isfinite(named.estimate)
    if quantity.function.__name__ != "integrated_calibration_index":  # that of the averaged maps
        assert named.estimate == pytest.approx(
            quantity.metric(y, p, **locations), rel=1e-9, abs=1e-12
        )


@pytest.mark.parametrize("name", by("scorer"))
def test_a_scorer_is_the_negative_error(name):
    y, p = data_of(3)
    quantity, known = by("scorer")[name], s.IdentityRecalibrator().fit(p, y)
    assert name in s.get_scorer_names()
    assert s.get_scorer(name)(known, p, y) == pytest.approx(-quantity.metric(y, p), rel=1e-12)


@pytest.mark.parametrize("name", by("curve", (*QUANTITIES, DEBIASED)))
def test_a_curve_ends_at_the_error(name):
    """A single subset that has all samples."""
    y, p = data_of(2)
    quantity = by("curve", (*QUANTITIES, DEBIASED))[name]
    options = {"sample_sizes": [150, len(y)], "n_repeats": 2, "notion": "canonical"}
    display = s.displays.EstimationDisplay.from_predictions(y, p, errors=name, **options)
    plt.close("all")
    (curve,) = display.curves
    assert quantity.label in display.line_.get_label()
    exact = quantity.metric(y, p)
    exact = np.sqrt(max(exact, 0)) if quantity.squared else exact
    assert curve.mean[-1] == pytest.approx(exact, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", [interval.name for interval in QUANTITIES if interval.binary])
def test_windows_compare_errors_of_one_event(name):
    y, p = data_of(2, 600)
    window = np.repeat(["a", "b"], 300)
    comparison = s.compare_windows(y, p, window, metric=name).calibration_error
    for interval, rows in ((comparison.first, window == "a"), (comparison.second, window == "b")):
        exact = s.calibration_error_interval(y[rows], p[rows], metric=name)
        assert (interval.estimate, interval.low, interval.high) == (
            exact.estimate,
            exact.low,
            exact.high,
        )
    names = "'brier', 'log', 'l1', 'ece', 'l2', 'debiased_l2', 'squared_l2', 'max', 'ks', 'ici'"
    with pytest.raises(ValueError, match=f"metric must be one of {names}, got 'kernel'"):
        s.compare_windows(y, p, window, metric="kernel")


def test_names_are_distinct():
    for attribute in ("name", "scorer", "curve"):
        names = [name for quantity in QUANTITIES if (name := getattr(quantity, attribute))]
        assert len(names) == len(set(names)) == len(by(attribute))
