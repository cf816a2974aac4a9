"""Which class the name of a column names: the rule alone, in functions, and in both libraries."""

import re

import numpy as np
import pandas as pd
import pytest
from engines import polars as pl
from scipy.special import logit

import skcalib as s
from skcalib.data.class_columns import conventional_event, is_numbering, match_names, read_name
from skcalib.data.problem import check_problem
from skcalib.sketches.sketch import summarize

WORDS = ["churn", "stay"]
BITS = [0, 1]

CHURN = [
    *("p_churn", "churn", "Churn", "proba_churn", "prob_churn", "PROBA_CHURN", "prob.churn"),
    *("p(churn)", "P(Y=churn)", "P(Y = churn | X)", "churn_proba", "churn probability"),
    *("probability of churn", "probChurn", "churnRisk", "y_score_churn", "('p', 'churn')"),
]
#: Classes, the place of the class that is named, and its names.
NAMES_OF = [
    (WORDS, 0, CHURN),
    (WORDS, 1, ["p_stay"]),
    (BITS, 1, ["p_1", "proba_1", "p1", "P(Y=1)", "class_1", "1", "score_1"]),
    (BITS, 0, ["p_0", "p0", "proba[0]"]),
    ([0.0, 1.0], 1, ["p_1.0"]),
    ([False, True], 1, ["p_1 "]),
    ([False, True], 0, ["p_False"]),
    ([-1, 1], 0, ["p_-1", "-1"]),
    ([-1, 1], 1, ["p_ 1"]),
    (["<=50K", ">50K"], 1, ["p_>50K"]),
    (["<=50K", ">50K"], 0, ["p_<=50K"]),
    (["New York", "York"], 0, ["p_New.York"]),
    (["New York", "York"], 1, ["p_york"]),
    (["churn", "no churn"], 1, ["p_no churn"]),
    (["no", "yes"], 0, ["p_no"]),
    (["A", "a"], 0, ["p_A"]),
    (["A", "a"], 1, ["p_a"]),
    (["n", "y"], 1, ["y_proba"]),
    ([b"a", b"b"], 1, ["p_b"]),
    (["+", "-"], 0, ["p_+"]),
    (np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]"), 0, ["p_2020-01-01"]),
    (["negative", "positive"], 1, ["positive"]),
]
NAMES = [(name, classes, place) for classes, place, names in NAMES_OF for name in names]


@pytest.mark.parametrize(("name", "classes", "place"), NAMES, ids=[name for name, *_ in NAMES])
def test_names_of_a_class(name, classes, place):
    reading = read_name(name, classes, default=1)
    assert (reading.kind, reading.place) == ("class", place)
    if not re.search(r"\d", name):
        assert read_name(name, classes).place == place or name in ("y_proba", "positive")


OTHERS = {
    "generic": [
        *("p", "P", "prob", "proba", "probability", "score", "prediction", "predictions", "pred"),
        *("y_proba", "y_prob", "y_pred_proba", "y_score", "predict_proba", "positive", "event"),
        *("p(event)", "risk", "forecast", "y_hat", "Prob."),
    ],
    "unknown": [
        *("rf", "p_dog", "logistic", "age", "pchurn", "restaying", "p_churn_old", "days_to_churn"),
        *("confidence", "y", "label"),
    ],
    "ambiguous": [
        *("p_not_churn", "not stay", "1-p", "1 - p_churn", "one_minus_p", "negative", "p_neg"),
        *("no_calibration", "p_2", "proba2"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "name"), [(k, name) for k, names in OTHERS.items() for name in names]
)
def test_names_of_no_class(kind, name):
    assert read_name(name, WORDS, default=1).kind == kind


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        # of class 0, or the first of several scores
        *((name, BITS) for name in ("score_0", "0", "y_0", "model_0", "p_0.1", "p_-1")),
        ("p", ["p", "q"]),
        ("y_proba", ["y", "z"]),
        ("p_50K", ["<=50K", ">50K"]),
        ("score_1", [1, 2]),
    ],
)
def test_names_with_two_readings(name, classes):
    assert read_name(name, classes, default=1).kind == "ambiguous"


def test_parts_of_words_and_numbers_are_no_classes():
    """Names that hold the letters of a class by accident."""
    for name in ("proba", "data", "p_ab", "alpha"):
        assert read_name(name, ["a", "b"]).kind != "class"
    for name in ("p10", "p_01", "auc1a", "0.51"):
        assert read_name(name, BITS, default=1).kind != "class"
    assert read_name("rf_churn", WORDS).mentioned == {0}
    assert read_name("p_churn_vs_stay", WORDS).mentioned == {0, 1}


@pytest.mark.parametrize(
    ("names", "classes", "expected"),
    [
        (["a", "b"], ["a", "b"], [0, 1]),
        (["p_b", "p_a"], ["a", "b"], [1, 0]),
        (["P_B", "P_A"], ["a", "b"], [1, 0]),
        (["a score", "b score"], ["a", "b"], [0, 1]),
        (["rf_ape_x", "rf_Bee_x", "rf_cat_x"], ["ape", "cat"], [0, "Bee", 1]),
        (["cat_p", "cow_p"], ["cat", "cow"], [0, 1]),  # their common beginning is no prefix
        (["aa", "ab"], ["a", "b"], [0, 1]),
        (["p_A", "p_a"], ["a", "A"], [1, 0]),
        (["p_New.York", "p_Rome"], ["New York", "Rome"], [0, 1]),
        (["p0", "p1"], [False, True], [0, 1]),
        (["c0", "c1", "c10"], [0, 10], [0, "1", 1]),
        (["p_a", "prob_b"], ["a", "b"], None),
        (["x", "y"], ["a", "b"], None),
        (["aba", "abb"], ["a", "b"], [0, 1]),
        ([f"p_{k}" for k in range(999, -1, -1)], range(1000), list(range(999, -1, -1))),
    ],
)
def test_names_of_several_columns(names, classes, expected):
    assert match_names(names, classes) == expected


def test_plain_classes_and_numbered_columns():
    words = ["0", "1"], ["FALSE", "TRUE"], ["no", "Yes"]
    for classes in (BITS, [-1, 1], [False, True], [0.0, 1.0], *words):
        assert conventional_event(classes) is not None
        assert conventional_event(np.array(classes)) is not None
    for classes in (["no", "YES"], ["False", "TRUE"], ["n", "Y"], ["negative", "Positive"], [0, 1]):
        assert conventional_event(classes) == 1 and conventional_event(classes[::-1]) == 0
    for classes in ([1, 2], ["no", "sick"], [0, 1, 2], [None, 1]):
        assert conventional_event(classes) is None
    assert is_numbering([0, 1]) and is_numbering(["p1", "p2"]) and is_numbering(["column_0"])
    for names in (["p2", "p1"], ["a", "b"], ["p1", "q2"], [3, 4]):
        assert not is_numbering(names)


@pytest.mark.parametrize("pair", [("no", "YES"), ("false", "TRUE"), ("n", "Y"), ("neg", "Pos")])
def test_functions_ask_for_an_event_that_sorts_first(pair):
    """The last of the sorted classes is the negative one: neither is taken in silence."""
    y, proba = np.array(pair)[[1, 0, 1, 0]], np.array([0.9, 0.2, 0.7, 0.4])
    for forecast in (proba, pd.Series(proba, name="score")):
        with pytest.raises(
            ValueError, match=f"pass pos_label='{pair[1]}' or pos_label='{pair[0]}'"
        ):
            s.calibration_summary(y, forecast)
    summary = s.calibration_summary(y, proba, pos_label=pair[1])
    expected = s.calibration_summary([1, 0, 1, 0], proba)
    assert summary.brier == expected.brier and summary.event == pair[1]


Y = np.array(["churn", "stay", "churn", "stay", "stay"])
P = np.array([0.9, 0.2, 0.7, 0.4, 0.1])  # of churn
BY_NAME = {
    "pandas series": lambda name, values: pd.Series(values, name=name),
    "pandas frame": lambda name, values: pd.DataFrame({name: values}),
    "polars series": lambda name, values: pl.Series(name, values),
    "polars frame": lambda name, values: pl.DataFrame({name: values}),
}
VARIANTS = ["p_churn", "churn", "proba_churn", "Prob_Churn", "P(churn)", "churn_proba"]


@pytest.mark.parametrize("kind", BY_NAME)
@pytest.mark.parametrize("name", VARIANTS)
def test_a_named_column_is_the_probability_of_its_class(kind, name):
    """The class that sorts first and the one that sorts last alike."""
    loss = 2 * np.mean((P - (Y == "churn")) ** 2)
    assert s.calibration_upper_bound(Y, BY_NAME[kind](name, P)) == pytest.approx(loss / 2)
    problem = check_problem(Y, BY_NAME[kind](name, P))
    assert problem.classes.tolist() == ["stay", "churn"]
    np.testing.assert_array_equal(problem.forecast[:, 1], P)
    np.testing.assert_array_equal(problem.target[:, 1], Y == "churn")
    opposite = check_problem(Y, BY_NAME[kind](re.sub("(?i)churn", "STAY", name), P))
    assert opposite.classes.tolist() == ["churn", "stay"]
    np.testing.assert_array_equal(opposite.target[:, 1], Y == "stay")


@pytest.mark.parametrize("kind", BY_NAME)
@pytest.mark.parametrize("labels", [BITS, [-1, 1], [False, True], ["0", "1"]])
def test_plain_labels(kind, labels):
    y = np.array(labels)[(Y == "churn").astype(int)]
    certain = "p_1", "proba_1", "score_1", "1"
    for name in (*certain, "p", "y_pred_proba", "positive", "rf", "p_churn"):
        problem = check_problem(y, BY_NAME[kind](name, P))
        assert problem.classes.tolist() == labels, name
        np.testing.assert_array_equal(problem.forecast[:, 1], P)
    zero = "-1" if labels[0] == -1 else "0"
    assert check_problem(y, BY_NAME[kind](f"p_{zero}", P)).classes.tolist() == labels[::-1]
    for name in ("p_neg", "not_1", "no_churn", "p_2", "y_0"):
        words = f"column of y_proba is named {name!r}, which does not"
        with pytest.raises(ValueError, match=words):
            check_problem(y, BY_NAME[kind](name, P))


@pytest.mark.parametrize("kind", BY_NAME)
def test_names_without_a_class_need_pos_label_where_labels_are_words(kind):
    for name in ("p", "y_proba", "rf", "pchurn", "positive"):
        column = BY_NAME[kind](name, P)
        words = f"is named '{name}', .* pass pos_label='churn' or pos_label='stay'"
        with pytest.raises(ValueError, match=words) as error:
            check_problem(Y, column)
        assert "\n" not in str(error.value) and "np." not in str(error.value)
        assert check_problem(Y, column, pos_label="churn").classes.tolist() == ["stay", "churn"]
        assert check_problem(Y, column, labels=["stay", "churn"]).classes[1] == "churn"
    for name in ("p_not_churn", "1-p_churn"):
        with pytest.raises(ValueError, match="rename it after one of them, such as 'p_churn'"):
            check_problem(Y, BY_NAME[kind](name, P), pos_label="churn")


@pytest.mark.parametrize("kind", BY_NAME)
def test_a_name_and_an_argument_that_contradict_each_other(kind):
    column = BY_NAME[kind]("p_churn", P)
    assert check_problem(Y, column, pos_label="churn").classes[1] == "churn"
    for arguments in ({"pos_label": "stay"}, {"labels": ["churn", "stay"]}):
        words = "is the probability of 'churn', but .* that of 'stay'"
        with pytest.raises(ValueError, match=words):
            check_problem(Y, column, **arguments)
    with pytest.raises(ValueError, match="does not say whether"):
        check_problem(Y, BY_NAME[kind]("days_to_churn", P), pos_label="stay")


def test_no_names():
    """What has no name, or one that a library has given, is read as an array."""
    frames = pd.Series(P), pd.DataFrame(P), pd.Series(P, name=0), pl.Series(P), pl.DataFrame(P)
    for column in (P, P[:, None], P.tolist(), *frames):
        assert check_problem(Y, column).classes.tolist() == ["churn", "stay"]
    both = pd.DataFrame(np.column_stack([1 - P, P]))
    bits = (Y == "churn").astype(int)
    assert check_problem(bits, both[1]).classes.tolist() == [0, 1]
    with pytest.raises(ValueError, match="is number 0, which does not say"):
        check_problem(bits, both[0])
    assert check_problem(bits, both[0], pos_label=0).classes.tolist() == [1, 0]
    assert check_problem(bits, both[[0]]).classes.tolist() == [0, 1]  # the only column, unnamed


def test_a_single_class_and_a_name():
    problem = check_problem(["churn"] * 5, pd.Series(P, name="p_churn"))
    assert problem.classes.tolist() == [None, "churn"]
    assert problem.target[:, 1].tolist() == [1] * 5
    assert check_problem([1] * 5, pd.Series(P, name="p_0")).classes.tolist() == [1, 0]
    with pytest.raises(ValueError, match="only the class 'stay'.*: pass labels="):
        check_problem(["stay"] * 5, pd.Series(P, name="p_churn"))


MIXED = np.array(["churn", "stay", "stay", "churn", "stay"])  # not separable by P
RECALIBRATED = s.PlattScaling(labels=["stay", "churn"]).fit(P, MIXED).predict_proba(P)


@pytest.mark.parametrize("kind", BY_NAME)
def test_recalibrators_read_names_by_the_same_rule(kind):
    for name in VARIANTS:
        column = BY_NAME[kind](name, P)
        for labels in (None, ["stay", "churn"]):
            fitted = s.PlattScaling(labels=labels).fit(column, MIXED)
            assert fitted.classes_.tolist() == ["stay", "churn"]
            np.testing.assert_array_equal(fitted.transform(column), RECALIBRATED)
        labels, words = ["churn", "stay"], r"'churn', but .* pass labels=\['stay', 'churn'\]"
        for take, rows in (
            (s.PlattScaling(labels=labels).fit, (column, MIXED)),
            (s.ForecastSketch(labels).fit, (MIXED, column)),
            (s.SequentialCalibrationTest(labels).partial_fit, (MIXED, column)),
        ):
            with pytest.raises(ValueError, match=words):
                take(*rows)
    logits = BY_NAME[kind]("logit_churn", logit(P))
    fitted = s.PlattScaling(input="logits").fit(logits, MIXED)
    np.testing.assert_allclose(fitted.predict_proba(logits), RECALIBRATED, rtol=1e-9)
    with pytest.raises(ValueError, match=r"'q', which does not say .* labels=\['stay', 'churn'\]"):
        s.PlattScaling().fit(BY_NAME[kind]("q", P), MIXED)
    with pytest.raises(ValueError, match=r"only the class 'churn', .* labels=\[other, 'churn'\]"):
        s.PlattScaling().fit(BY_NAME[kind]("p_churn", P), ["churn"] * 5)


@pytest.mark.parametrize("kind", BY_NAME)
def test_recalibrators_refuse_another_name_than_at_fit(kind):
    column, opposite = (BY_NAME[kind](name, P) for name in ("p_churn", "p_stay"))
    if "frame" in kind:
        # scikit-learn says so where it knows the names of the frame; 1.6 does not for polars
        with pytest.raises(ValueError, match="feature names should match|probabilities of 'churn'"):
            s.PlattScaling().fit(column, MIXED).predict(opposite)
        series = opposite["p_stay"]
        with pytest.raises(ValueError, match="'p_stay', so .* probabilities of 'churn'"):
            s.PlattScaling().fit(column, MIXED).predict(series)
    else:
        for fitted_to in (column, P):
            fitted = s.PlattScaling(labels=["stay", "churn"]).fit(fitted_to, MIXED)
            np.testing.assert_array_equal(fitted.transform(column), RECALIBRATED)
            with pytest.raises(ValueError, match="'p_stay', so .* probabilities of 'churn'"):
                fitted.transform(opposite)
    turned = pd.DataFrame({"p_stay": 1 - P, "p_churn": P})
    fitted = s.PlattScaling(labels=["stay", "churn"]).fit(turned, MIXED)
    np.testing.assert_allclose(fitted.transform(turned), RECALIBRATED, rtol=1e-12)


@pytest.mark.parametrize("kind", BY_NAME)
def test_estimators_and_streams_read_names_by_the_same_rule(kind):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=200)
    y = np.where(rng.uniform(size=200) < p**2, "churn", "stay")
    order, wrong = ["stay", "churn"], ["churn", "stay"]
    column, X = BY_NAME[kind]("p_churn", p), rng.normal(size=(200, 2))
    after, display = BY_NAME[kind]("p_churn", p**2), s.ReliabilityDisplay.from_predictions

    def stream(p, labels=order):
        sketch = s.ForecastSketch(labels=labels, notion="canonical").partial_fit(y, p)
        return s.calibration_error(sketch, strategy="uniform")

    def regions(p, **labels):
        return s.GroupingLossEstimator(random_state=0, **labels).fit(X, y, y_proba=p).grouping_loss_

    for value in (
        lambda p, **labels: s.CalibrationErrorEstimator(**labels).fit(p, y).calibration_error_,
        lambda p, **labels: s.calibration_improvement(y, p, after, injective=True, **labels).high,
        lambda p, **labels: s.calibration_error(y, p, notion="canonical", **labels),
        lambda p, **labels: s.ks_calibration_error(y, p, notion="canonical", **labels),
        lambda p, **labels: display(y, p, **labels).curves[0].prob_true.tolist(),
        regions,
        stream,
    ):
        expected = value(p, labels=order)
        assert value(column) == pytest.approx(expected, rel=1e-9)
        assert value(column, labels=order) == pytest.approx(expected, rel=1e-9)
        with pytest.raises(ValueError, match="'p_churn', so it is the probability of 'churn', but"):
            value(column, labels=wrong)
    with pytest.raises(ValueError, match=": pass labels=.*, or an array, which has no names"):
        stream(column, labels=wrong)


def test_a_comparison_of_columns_of_different_classes():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=400)
    y = np.where(rng.uniform(size=400) < p, "churn", "stay")
    churn, stay = pd.Series(p, name="p_churn"), pd.Series(1 - p**2, name="p_stay")
    for second in (stay, p**2):
        with pytest.raises(ValueError, match="of different classes: pass pos_label="):
            s.compare_calibration(y, churn, second)
    difference = s.compare_calibration(y, churn, p**2, pos_label="churn")
    assert difference == s.compare_calibration(y, p, p**2, pos_label="churn")
    assert difference.high < 0


def test_frames_whose_names_are_partly_classes():
    with pytest.raises(ValueError, match=r"named \['other', 'churn'\]"):
        check_problem(Y, pd.DataFrame({"other": 1 - P, "churn": P}))
    frame, soft = pd.DataFrame({1: 1 - P, 0: P}), np.column_stack([1 - P, P])
    for call in (s.TemperatureScaling().fit, lambda p, y: s.proper_calibration_error(y, p)):
        with pytest.raises(ValueError, match=r"named \[1, 0\], but columns follow the classes"):
            call(frame, soft)
    check_problem(Y, pd.DataFrame({"churn": P, "other": 1 - P}))
    for names in ([0, 1], ["p1", "p2"], ["column_0", "column_1"], ["left", "right"]):
        frame = pd.DataFrame(np.column_stack([1 - P, P])).set_axis(names, axis=1)
        for labels in ([0, 1], [1, 2], ["no", "yes"]):
            y = np.array(labels)[(Y == "churn").astype(int)]
            assert check_problem(y, frame).classes.tolist() == labels


# --- Samples that are added to others -------------------------------------------------------------

ADDED = {
    "ForecastSketch": lambda: s.ForecastSketch([0, 1]),
    "CalibrationMonitor": s.CalibrationMonitor,
    "SequentialCalibrationTest": s.SequentialCalibrationTest,
}
#: Names of labels and scores of two batches, and the error of the second.
BATCHES = [
    (("Died", "risk"), ("died", "RISK"), None),
    (("Died", "risk"), (None, None), None),
    ((None, None), ("Died", "risk"), None),
    (("y_true", "p"), ("label", "score"), None),
    (("Died", "p_1"), ("Died", "score"), None),
    (("Died", 1), ("Died", 0), None),
    (("Died", "risk"), ("survived", "risk"), "y_true is named 'survived'.*same labels, pass an"),
    (("Died", "risk"), ("flag", "risk"), "y_true is named 'flag'.*same labels, pass an array"),
    (("Died", "model_a"), ("Died", "model_b"), "y_proba is named 'model_b'.*same scores, pass"),
]


def batch(names, library, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=50)
    y = (rng.random(50) < p).astype(int)
    label, score = names
    if label is None:
        return y, p
    if library is pl:
        return pl.Series(label, y), pl.Series(str(score), p)
    return pd.Series(y, name=label), pd.Series(p, name=score)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
@pytest.mark.parametrize("names", BATCHES, ids=str)
@pytest.mark.parametrize("kind", ADDED)
def test_names_of_samples_that_are_added(kind, names, library):
    first, second, error = names
    if library is pl and 1 in first:
        return  # the number of a column is text in polars, and names a class
    stream = ADDED[kind]().partial_fit(*batch(first, library))
    before = stream.to_bytes()
    if error is not None:
        with pytest.raises(ValueError, match=error):
            stream.partial_fit(*batch(second, library, 1))
        assert stream.to_bytes() == before
        return
    stream = type(stream).from_bytes(before).partial_fit(*batch(second, library, 1))
    arrays = ADDED[kind]().partial_fit(*batch((None, None), library))
    arrays.partial_fit(*batch((None, None), library, 1))
    assert stream.n_samples_seen_ == arrays.n_samples_seen_ == 100
    named = [name if isinstance(name, str) else None for name in (first if first[0] else second)]
    assert [stream.label_name_, stream.score_name_] == named
    assert arrays.label_name_ is arrays.score_name_ is None


def test_names_of_sketches_that_are_merged():
    first, two, survived, flag = (
        s.ForecastSketch([0, 1]).fit(*batch((name, "risk"), pd, seed))
        for seed, name in enumerate(["Died", "died", "survived", "flag"])
    )
    assert (first + two).label_name_ == (first + two).group(None).label_name_ == "Died"
    for different in (survived, flag):
        with pytest.raises(ValueError, match="are named 'Died' and .* set label_name_ of both sk"):
            first.merge(different)
    flag.label_name_ = "Died"
    assert first.merge(flag).n_samples_seen_ == 100
    frame = pd.concat(batch(("survived", "risk"), pd), axis=1)
    of_frame = summarize(frame, y_true="survived", y_proba="risk")
    assert (of_frame.label_name_, of_frame.score_name_) == ("survived", "risk")
