"""Which way forecasts are off, and signs that the input is not what it should be."""

import re

import numpy as np
import pytest
from scipy.special import expit, softmax

from skcalib import CalibrationReport
from skcalib.data.problem import check_problem
from skcalib.proper.map_average import AveragedProblem
from skcalib.report.diagnosis import direction_of, find_suspicions, gains_of, logistic_recalibration
from skcalib.report.findings import Gains, find_errors, range_label, ranges_of_scores
from skcalib.scores import LogLoss
from skcalib.stats.means import rate_interval


def event(n=4000, *, shift=0.0, slope=1.0, mean=-1.0, seed=0):
    """Labels, and forecasts whose logit is off by a shift and a slope about its mean."""
    rng = np.random.default_rng(seed)
    x = mean + rng.normal(size=n)
    y = (rng.random(n) < expit(x)).astype(int)
    return y, expit(x.mean() + (x - x.mean()) / slope - shift)


def classes(n=1000, n_classes=4, *, temperature=1.0, bias=(), seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, n_classes)) * 1.5
    p = softmax(z, axis=1)
    y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    return y, softmax(z / temperature + np.append(bias, np.zeros(n_classes - len(bias))), axis=1)


@pytest.mark.parametrize(
    ("samples", "direction", "headline"),
    [
        (event(1500, mean=0, shift=-0.7), "too_high", "Predictions are too high: mean "),
        (event(1500, mean=0, shift=0.7), "too_low", "Predictions are too low: mean "),
        (event(3000, mean=-3, slope=0.6), "too_extreme", "Over-confident: predictions are too "),
        (event(3000, mean=-3, slope=1.7), "too_moderate", "Under-confident: predictions are not "),
        (event(1500, mean=0), None, "No evidence of miscalibration."),
        (classes(temperature=0.5), "too_extreme", "Over-confident: predictions are too extreme."),
        (classes(temperature=2.0), "too_moderate", "Under-confident"),
        (classes(bias=[1.0]), "class_shift", "Some classes are predicted too often: class 0."),
        (classes(bias=[-1.5]), "class_shift", "Some classes are predicted too often: class "),
        (classes(), None, "No evidence of miscalibration."),
    ],
)
def test_direction_in_the_headline(samples, direction, headline):
    """A map is advised where there is a direction; few words."""
    y, forecast = samples
    report = CalibrationReport.from_predictions(y, forecast)
    assert report.direction == direction
    assert report.miscalibrated is (direction is not None)
    advice = "Recalibrate with" if direction else "Recalibration is not recommended: with these"
    assert report.verdict.startswith(headline) and f"\n{advice}" in report.verdict
    assert (report.findings.advice.recommended is None) == (direction is None)
    assert len(report.verdict.split()) <= 110


@pytest.mark.parametrize(
    ("mean", "forecast", "direction", "headline"),
    [
        (-4.0, (-3.2, 1.3), "too_high", r"Predictions are too high, and more so the higher they "
         r"are: mean 7\.\d %, observed [23]\.\d %\."),
        (-4.4, (-4.4, 2.2), "too_extreme", r"Over-confident: predictions are too extreme\."),
        (-1.0, (-2.0, 1.4), "too_low", r"Predictions are too low: mean 18"),
    ],
)  # fmt: skip
def test_too_extreme_needs_samples_on_both_sides(
    mean, forecast, direction, headline, rng, few_maps
):
    """Logits mean + x, forecasts a + b x: nearly all above the curve, half of them, few."""
    x = rng.normal(size=8000)
    y = (rng.random(8000) < expit(mean + x)).astype(int)
    report = CalibrationReport.from_predictions(y, expit(forecast[0] + forecast[1] * x))
    assert report.direction == direction
    assert re.match(headline, report.verdict)


def test_direction_by_the_gains():
    for gains, shift, slope, direction in (
        ((0.1, 0.0, 0.15), 1, 0, "too_high"),
        ((0.1, 0.0, 0.15), -1, 0, "too_low"),
        ((0.1, 0.0, 0.25), 1, 1, None),
        ((0.1, 0.2, 0.25), 1, 1, "too_extreme"),
        ((0.1, 0.2, 0.25), 1, -1, "too_moderate"),
        ((0.1, 0.2, 0.25), 1, 0, None),
        ((-0.1, -0.1, -0.1), 1, 1, None),
    ):
        assert direction_of(Gains(*gains), shift, slope) == direction


def test_gains_have_no_optimism():
    """Of calibrated forecasts those of a shift and of a slope are zero on average."""
    sizes = []
    for seed in range(60):
        y, p = event(300, seed=seed)
        problem = check_problem(y, p)
        solved = AveragedProblem.of(problem)
        gains = gains_of(solved)
        assert gains.whole == pytest.approx(solved.errors(LogLoss()).mean(), abs=1e-12)
        sizes.append((gains.shift, gains.slope))
    mean, error = np.mean(sizes, axis=0), np.std(sizes, axis=0) / np.sqrt(60)
    assert (np.abs(mean) < 4 * error).all()


def test_logistic_recalibration_finds_shift_and_slope():
    shifted = logistic_recalibration(check_problem(*event(100_000, shift=-0.5, slope=0.8)), 0.95)
    assert shifted.shift.estimate == pytest.approx(-0.5, abs=4 * shifted.shift.standard_error)
    assert shifted.slope.estimate == pytest.approx(0.8, abs=4 * shifted.slope.standard_error)
    assert shifted.pvalue == 0
    assert logistic_recalibration(check_problem([0, 1, 1], [0.5] * 3), 0.95) is None


@pytest.mark.slow
def test_logistic_recalibration_is_a_test_of_its_level():
    """Shift 0 and slope 1: the p-value is uniform; 400 data sets, standard error of .05: .011."""
    fits = [logistic_recalibration(check_problem(*event(400, seed=k)), 0.95) for k in range(400)]
    shares = [
        [fit.pvalue >= 0.05, fit.shift.low < 0 < fit.shift.high, fit.slope.low < 1 < fit.slope.high]
        for fit in fits
    ]
    assert (np.abs(np.mean(shares, axis=0) - 0.95) < 0.035).all()


def test_ranges_holdranges_of_scores():
    score = np.random.default_rng(0).beta(0.3, 8, 5000)
    ranges = ranges_of_scores(score, np.ones(5000))
    information = [np.sum(score[rows] * (1 - score[rows])) for rows, _, _ in ranges]
    assert len(ranges) == 10 and max(information) < 1.2 * min(information)
    ends = [end for _, pair, _ in ranges for end in pair]
    assert ends == sorted(ends)


@pytest.mark.parametrize("scores", [
    np.r_[np.zeros(500), np.ones(500)], np.full(300, 0.2), np.repeat([0.1, 0.10001, 0.9], 200),
    1 - 10.0 ** -np.linspace(1, 12, 2000), np.linspace(0, 1e-7, 400),
    np.random.default_rng(0).beta(0.3, 8, 5000),
])  # fmt: skip
def test_no_two_ranges_have_the_same_label(scores):
    ranges = ranges_of_scores(scores, np.ones(len(scores)))
    assert len({label for _, _, label in ranges}) == len(ranges)
    rows = np.concatenate([rows for rows, _, _ in ranges])
    assert np.array_equal(np.sort(rows), np.arange(len(scores)))
    for value in np.unique(scores):  # equal scores stay together
        assert sum(value in scores[rows] for rows, _, _ in ranges) == 1
    assert range_label(0.1, 0.1) == "10.0 %" and range_label(0.1, 0.25) == "10.0 to 25.0 %"


def confused(n=3000, rate=0.2, seed=0, *, also=False):
    """Four classes; where the first has at least .8, a share of it is the second.

    And, on request, of the last the third.
    """
    rng = np.random.default_rng(seed)
    forecast = rng.dirichlet(np.full(4, 0.3), n)
    mass = rate * forecast[:, 0] * (forecast[:, 0] >= 0.8)
    posterior = forecast.copy()
    posterior[:, 0] -= mass
    posterior[:, 1] += mass
    if also:
        mass = rate * forecast[:, 3] * (forecast[:, 3] >= 0.8)
        posterior[:, 3] -= mass
        posterior[:, 2] += mass
    drawn = (posterior.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return np.array(["cat", "dog", "fox", "owl"])[drawn], forecast


def test_confused_classes_are_named(words_only, few_maps):
    y, forecast = confused(1200)
    report = CalibrationReport.from_predictions(y, forecast)
    first = report.findings.confusions[0]
    assert report.direction == report.to_dict()["direction"] == "confused"
    assert (first.predicted, first.other) == ("cat", "dog")
    rows = (forecast.argmax(axis=1) == 0) & (forecast[:, 0] >= first.at_least)
    assert first.n_samples == rows.sum()
    assert first.observed.estimate == pytest.approx(np.mean(y[rows] == "dog"))
    assert first.mean_score == pytest.approx(forecast[rows, 1].mean())
    both = confused(3000, also=True)
    pairs = CalibrationReport.from_predictions(*both).findings.confusions
    assert {(pair.predicted, pair.other) for pair in pairs} == {("cat", "dog"), ("owl", "fox")}
    limits, alone = [], []  # of both at once, and of each of those that were found, two or more
    for pair in pairs:
        k = 0 if pair.predicted == "cat" else 3
        rows = (both[1].argmax(axis=1) == k) & (both[1][:, k] >= pair.at_least)
        levels = [1 - 0.05 / number for number in range(2, 13)]
        alone.append(
            [rate_interval(both[0][rows] == pair.other, None, level).low for level in levels]
        )
        limits.append(pair.observed.low)
    assert np.isclose(np.array(alone), np.array(limits)[:, None], rtol=1e-9).all(axis=0).sum() == 1
    assert first.mean_score < first.observed.low <= first.observed.estimate <= first.observed.high
    assert report.verdict.startswith("Some classes are confused: where cat is predicted with at le")
    page = report._repr_html_()
    assert "Pairs of classes" in page and "Residuals of the averaged maps" in page
    findings = CalibrationReport.from_predictions(*confused(500, rate=0.0)).findings  # calibrated
    assert (
        findings.direction is None and findings.confusions == () and not findings.residuals_reject
    )


def test_residuals_that_cells_cannot_resolve_give_a_lower_bound(words_only, few_maps, rng):
    s = np.sort(rng.uniform(0.3, 0.7, 4000))
    gap = np.where(np.arange(4000) * 128 // 4000 % 2 == 1, 0.25, -0.25)
    report = CalibrationReport.from_predictions((rng.random(4000) < s + gap).astype(int), s)
    assert report.miscalibrated and report.findings.residuals_reject
    assert "\nTypical error: at least " in report.verdict
    assert "even a large gain could be missed" in report.verdict
    assert "may exceed the upper limit" in report._repr_html_()


def of(score, rng, **options):
    """Labels of calibrated scores."""
    return (rng.random(len(score)) < score).astype(int), score, options


def in_order(samples, by):
    """The same samples, sorted."""
    y, score, options = samples
    order = np.lexsort(by(y, score))
    return y[order], score[order], options


def logits(n, rng):
    return expit(1.3 * rng.standard_normal(n))


def integers(rng):
    X = rng.integers(0, 3, (1000, 4))
    return of(expit((X - 1) @ [1, 0.5, -1, 0.3]), rng, features=X)


def in_groups(rng):
    patient = rng.integers(0, 100, 1000)
    effect = rng.standard_normal(100)[patient]
    return of(expit(effect + rng.standard_normal(1000)), rng, groups=patient)


def patients(rng):
    """Ten equal rows of each patient, who is given as the group."""
    y, score, _ = of(logits(100, rng), rng)
    return np.repeat(y, 10), np.repeat(score, 10), {"groups": np.repeat(np.arange(100), 10)}


CLEAN = {
    "binary": lambda rng: of(logits(1000, rng), rng),
    "rare": lambda rng: of(expit(-4.5 + rng.standard_normal(1000)), rng),
    "K = 3": lambda rng: (*classes(1000, 3, seed=rng), {}),
    "K = 3, few": lambda rng: (*classes(40, 3, seed=rng), {}),
    "few": lambda rng: of(logits(30, rng), rng),
    "tenths": lambda rng: of(rng.integers(1, 10, 1000) / 10, rng),
    "leaves": lambda rng: of(rng.beta(0.3, 0.3, 200)[rng.integers(0, 200, 1000)], rng),
    "hundredths": lambda rng: of(logits(1000, rng).round(2), rng),
    "sorted forecasts": lambda rng: of(np.sort(logits(1000, rng)), rng),
    "sorted labels": lambda rng: in_order(of(logits(1000, rng), rng), lambda y, p: (y,)),
    "sorted ties": lambda rng: in_order(CLEAN["tenths"](rng), lambda y, p: (y, p)),
    "small integer features": integers,
    "groups": in_groups,
    "equal rows of a group": patients,
}


def kinds(y, score, *, features=None, groups=None, gains=False, weight=None, **options):
    n_classes = np.shape(score)[1] if np.ndim(score) == 2 else 2
    problem = check_problem(y, score, None, weight, labels=range(n_classes), groups=groups)
    line = gain = None
    if gains and n_classes == 2:
        solved = find_errors(problem, problem, 0.95)[1]
        line, gain = logistic_recalibration(problem, 0.95), gains_of(solved)
    suspicions = find_suspicions(problem, features, line, gain, **options)
    return {suspicion.kind: suspicion.sentence for suspicion in suspicions}


def is_only(suspicions, kind, *words):
    return [*suspicions] == [kind] and all(word in suspicions[kind] for word in words)


@pytest.mark.parametrize("n_draws", [5, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CLEAN)
def test_silent_on_clean_samples(name, n_draws):
    for seed in range(n_draws):
        y, score, options = CLEAN[name](np.random.default_rng(seed))
        assert kinds(y, score, gains=True, **options) == {}


@pytest.mark.parametrize("times", [2, 10])
@pytest.mark.parametrize("name", ["binary", "rare", "K = 3", "few"])
def test_repeated_rows(name, times, rng):
    y, score, _ = CLEAN[name](rng)
    rows = rng.permutation(np.repeat(np.arange(len(y)), times))
    if name != "few" or times > 2:  # 30 rows twice may be by chance
        assert is_only(kinds(y[rows], score[rows]), "repeated_rows")
    assert kinds(y[rows], score[rows], groups=rows) == {}


def test_repeated_rows_behind_tied_forecasts(rng):
    X = rng.standard_normal((300, 3))
    y, score, _ = of(expit(X @ [1, 1, 0]).round(1).clip(0.05, 0.95), rng)
    rows = np.repeat(np.arange(300), 3)
    table = X.astype(object)
    table[:, 2] = np.where(X[:, 2] > 0, "a", "b")
    for features in (X, table):
        assert is_only(kinds(y[rows], score[rows], features=features[rows]), "repeated_rows")
        assert kinds(y, score, features=features) == {}
    assert kinds(y[rows], score[rows]) == {}


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_in_another_order(n_classes, rng):
    y, score, _ = CLEAN["binary" if n_classes == 2 else "K = 3"](rng)
    measure = "AUC" if n_classes == 2 else "accuracy"
    assert is_only(kinds(y[::-1], score), "label_order", "in reverse", measure)
    assert is_only(kinds(np.roll(y, -1), score), "label_order", "down by one row", measure)
    assert is_only(kinds(np.sort(y), score), "label_order", "The labels are sorted", measure)
    shuffled = [kinds(rng.permutation(y), score) for _ in range(20)]
    unrelated = [is_only(suspicions, "unrelated_labels", measure) for suspicions in shuffled]
    assert sum(unrelated) >= 16  # of 20, at .95
    if n_classes == 2:
        assert is_only(kinds(y, np.sort(score)), "label_order", "The forecasts are sorted", measure)


def test_forecasts_that_rank_a_little_are_not_unrelated(rng):
    """Stated confidences with an AUC of .567, which lies 4.2 standard errors above one half."""
    stated, right = np.array([[0.9, 0.95, 0.98, 0.99], [0.75, 0.78, 0.82, 0.85]])
    draws = rng.integers(4, size=(20, 2000))
    assert [kinds(of(right[at], rng)[0], stated[at]) for at in draws].count({}) >= 18


@pytest.mark.parametrize(("factor", "word"), [(10, "high"), (0.1, "low")])
def test_odds_of_balanced_training(factor, word, rng):
    risk = expit(-3 * np.sign(factor - 1) + rng.standard_normal(3000))
    y, _, _ = of(risk, rng)
    odds = factor * risk / (1 - risk)
    assert is_only(kinds(y, odds / (1 + odds), gains=True), "balanced_training", f"too {word}")
    for score in (risk, expit(2 * np.log(odds))):  # right, and off by another factor each
        assert kinds(y, score, gains=True) == {}


def test_a_class_without_samples(rng):
    y, score = classes(600, 3, seed=rng)
    y, score = y[y != 1], score[y != 1]
    assert is_only(kinds(y, score), "absent_class", "of class 1, but")
    report = CalibrationReport.from_predictions(y, score, labels=[0, 1, 2])
    assert report.to_dict()["recommended"] is None and "class 1" in report.verdict
    assert "points" not in report.verdict and "up to" not in str(report)
    rare = score * [1, 1e-4, 1]  # hardly any sample is expected
    assert kinds(y, rare / rare.sum(axis=1, keepdims=True)) == {}


@pytest.mark.parametrize("n_sets", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_suspicions_are_rarely_wrong(n_sets):
    """Poor but honest models: in 3 times 100 data sets no suspicion of the input."""
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        rare = rng.random(3000) * 0.01
        labels = (rng.random(3000) < 3 * rare).astype(int)  # too low by a factor of three
        for kind, (y, score) in (
            ("other_class", (rng.integers(0, 2, 60), rng.random(60))),
            ("column_order", classes(200, bias=[2.0, 0.0, -1.0], seed=seed)),
            ("percent_scale", (labels, rare)),
        ):
            assert kind not in kinds(y, score)


@pytest.mark.parametrize("n_heavy", [1, 3, 10])
def test_suspicions_with_a_few_dominating_weights(n_heavy):
    """Calibrated forecasts: one wrong sample shows nothing, whatever its weight."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        for spread, n_samples in ((0.5, 40), (1.5, 500)):
            score = expit(spread * rng.standard_normal(n_samples))
            weight = np.where(np.arange(n_samples) < n_heavy, 1e9, 1.0)
            assert kinds((rng.random(n_samples) < score).astype(int), score, weight=weight) == {}
        y, score = classes(500, 3, seed=rng)
        assert kinds(y, score, weight=np.where(np.arange(500) < n_heavy, 1e9, 1.0)) == {}


@pytest.mark.parametrize("n_classes", [3, 10, 30])
def test_the_best_of_all_orders_of_columns(n_classes):
    """Some order of the columns fits any labels; moved columns fit better on other samples too."""
    order = np.roll(np.arange(n_classes), 1)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        shares = rng.dirichlet(np.full(n_classes, 5.0))
        for noise in (rng.integers(n_classes, size=600), rng.choice(n_classes, 600, p=shares)):
            for concentration in (0.2, 2.0, shares[order] * n_classes * 2):
                score = rng.dirichlet(np.full(n_classes, concentration), size=600)
                assert "column_order" not in kinds(noise, score)
        y, score = classes(600, n_classes, seed=rng)
        assert "column_order" not in kinds(y, score)
        sentence = kinds(y, score[:, order])["column_order"]
        further = re.search(r"and (\d+) more", sentence)
        assert sentence.count("class ") + int(further[1] if further else 0) >= n_classes / 3


def test_a_suspicion_comes_first_and_replaces_the_advice(few_maps):
    y, p = event(600, mean=-3)
    content = CalibrationReport.from_predictions(1 - y, p).to_dict()
    assert content["headline"].startswith("Check the labels: the forecasts fit the other class.")
    assert content["suspicion_kinds"] == ["other_class"] and "accuracy" in content["suspicions"][0]
    assert content["recommended"] is content["direction"] is None
    assert "Correct the input first" in content["advice"]
