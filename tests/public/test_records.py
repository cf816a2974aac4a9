"""Results are tables: all have `to_frame` and `_repr_html_`, which show the same numbers."""

import importlib
import pkgutil
import re
import sys
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.naive_bayes import GaussianNB

import skcalib as s
from skcalib.datasets import make_tempered_simplex
from skcalib.grouping import GroupCalibration, GroupComparison, GroupDifference, Region
from skcalib.io import Predictions
from skcalib.kernels import Kernel
from skcalib.links import LinkFit
from skcalib.monitoring import Alarm, Evidence
from skcalib.recalibration import RecalibratorMixture, RecalibratorSelection
from skcalib.stats.means import MeanInterval
from skcalib.theory import InformationEstimate

SCRIPT = "<script>alert('1 < 2')</script>"
#: Columns that are missing where something does not exist, as the docstrings say.
MAY_BE_MISSING = {
    "LossTerms": {"grouping", "grouping_low", "grouping_high"},
    "CalibrationSummary": {"low", "high", "perfect"},
    "CalibrationTest": {"e_value"},
    "CurveEqualityTest": {"e_value"},
    "ExpectedPerformance": {"adjusted", "adjusted_low", "adjusted_high"},
}
#: Records of the rows, whose fields are the columns.
ROWS_OF = {
    "GroupCalibrations": GroupCalibration,
    "GroupComparison": GroupDifference,
    "GroupingDiagram": Region,
}


@cache
def records():
    """An instance of each public kind of result by its name, with the number of its rows."""
    d = make_tempered_simplex(200, 2, random_state=0)
    y, p = np.where(d.y == 1, SCRIPT, "other"), d.y_proba[:, ::-1]  # classes are sorted
    half = np.where(np.arange(200) % 2, "first <b>half</b>", SCRIPT)
    X = np.random.default_rng(0).standard_normal((200, 2))
    interval = MeanInterval(0.12345678, 0.05, 0.2, 0.04)
    group = GroupDifference(
        rule=SCRIPT,
        n_samples=90,
        n_tested=80,
        share=0.4,
        mean_score=0.5,
        expected=0.55,
        observed=0.4,
        estimate=-0.1,
        low=-0.2,
        high=-0.01,
        standard_error=0.05,
        pvalue=0.03,
        harm=1e-4,
    )
    selection = RecalibratorSelection(
        names=(SCRIPT, "b"),
        losses=(0.3, 0.2),
        differences=(0.1, 0.0),
        standard_errors=(0.05, 0.0),
        best="b",
        chosen="b",
        gain=interval,
    )
    evidence = Evidence(SCRIPT, "too_high", 0.1, 0.2, -0.05, 31)
    corp = s.corp_decomposition(y, p, notion="classwise")
    groups = s.calibration_by_group(y, p, half)
    windows = s.compare_windows(y, p, half)
    monitor = s.CalibrationMonitor([0, 1], window=100).partial_fit(d.y, d.y_proba)
    XX, yy = load_breast_cancer(return_X_y=True)
    bins = s.reliability_bins(y, p, n_bins=5, rows=True)[0]
    curve = s.errors.cumulative_curve(y, p)[0]
    bands = s.errors.corp_bands(y, p, n_resamples=39)[0]
    variance = np.linspace(0.5, 2, 50)
    sharper = p**2 / (p**2).sum(axis=1, keepdims=True)
    models = {SCRIPT: p, "b": sharper}
    drawn = [
        s.ReliabilityDisplay.from_predictions(y, p, n_resamples=39).curves[0],
        s.MurphyDisplay.from_predictions(y, models).curves[0],
        s.DecisionCurveDisplay.from_predictions(y, models).curves[0],
        s.RecalibrationDisplay.from_recalibrator(s.PlattScaling().fit(p, y)).maps[0],
        s.displays.EstimationDisplay.from_predictions(y, p, errors="ece", n_repeats=3).curves[0],
        s.GroupingDisplay.from_predictions(y, p, X).diagrams[0],
        s.DecompositionDisplay.from_predictions(y, p, grouping=None).terms[0],
    ]
    omnibus = s.calibration_test(y, p)
    records_and_rows = [
        (interval, 1),
        (s.calibration_error_interval(y, p), 1),
        (s.calibration_intercept_slope(y, p), 3),
        (bands, len(bands.forecast)),
        (corp, 2),
        (corp.curves[0], len(corp.curves[0].forecast)),
        (curve, len(curve.score)),
        (bins, len(bins.index)),
        (bins.rows, 200),
        (s.score_decomposition(y, p), 1),
        (selection, 2),
        (RecalibratorMixture((SCRIPT, "b"), (0.4, 0.6), (0.3, 0.2), interval, True), 2),
        (s.grouping.calibration_curve_equality_test(y, p, half), 1),
        (groups, 2),
        (groups.groups[0], 1),
        (GroupComparison((group, group), 7, 200, SCRIPT), 2),
        (group, 1),
        (s.grouping.grouping_improvement(y, p, p, X, random_state=0), 2),
        (Region(SCRIPT, 0, 1, SCRIPT, 20, 0.1, 0.4, 0.45, 0.5, 0.3, 0.7, -0.05, 1e-4, 19.5), 1),
        (Predictions(y, p, np.unique(y), X), 200),
        (LinkFit(np.array([0.5, 1.25]), 7, True, SCRIPT), 2),
        (Alarm(400, 320, 4.75, evidence, (0.4, 0.41), (0.5, 0.3), 1, (SCRIPT,), 1, 301), 1),
        (evidence, 1),
        (monitor.windows_[0], 1),
        (s.calibration_improvement(y, p, sharper, injective=True), 1),
        (
            s.regression.variance_reliability(
                np.sin(np.arange(50)), np.zeros(50), variance, n_bins=4
            ),
            4,
        ),
        (s.compare_calibration(y, p, p[::-1], block_size=10), 1),
        (s.significance.spiegelhalter_test(y, p), 1),
        (omnibus, len(omnibus.components)),
        (omnibus.components[0], 1),
        (s.expected_performance(p[:, 0]), 4),
        (windows, 7),
        (windows.slope, 1),
        (InformationEstimate(0.1, 0.7, 20.5, SCRIPT), 1),
        (
            s.theory.evaluate_supersample(
                GaussianNB(), XX, yy, n_supersamples=2, n_draws=3, n_pairs=40
            ),
            6,
        ),
        (s.calibration_summary(y, p), 20),
        (s.decision_regret(y, p, threshold=0.3), 3),
        (s.soft_label_decomposition(np.c_[d.y, 2 - d.y], p), 5),
        *((drawn_record, len(drawn_record.to_frame())) for drawn_record in drawn),
    ]
    return {type(record).__name__: (record, n_rows) for record, n_rows in records_and_rows}


def public_results():
    """Public dataclasses that are no kernels: of `__all__`, and of the API reference."""
    members = []
    for module in pkgutil.walk_packages(s.__path__, "skcalib."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            home = importlib.import_module(module.name)
            members += [getattr(home, name) for name in getattr(home, "__all__", ())]
    reference = Path(s.__file__).parents[1] / "doc" / "api.rst"
    if reference.exists():
        for name in re.findall(r"^   (\w+)\.(\w+)$", reference.read_text(), re.MULTILINE):
            members.append(getattr(importlib.import_module(f"skcalib.{name[0]}"), name[1]))
    kinds = {kind for kind in members if isinstance(kind, type) and is_dataclass(kind)}
    return {kind for kind in kinds if not issubclass(kind, Kernel)}


def test_every_public_result_is_here():
    missing = {kind.__name__ for kind in public_results()} - set(records())
    assert not missing, f"add {missing} to records(), and `Record` to their bases"


NAMES = sorted(
    {kind.__name__ for kind in public_results()}
    | {"MeanInterval", "ReliabilityCurve", "MurphyCurve", "DecisionCurve", "RecalibrationMap"}
    | {"EstimationCurve", "GroupingDiagram", "LossTerms"}
)


@pytest.mark.parametrize("name", NAMES)
def test_frame(name):
    record, n_rows = records()[name]
    frame = record.to_frame()
    assert len(frame) == n_rows > 0
    texts = type(record).to_frame.__doc__ + type(record).__doc__
    known = set(re.findall(r"``(\w+)``", texts))
    for kind in (type(record), ROWS_OF.get(name, type(record))):
        known |= {field.name for field in fields(kind)} | set(dir(kind))
    for column in frame:
        stem = re.sub(r"_(low|high)$", "", column)
        stem = re.sub(r"^(feature|y_proba)_.*", r"\1_", stem)  # of `Predictions`
        assert {column, stem} & known, f"{name} does not explain {column}"
        value = getattr(record, column, None)
        if isinstance(value, np.ndarray) and value.shape == (n_rows,):
            np.testing.assert_array_equal(frame[column], value)
    missing = set(frame.columns[frame.isna().any()])
    assert missing <= MAY_BE_MISSING.get(name, set())
    assert not any(isinstance(value, np.generic) for value in vars(record).values())
    with pytest.raises(FrozenInstanceError):
        setattr(record, fields(record)[0].name, 0.0)


def read(text):
    """Tags and texts of well-formed HTML: each tag that is opened is closed, in order."""
    root = ElementTree.fromstring(f"<html>{text}</html>")
    return [element.tag for element in root.iter()][1:], [cell for cell in root.itertext() if cell]


def numbers_of(value):
    """Numbers of the fields that `repr` shows, but arrays; of an interval without its error."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, (int, float, np.number)):
        yield float(value)
    elif is_dataclass(value):
        for field in fields(value):
            inner = isinstance(value, MeanInterval) and field.name == "standard_error"
            if field.repr and not inner:
                yield from numbers_of(getattr(value, field.name))
    elif isinstance(value, tuple):
        for element in value:
            yield from numbers_of(element)


@pytest.mark.parametrize("name", NAMES)
def test_html(name):
    record, _ = records()[name]
    text = record._repr_html_()
    tags, cells = read(text)
    assert cells[0] == name
    assert set(tags) <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert not re.search("color|background|<script|<b>", text)
    shown = re.findall(r"-?\d[\d,]*\.?\d*(?:e-?\d+)?", " ".join(cells))
    shown = np.array([float(text.replace(",", "")) for text in shown])
    for number in numbers_of(record):
        if np.isfinite(number):
            tolerance = max(5.1e-4 * abs(number), 1e-3 if name != "MeanInterval" else 5e-4)
            assert np.min(np.abs(shown - number)) <= tolerance, f"{name} lacks {number}"


def test_texts_are_escaped():
    changed = []
    for record, _ in records().values():
        for field in fields(record):
            if isinstance(getattr(record, field.name), str) and field.name != "direction":
                changed.append(replace(record, **{field.name: SCRIPT})._repr_html_())
    assert len(changed) > 20
    for text in changed:
        read(text)
        assert "<script" not in text and "&lt;script&gt;alert" in text


def test_html_of_hand_made_numbers():
    text = MeanInterval(0.12345678, -1.0, np.inf, 1e-20)._repr_html_()
    rows = dict(re.findall(r"<tr><th[^>]*>(\w+)</th><td[^>]*>(.*?)</td></tr>", text))
    expected = {"estimate": "0.1235", "low": "-1", "high": "infinite", "standard_error": "1e-20"}
    assert rows == expected
    assert ">123,457</td>" in replace(records()["Evidence"][0], since=123457)._repr_html_()


def test_long_tables_show_both_ends():
    curve = records()["CumulativeCurve"][0]
    tags, cells = read(curve._repr_html_())
    assert tags.count("tr") == 1 + 20 + 1 and "200 rows" in cells
    for end in (0, 9, 190, 199):
        assert f"{curve.score[end]:.4g}" in cells
    assert f"{curve.score[100]:.4g}" not in cells


def test_without_pandas(monkeypatch):
    kinds = [record for record, _ in records().values()]
    sketch = s.ForecastSketch([0, 1]).partial_fit([0, 1], [0.2, 0.7])
    monkeypatch.setitem(sys.modules, "pandas", None)
    for record in [*kinds, sketch]:
        with pytest.raises(ImportError, match=r"^to_frame needs pandas, which is not installed"):
            record.to_frame()
    for record in kinds:
        assert "<table>" in record._repr_html_()


def test_rows_that_are_not_fields():
    """Bins without samples are left out; events, intervals and supersamples are named."""
    (bins,) = s.reliability_bins([0, 1, 1, 1], [0.1, 0.4, 0.6, 0.6], n_bins=[0, 0.2, 0.3, 0.5, 1])
    frame = bins.to_frame()
    assert frame["bin"].tolist() == [0, 2, 3] and frame["left"].tolist() == [0, 0.3, 0.5]
    assert frame["right"].tolist() == [0.2, 0.5, 1]
    corp = records()["CorpDecomposition"][0]
    frame = corp.to_frame()
    assert frame["event"].tolist() == [f"class {name}" for name in np.sort([SCRIPT, "other"])]
    for name in list(frame)[1:]:
        assert frame[name].mean() == pytest.approx(getattr(corp, name))
    slopes = records()["CalibrationInterceptSlope"][0]
    frame = slopes.to_frame().set_index("quantity")
    for name in frame.index:
        assert frame.loc[name].to_dict() == vars(getattr(slopes, name))
    evaluation = records()["SupersampleEvaluation"][0]
    frame = evaluation.to_frame()
    row = frame[(frame["supersample"] == 1) & (frame["draw"] == 2)].iloc[0]
    assert row["train_error"] == evaluation.train_error[1, 2] and row["gap"] == evaluation.gap[1, 2]
    frame = records()["RecalibratorSelection"][0].to_frame()
    assert frame["name"].tolist() == [SCRIPT, "b"] and frame["chosen"].tolist() == [False, True]
    assert list(GroupComparison((), 0, 10).to_frame()) == list(
        records()["GroupComparison"][0].to_frame()
    )


def test_missing_intervals_keep_their_columns():
    group = records()["GroupCalibration"][0]
    bare = replace(group, ratio=None, error=None)
    assert list(bare.to_frame()) == list(group.to_frame())
    assert bare.to_frame()[["ratio", "ratio_low", "error_high"]].isna().all(axis=None)
    assert "–" in bare._repr_html_()
    alarm = replace(records()["Alarm"][0], evidence=None, before=None)
    assert list(alarm.to_frame()) == list(records()["Alarm"][0].to_frame())
    assert alarm.to_frame()["observed_before"].isna().all()


def test_predictions_name_their_columns():
    y, p, X = np.array([0, 1]), np.array([[0.75, 0.25], [0.5, 0.5]]), np.array([[1.0], [2.0]])
    frame = Predictions(y, p, np.array(["no", "yes"]), X).to_frame()
    assert list(frame) == ["y_true", "y_proba_no", "y_proba_yes", "feature_0"]
    assert frame["y_proba_yes"].tolist() == [0.25, 0.5] and frame["feature_0"].tolist() == [1, 2]
    assert list(Predictions(y, p, None).to_frame()) == ["y_true", "y_proba_0", "y_proba_1"]
    of_one_column = Predictions(y, p[:, 1], None, frame[["feature_0"]])
    assert list(of_one_column.to_frame()) == ["y_true", "y_proba", "feature_0"]


def test_report_of_several_models_has_a_frame():
    """Its text has a table of the pairs for each quantity."""
    d = make_tempered_simplex(60, 2, random_state=0)
    p = d.y_proba[:, 1]
    report = s.ComparisonReport.from_predictions(d.y, {"a": p, "b": p**2, "c": p**0.5})
    text = " ".join(report.to_text(details=True).split())
    for words in ("intervals that hold for all 3 pairs together", "a - b", "a - c", "b - c"):
        assert words in text
    frame = report.to_frame()
    assert len(frame) == len(report.differences)
    assert frame["quantity"].tolist() == [comparison.quantity for comparison in report.differences]
    assert frame["difference_low"].tolist() == [
        comparison.difference.low for comparison in report.differences
    ]


def test_monitor_has_a_frame_of_its_windows():
    d = make_tempered_simplex(250, 2, random_state=0)
    monitor = s.CalibrationMonitor([0, 1], window=100).partial_fit(d.y[:50], d.y_proba[:50])
    empty = monitor.to_frame()
    frame = monitor.partial_fit(d.y[50:], d.y_proba[50:]).to_frame()
    assert len(empty) == 0 and list(empty) == list(frame)
    assert frame["first"].tolist() == [1, 101] and frame["last"].tolist() == [100, 200]
    gap = d.y[:100].mean() - d.y_proba[:100, 1].mean()
    assert frame["difference"][0] == pytest.approx(gap, abs=1e-9)
    assert frame.iloc[1].to_dict() == monitor.windows_[1].to_frame().iloc[0].to_dict()
