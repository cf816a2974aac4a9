"""Numbers of a report against closed forms: averages, ranges, differences, shift and slope."""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import on_a_line
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import chi2, norm

from skcalib.data.problem import check_problem
from skcalib.proper.map_average import AveragedProblem
from skcalib.report.advice import advice_on_decisions, choose_advice, find_decision
from skcalib.report.diagnosis import find_suspicions, gains_of, logistic_recalibration
from skcalib.report.findings import (
    Advice,
    DecisionFinding,
    Findings,
    PairedDifference,
    Place,
    averages_of,
    class_label,
    class_name,
    find_places,
    find_test,
    first_classes,
    omissions,
    range_label,
    ranges_of_scores,
    shorten,
    subsample,
)
from skcalib.scores import LogLoss
from skcalib.stats.means import MeanInterval, clopper_pearson


def of_property(name, **known):
    """A property of `Findings` that has these fields only."""
    return getattr(Findings, name).fget(SimpleNamespace(**known))


def around(estimate, reach=0.01):
    return MeanInterval(estimate, estimate - reach, estimate + reach, reach / 2)


# --- Properties of the findings -------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "loss", "n_tried"), [(0.3, 0.2, 10), (0.9, 0.08, 1)])
def test_the_difference_that_could_be_missed_solves_its_equation(rate, loss, n_tried):
    known = {
        "grouping": SimpleNamespace(n_tried=n_tried, n_compared=400), "n_samples": 500,
        "effective_size": 2500.0, "observed_rate": around(rate), "confidence_level": 0.9,
        "confidence": SimpleNamespace(terms=SimpleNamespace(loss=loss)),
    }  # fmt: skip
    x = of_property("missed_difference", **known)
    a = (norm.isf(0.05 / n_tried) + norm.isf(0.2)) ** 2 / (0.09 * 2000)
    assert x**2 == pytest.approx(a * (loss + abs(1 - 2 * rate) * x), rel=1e-9)
    # None: without groups, with a tenth that has hardly a label, or a difference above 1 - r.
    without = SimpleNamespace(n_tried=0, n_compared=400)
    tiny = SimpleNamespace(terms=SimpleNamespace(loss=0.99 / 200))
    enough = SimpleNamespace(terms=SimpleNamespace(loss=1.01 / 200))
    for change in ({"grouping": None}, {"grouping": without}, {"effective_size": 25.0},
                   {"confidence": tiny}):  # fmt: skip
        assert of_property("missed_difference", **{**known, **change}) is None
    assert of_property("missed_difference", **{**known, "confidence": enough}) is not None


def test_the_typical_error_is_a_root_and_the_missed_gain_a_share():
    def typical(estimate, low, high):
        interval = MeanInterval(estimate, low, high, 0.01)
        return [*of_property("typical_error", confidence=SimpleNamespace(calibration=interval))
                .values()]  # fmt: skip

    assert typical(0.04, 0.01, 0.09) == pytest.approx([0.2, 0.1, 0.3])
    assert typical(-0.01, -0.02, 0.03) == pytest.approx([0, 0, 0.2])  # what could be missed
    assert typical(0.9, -0.5, 1.3) == [pytest.approx(0.9**0.5), 0, 1]

    def missed(loss, lower_bound=""):
        error = SimpleNamespace(
            lower_bound=lower_bound, terms=SimpleNamespace(loss=loss),
            calibration=MeanInterval(-0.01, -0.02, 0.03, 0.01),
        )  # fmt: skip
        return of_property("missed_gain", error=lambda *_: error)

    assert missed(0.4) == pytest.approx(0.1)
    assert missed(0.0) == missed(np.inf) == missed(0.4, "a reason") == np.inf


@pytest.mark.parametrize(
    ("quantity", "ends", "better"),
    [
        ("brier", (-0.2, -0.1), "a"),
        ("brier", (0.1, 0.2), "b"),
        ("brier", (-0.1, 0.2), ""),
        ("net_benefit", (-0.2, -0.1), "b"),
        ("net_benefit", (0.1, 0.2), "a"),
        ("log", (1e-13, 3e-13), ""),
        ("log", (1e-11, 3e-11), "b"),
    ],
)
def test_the_better_model(quantity, ends, better):
    interval = MeanInterval(sum(ends) / 2, *ends, 0.01)
    difference = PairedDifference(quantity, "a", "b", interval, 0.01)
    assert difference.better == better and difference.detected == bool(better)


def test_the_worst_places_come_first():
    def place(kind, share, score, outcome, low, high):
        return Place(kind, f"{share}", 0, 1, 10, share, score, outcome, low, high)

    places = (
        place("scores", 0.5, 0.4, 0.5, 0.41, 0.6),  # .5 * .01
        place("scores", 0.2, 0.8, 0.6, 0.5, 0.79),  # .2 * .04
        place("scores", 0.3, 0.1, 0.9, 0.1, 1.0),  # its end is the score
        place("class", 0.9, 0.1, 0.9, 0.8, 1.0),
    )
    known = SimpleNamespace(places=places)
    worst = Findings.worst_places(known, "scores")
    assert [p.share for p in worst] == [0.2, 0.5] and [p.too_high for p in worst] == [True, False]
    assert [p.squared_gap for p in worst] == pytest.approx([0.008, 0.005])
    assert Findings.worst_places(known, "scores", 1) == worst[:1]


def test_names_in_sentences():
    assert [class_label(t) for t in ("1.0", "-2", "1.5", "10")] == ["1", "-2", "1.5", "10"]
    named = ["class 1", "class -2", "class 1.5", "True-ish", "class True", "1.2.3"]
    assert [class_name(t) for t in ("1.0", "-2", "1.5", "True-ish", "True", "1.2.3")] == named
    assert first_classes("abc") == "a, b, c" and first_classes("abcde") == "a, b, c and 2 more"
    assert shorten("x" * 60) == "x" * 60 and shorten("x" * 61) == "x" * 57 + "..."
    assert range_label(0.1234, 0.1236, 1) == "12.3 to 12.4 %"
    assert range_label(0.1234, 0.1234, 2) == "12.34 %"


# --- Averages and ranges --------------------------------------------------------------------------


def test_averages_by_hand():
    y, p, weight = [1, 0, 1, 0], np.array([0.9, 0.2, 0.6, 0.7]), np.array([1.0, 2.0, 3.0, 2.0])
    numbers = averages_of(check_problem(y, p, sample_weight=weight), 0.9)
    assert (numbers["n_samples"], numbers["n_events"], numbers["event"]) == (4, 2, "1")
    assert numbers["mean_predicted"] == pytest.approx((0.9 + 0.4 + 1.8 + 1.4) / 8)
    assert numbers["observed_rate"].estimate == 0.5
    ends = np.ravel(clopper_pearson(0.5, 64 / 18, 0.9))
    assert (numbers["observed_rate"].low, numbers["observed_rate"].high) == pytest.approx(ends)
    assert numbers["observed_expected_ratio"].estimate == pytest.approx(4 / 4.5)
    assert numbers["effective_size"] == pytest.approx(64 / 18)
    assert numbers["accuracy"].estimate == pytest.approx(6 / 8)
    gap = numbers["confidence_gap"]  # confidences .9, .8, .6, .7, of which the last is wrong
    assert gap.estimate == pytest.approx((0.9 + 1.6 + 1.8 + 1.4 - 6) / 8)
    assert gap.low >= -1 and gap.high <= 1
    of_three = check_problem([0, 2, 2], np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0, 0.3, 0.7]]),
                             labels=[0, 1, 2])  # fmt: skip
    numbers = averages_of(of_three, 0.95)
    assert numbers["event"] is numbers["n_events"] is None
    assert numbers["mean_predicted"] == pytest.approx(0.6)
    assert numbers["observed_rate"].estimate == numbers["accuracy"].estimate == pytest.approx(2 / 3)


def test_the_effective_size_of_repeated_clusters_is_their_number():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, 50)
    y = (rng.random(50) < p).astype(int)
    rows = np.repeat(np.arange(50), 4)
    numbers = averages_of(check_problem(y[rows], p[rows], groups=rows), 0.95)
    assert numbers["n_clusters"] == 50
    # 200 samples, (200 - 1) / (50 - 1) from both factors m / (m - 1)
    assert numbers["effective_size"] == pytest.approx(200 * (50 / 49 * 4 / (200 / 199)) ** -1)
    alone = averages_of(check_problem(y, p, groups=np.arange(50)), 0.95)
    assert alone["effective_size"] == pytest.approx(50)


@pytest.mark.parametrize(
    ("scores", "n_ranges"),
    [
        (np.linspace(0.45, 0.55, 60), 3),  # a range has 20 samples
        (np.linspace(0.45, 0.55, 19), 1),
        (np.linspace(0.45, 0.55, 120), 6),  # 29.9 / 4 = 7.5
        (np.linspace(0.09, 0.11, 300), 6),  # 27 / 4 = 6.7
        (np.linspace(0.45, 0.55, 400), 10),  # no more
        (np.linspace(0.0005, 0.0015, 1000), 4),  # no fewer for any information
    ],
)
def test_the_number_of_ranges(scores, n_ranges):
    ranges = ranges_of_scores(scores, np.ones(len(scores)))
    assert len(ranges) == n_ranges
    information = [np.sum(scores[rows] * (1 - scores[rows])) for rows, _, _ in ranges]
    assert max(information) - min(information) < 2 * np.max(scores * (1 - scores))
    for rows, (low, high), _ in ranges:
        assert (low, high) == (scores[rows].min(), scores[rows].max())
    mirrored = ranges_of_scores(1 - scores, np.ones(len(scores)))
    for (rows, _, _), (same, _, _) in zip(ranges, mirrored[::-1], strict=True):
        assert set(rows) == set(same)


def test_ranges_with_few_samples_join_their_smaller_neighbour():
    """Levels of 25, 5, 15 and 40 samples, of equal information: the second joins the third."""
    score = np.repeat([0.1, 0.2, 0.3, 0.4], [25, 5, 15, 40])
    weight = np.repeat(1 / (np.array([25, 5, 15, 40]) * [0.09, 0.16, 0.21, 0.24]), [25, 5, 15, 40])
    ends = [ends for _, ends, _ in ranges_of_scores(score, weight)]
    assert ends == [(0.1, 0.1), (0.2, 0.3), (0.4, 0.4)]
    levels, rows = np.unique(score, return_index=True)
    counted = ranges_of_scores(levels, weight[rows] * [25, 5, 15, 40], np.array([25, 5, 15, 40]))
    assert [ends for _, ends, _ in counted] == ends


def test_places_by_hand():
    """Two levels of the score, with the exact intervals of both, and those of the class."""
    y, p = np.repeat([1, 0, 1, 0], [10, 50, 40, 20]), np.repeat([0.2, 0.7], 60)
    low, high, event = find_places(check_problem(y, p), 0.9)
    for place, outcome, score in ((low, 10 / 60, 0.2), (high, 40 / 60, 0.7)):
        assert (place.kind, place.n_samples, place.share) == ("scores", 60, 0.5)
        assert (place.mean_score, place.mean_outcome) == pytest.approx((score, outcome))
        ends = np.ravel(clopper_pearson(outcome, 60, 1 - 0.1 / 5 / 2))
        assert (place.low, place.high) == pytest.approx(ends)
        assert place.low_score == place.high_score == pytest.approx(score)
    assert (event.kind, event.label, event.n_samples, event.share) == ("class", "1", 120, 1)
    assert (event.mean_score, event.mean_outcome) == pytest.approx((0.45, 50 / 120))
    ends = np.ravel(clopper_pearson(50 / 120, 120, 1 - 0.1 / 5))
    assert (event.low, event.high) == pytest.approx(ends)
    assert (event.low_score, event.high_score) == (0, 1)
    three = np.full((30, 3), [0.5, 0.3, 0.2])
    places = find_places(check_problem(np.arange(30) % 3, three), 0.9)
    classes = [place for place in places if place.kind == "class"]
    assert [place.mean_score for place in classes] == pytest.approx([0.5, 0.3, 0.2])
    ends = np.ravel(clopper_pearson(1 / 3, 30, 1 - 0.1 / 5 / 3))
    assert (classes[1].low, classes[1].high) == pytest.approx(ends)
    assert places[0].mean_score == pytest.approx(0.5) and places[0].mean_outcome == 10 / 30


def test_parts_of_large_samples(set_sizes):
    rng = np.random.default_rng(0)
    problem = check_problem(rng.integers(3, size=60), rng.dirichlet(np.ones(3), 60))
    test, size = find_test(problem, 0)
    assert size == 60 and 0 < test.pvalue <= 1 and subsample(problem, 0) is problem
    assert omissions(problem, problem) == ()
    constant = check_problem([0, 1] * 10, np.full(20, 0.4))
    assert find_test(constant, 0)[0].pvalue > 0.05  # 10 events where 8 are forecast
    assert find_test(problem.take(np.arange(3)), 0)[1] == 3
    set_sizes(tested_entries=3 * 20)
    assert find_test(problem, 0)[1] == 20
    set_sizes(subsampled_entries=179)
    assert subsample(problem, 0) is problem  # 2,000 samples are always used
    told = omissions(problem, problem.take(np.arange(40)))
    assert "Errors by class were omitted" in told[0] and "a random 40 of the samples" in told[1]
    absent = check_problem([0, 1, 0], np.full((3, 3), 1 / 3), labels=[0, 1, 2])
    assert omissions(absent, absent) == ("No sample is of these classes: 2.",)
    no_events = check_problem([0, 0], [0.2, 0.3], labels=[0, 1])
    assert omissions(no_events, no_events) == ()


# --- Shift and slope ------------------------------------------------------------------------------


def fitted(design, x, y, weight):
    """Maximum likelihood: estimates, the inverse information and the scores of the samples."""

    def loss(theta):
        z = x + design @ theta
        return np.sum(weight * (np.logaddexp(0, z) - y * z))

    theta = minimize(loss, np.zeros(design.shape[1]), method="BFGS", options={"gtol": 1e-9}).x
    p = expit(x + design @ theta)
    information = (design * (weight * p * (1 - p))[:, None]).T @ design
    return theta, np.linalg.inv(information), design * (weight * (p - y))[:, None]


@pytest.mark.parametrize("clustered", [False, True])
def test_shift_and_slope_with_their_standard_errors(clustered):
    """The larger of both standard errors, of the model and robust; priors of .01 samples."""
    y, p = on_a_line(300, 0.4, 0.7)
    cluster = np.arange(300) // 5 if clustered else None
    result = logistic_recalibration(check_problem(y, p, groups=cluster), 0.9)
    x = logit(p)
    design = np.column_stack([np.ones(300), x - x.mean()])
    theta, inverse, scores = fitted(design, x, y, np.ones(300))
    if clustered:
        scores = scores.reshape(60, 5, 2).sum(axis=1) * np.sqrt(60 / 59)
    robust = inverse @ (scores.T @ scores) @ inverse
    errors = np.sqrt(np.maximum(np.diag(inverse), np.diag(robust)))
    for interval, value, error in zip(
        (result.shift, result.slope), theta + [0, 1], errors, strict=True
    ):
        assert interval.estimate == pytest.approx(value, abs=2e-3)
        assert interval.standard_error == pytest.approx(error, rel=2e-3)
        reach = interval.high - interval.estimate
        assert reach == pytest.approx(interval.estimate - interval.low)
        if not clustered:
            assert reach == pytest.approx(norm.ppf(0.95) * interval.standard_error)
        else:  # Student's quantile with 59 degrees of freedom
            assert reach == pytest.approx(1.6711 * interval.standard_error, rel=1e-4)
    if not clustered:
        z = x + design @ theta
        likelihoods = [np.sum(np.logaddexp(0, v) - y * v) for v in (x, z)]
        ratio = 2 * (likelihoods[0] - likelihoods[1])
        assert result.pvalue == pytest.approx(chi2.sf(ratio, 2), rel=1e-3)


def test_certain_forecasts_are_left_out_unless_one_is_wrong():
    y, p = on_a_line(200)
    certain = np.append(y, [0, 1]), np.append(p, [0.0, 1.0])
    plain, same = (logistic_recalibration(check_problem(*rows), 0.95) for rows in ((y, p), certain))
    assert same == plain
    wrong = np.append(y, [1, 1]), np.append(p, [0.0, 1.0])
    assert logistic_recalibration(check_problem(*wrong), 0.95) != plain
    assert logistic_recalibration(check_problem([0, 1], [0.0, 1.0]), 0.95) is None
    near = check_problem([0, 1, 0, 1], [0.5, 0.5 + 1e-6, 0.5, 0.5 + 1e-6])
    assert logistic_recalibration(near, 0.95) is not None


def test_gains_of_a_shift_and_of_a_slope():
    """The decrease of the log loss less half of the leverage of the residuals, to first order."""
    y, p = on_a_line(400, 0.6, 0.6)
    solved = AveragedProblem.of(check_problem(y, p))
    gains, x = gains_of(solved), logit(p)
    for gain, column in ((gains.shift, np.ones(400)), (gains.slope, x - x.mean())):
        theta, inverse, scores = fitted(column[:, None], x, y, np.ones(400))
        z = x + theta[0] * column
        leverage = inverse[0, 0] * column**2 * expit(z) * expit(-z)
        optimism = 0.5 * inverse[0, 0] * scores[:, 0] ** 2 / (1 - leverage)
        loss = [np.logaddexp(0, v) - y * v for v in (x, z)]
        assert gain == pytest.approx(np.mean(loss[0] - loss[1] - optimism), abs=1e-5)
    assert gains.whole == pytest.approx(solved.errors(LogLoss()).mean())


# --- Suspicions -----------------------------------------------------------------------------------


def sentence_of(kind, *arguments, **options):
    suspicions = find_suspicions(check_problem(*arguments, **options))
    return next((s.sentence for s in suspicions if s.kind == kind), "")


def test_the_claimed_measure_is_that_of_calibrated_forecasts():
    """Of pairs of an event and another sample, weighted by their probabilities; ties are one half.

    Of several classes it is the mean confidence.
    """
    rng = np.random.default_rng(3)
    p, y = rng.choice([0.1, 0.3, 0.8, 0.9], 400), rng.integers(2, size=400)
    higher = np.sign(p[:, None] - p[None]) / 2 + 0.5
    claimed = p @ higher @ (1 - p) / (p.sum() * (1 - p).sum())
    said = sentence_of("unrelated_labels", y, p)
    assert f"where such forecasts claim {claimed:.2f}: " in said
    score = np.stack([p, (1 - p) / 4, 3 * (1 - p) / 4], axis=1)
    said = sentence_of("unrelated_labels", rng.integers(3, size=400), score)
    assert f"where such forecasts claim {score.max(axis=1).mean():.2f}: " in said


def test_expected_samples_of_an_absent_class():
    score = np.tile([0.5, 0.3, 0.2], (60, 1))
    said = sentence_of("absent_class", np.arange(60) % 2, score, labels=[0, 1, 2])
    assert "No sample is of class 2, but about 12 were expected" in said
    # .8^n < 1e-4 from 42 samples on
    for n_samples, suspected in ((41, False), (42, True)):
        sentence = sentence_of(
            "absent_class", np.arange(n_samples) % 2, score[:n_samples], labels=[0, 1, 2]
        )
        assert bool(sentence) == suspected


def test_reversed_scores_near_a_low_rate_do_not_fit_the_other_class():
    """Their complements would be far too high."""
    rng = np.random.default_rng(0)
    p = rng.choice([0.02, 0.2], 2000)
    y = (rng.random(2000) < 0.22 - p).astype(int)
    assert not sentence_of("other_class", y, p)


def test_plain_suspicions_at_their_limits():
    right = np.where(np.arange(50) % 2, 0.9, 0.1)
    for n_samples, suspected in ((49, False), (50, True)):
        y = np.arange(n_samples) % 2
        assert bool(sentence_of("every_label_right", y, right[:n_samples])) == suspected
    assert not sentence_of("every_label_right", [1] * 50, [0.9] * 50, labels=[0, 1])
    assert "2 labels were given probability 0" in sentence_of(
        "infinite_log_loss", [0, 1, 1, 1], [1.0, 0.0, 0.5, 0.6]
    )
    assert "1 label was given" in sentence_of("infinite_log_loss", [0, 1, 1], [0.4, 0.0, 0.5])
    rng = np.random.default_rng(0)
    y = (rng.random(2000) < 0.3).astype(int)
    score = (0.3 + 0.5 * (y - 0.3) * rng.random(2000)) / 100
    for largest, suspected in ((0.0101, True), (0.0102, False)):
        assert bool(sentence_of("percent_scale", y, score * largest / score.max())) == suspected


# --- Decisions and advice -------------------------------------------------------------------------


def test_the_moved_threshold_and_the_share_of_ties():
    """Calibrated is .5 at .2 and 1 at .4: a threshold of .7 moves between both scores."""
    y = np.repeat([0, 1, 0, 1, 1], [90, 10, 50, 50, 100])
    p = np.repeat([0.1, 0.2, 0.4], 100)
    options = {"confidence_level": 0.95, "random_state": 0, "n_jobs": None}
    finding = find_decision(check_problem(y, p), None, 0.7, None, **options)
    assert finding.moved == pytest.approx(0.3, abs=1e-9) and finding.tied == 0
    assert finding.threshold == 0.7 and finding.costs == ()
    assert finding.expected_cost.estimate == pytest.approx(0.3 * 160 / 300)  # nobody is treated
    weight = np.repeat([1.0, 2.0, 1.0], 100)
    tied = find_decision(check_problem(y, p, sample_weight=weight), None, 0.2, None, **options)
    assert tied.tied == pytest.approx(0.5)
    costs = find_decision(check_problem(y, p), None, None, [[0, 1], [4, 0]], **options)
    assert costs.threshold is None and costs.costs == ((0, 1), (4, 0))


def decision(threshold=0.2, costs=(), **changes):
    zero = around(0.0, 0.0)
    parts = {"expected_cost": around(0.0248, 0.0002), "calibration": zero, "grouping": None,
             "rest": zero, "changed": 0.0, "moved": None, **changes}  # fmt: skip
    return advice_on_decisions(DecisionFinding(threshold, costs, **parts))


@pytest.mark.parametrize(
    ("threshold", "words"),
    [
        (0.2, "a miss costs as much as 4 false alarms; the decisions cost 124 [123, 125] false"),
        (0.5, "a miss and a false alarm cost the same; the decisions cost 49.6 [49.2, 50.0] false"),
        (0.8, "a false alarm costs as much as 4 misses; the decisions cost 124 [123, 125] misses"),
        (None, "They cost 24.8 [24.6, 25.0] per 1,000 samples, in the units of the given costs."),
    ],
)
def test_units_of_costs(threshold, words):
    assert words in decision(threshold)


def test_amounts_of_savings():
    assert "Recalibration would save 50.0 [45.0, 55.0]." in decision(calibration=around(0.01, 1e-3))
    assert "at most 0.50" in decision(calibration=MeanInterval(0.0, -1e-3, 1e-4, 1e-3))
    assert "it would save at most" in decision(None, ((0, 1), (1, 0)))
    assert "it would save at most" not in decision(None, ((0, 1, 1), (1, 0, 1), (1, 1, 0)))
    saves = {"calibration": around(0.01, 1e-3), "grouping": around(0.02, 1e-3)}
    assert "save beyond that at least 100 [95.0, 105]." in decision(**saves)
    saves["calibration"] = around(0.0, 1e-3)
    assert "features would save at least 100 [95.0, 105]." in decision(**saves)
    assert "Forecasts that equal the threshold count as below it: 25 %." in decision(tied=0.25)
    assert "move the threshold to 0.123" in decision(calibration=around(0.01, 1e-3), moved=0.1234)


@pytest.mark.parametrize(
    ("labels", "forecast", "changes", "reason"),
    [
        ([0, 1] * 10, "mixed", {}, ""),
        ([0, 1] * 9 + [1, 1], "mixed", {}, "few_labels"),
        ([0, 1] * 10, "right", {}, "separated"),
        ([0, 1] * 10, "reversed", {}, "separated"),
        ([0, 1] * 10, "mixed", {"miscalibrated": False}, "calibrated"),
        ([0, 1] * 10, "mixed", {"gain": 0.0}, "no_gain"),
        ([0, 1] * 10, "mixed", {"chosen": "identity"}, "no_gain"),
        ([0, 1] * 10, "mixed", {"invalidates": True}, "input"),
        ([0, 1] * 10, "mixed", {"stops_advice": True}, "input"),
    ],
)
def test_reasons_against_a_map(labels, forecast, changes, reason):
    y = np.array(labels)
    p = {"mixed": np.linspace(0.1, 0.9, 20), "right": 0.3 + 0.4 * y, "reversed": 0.7 - 0.4 * y}
    changes = {"miscalibrated": True, "gain": 0.01, "chosen": "map", "invalidates": False,
               "stops_advice": False, **changes}  # fmt: skip
    gain = MeanInterval(0.02, changes["gain"], 0.03, 0.01)
    selection = SimpleNamespace(chosen=changes["chosen"], names=("identity", "map"), gain=gain)
    suspicion = SimpleNamespace(**{k: changes[k] for k in ("invalidates", "stops_advice")})
    findings = SimpleNamespace(suspicions=(suspicion,), miscalibrated=changes["miscalibrated"],
                               advice=Advice(None, "", selection))  # fmt: skip
    advice = choose_advice(findings, check_problem(y, p[forecast]))
    assert (advice.reason, advice.recommended) == (reason, None if reason else changes["chosen"])
