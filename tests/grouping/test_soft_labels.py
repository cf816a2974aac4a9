"""Label distributions and votes of annotators in place of labels."""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import skcalib as s
from skcalib.data.notions import Multilabel
from skcalib.data.problem import check_problem
from skcalib.scores import Brier, Elementary, LogLoss
from skcalib.stats.means import mean_interval

SCORES = {"brier": Brier(), "log": LogLoss()}
PARTS = ("expected_loss", "calibration", "grouping", "irreducible")


def world(n_samples, n_classes=3, *, power=0.7, concentration=8.0, seed=0):
    """Forecasts S, calibrated scores C = softmax(power log S), and Q ~ Dirichlet with mean C."""
    rng = np.random.default_rng(seed)
    scores = np.exp(1.5 * rng.normal(size=(n_samples, n_classes)))
    forecast = scores / scores.sum(axis=1, keepdims=True)
    calibrated = forecast**power / np.sum(forecast**power, axis=1, keepdims=True)
    drawn = np.maximum(rng.standard_gamma(concentration * calibrated), 1e-300)
    return forecast, calibrated, drawn / drawn.sum(axis=1, keepdims=True), rng


def votes_of(shares, n_votes, rng):
    """Counts of votes drawn from label distributions; `n_votes` of each row."""
    n_votes = np.broadcast_to(n_votes, len(shares))
    below = shares * (1 - 1e-12)
    return np.array([rng.multinomial(m, q) for m, q in zip(n_votes, below, strict=True)])


def expanded(forecast, votes):
    """Each row once for every vote, with its label and a weight of one over the votes."""
    rows, classes = np.nonzero(votes)
    return forecast[rows], classes, votes[rows, classes] / votes.sum(axis=1)[rows]


#: Forecasts, label distributions, and two to five votes that are drawn from each.
FORECAST, _, SHARES, RNG = world(300)
VOTES = votes_of(SHARES, 2 + np.arange(300) % 4, RNG)
LAST_TWO = np.array([[1, 0], [0, 1], [0, 1]])  # the last two classes as one


def test_counts_shares_one_column_and_named_columns_are_the_same():
    error, frequencies = s.proper_calibration_error, VOTES / VOTES.sum(axis=1, keepdims=True)
    for loss in SCORES:
        assert error(VOTES, FORECAST, loss=loss) == error(frequencies, FORECAST, loss=loss)
    forecast, _, shares, _ = world(200, 2)
    whole = error(shares, forecast)
    assert error(shares, forecast[:, 1]) == pytest.approx(whole, rel=1e-12)
    assert error(shares, forecast[:, 0], pos_label=0) == pytest.approx(whole, rel=1e-9)
    names = ["ant", "bee", "cat"]
    whole, frame = error(VOTES, FORECAST), pd.DataFrame(VOTES, columns=names)
    assert check_problem(frame, FORECAST, soft=True).classes.tolist() == names
    assert check_problem(VOTES, FORECAST, soft=True).classes.tolist() == [0, 1, 2]
    assert error(frame, pd.DataFrame(FORECAST, columns=names)) == whole
    assert error(VOTES, FORECAST, labels=names) == whole
    swapped = pd.DataFrame(FORECAST, columns=names[::-1])
    for arguments, options, words in (
        ((frame, swapped), {}, "columns of y_proba are named"),
        ((VOTES, FORECAST), {"labels": names[:2]}, "labels lists 2 classes but y_true has 3"),
    ):
        with pytest.raises(ValueError, match=words):
            error(*arguments, **options)


def test_refusals():
    other_rows = [[1, 0, 0]] * 3
    for y, words in (
        (np.eye(3)[[0, 1, 2, 1]], "one label per sample.*argmax.*Multilabel.*label distributions"),
        ([[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]], "[Ff]or several labels.*notion=Multilabel"),
        ([[0.5, 0.4, 0.3], *other_rows], "row 0 sums to 1.2"),
        ([[2, 0, 0], [0, 0, 0], *other_rows[1:]], "no vote in row 1"),
        ([[2, -1, 0], *other_rows], "value -1"),
        ([[0.5, np.nan, 0.5], *other_rows], "value nan"),
        ([[2, 1], [0, 1], [1, 0], [1, 0]], "y_true has 2 columns and y_proba has 3"),
        ([[2, 1, 0], [0, 1, 0]], "same number of samples: y_true has 2"),
    ):
        with pytest.raises(ValueError, match=words):
            s.proper_calibration_error(y, np.full((4, 3), 1 / 3))
    votes, shares = [[1, 1], [2, 0]], [[0.5, 0.5], [1, 0]]
    for y, options, words in (
        ([0, 1], {}, "one label per sample, which does not show"),
        (votes, {"votes": 2}, "votes is for label distributions"),
        (shares, {"votes": 3}, "must be whole numbers"),
        (shares, {"votes": [2, 2, 2]}, "votes must be a number"),
        (shares, {"votes": 0}, "votes must be at least 1"),
        (shares, {"votes": [2, 0]}, "votes must be at least 1"),
        (votes, {"loss": Elementary(0.3)}, "same decision"),
        (votes, {"notion": Multilabel()}, "votes for and against"),
        ([[1, 0], [0, 1]], {}, "argmax"),
    ):
        with pytest.raises(ValueError, match=words):
            s.soft_label_decomposition(y, [0.2, 0.7], **options)


def test_functions_of_single_labels_refuse():
    problem, error = check_problem(VOTES, FORECAST, soft=True), s.proper_calibration_error
    proba, labels, counts = [[0.3, 0.7], [0.6, 0.4], [0.2, 0.8]], [1, 0, 1], [[1, 2], [2, 1]]
    turned = "holds probabilities and {} only 0 and 1".format
    tree = s.GroupingLossEstimator(partitioner=DecisionTreeClassifier(max_depth=2))
    line = s.GroupingLossEstimator(method="risk", partitioner=LogisticRegression())
    single = "soft labels, and this function needs one label"
    for_proper = "Label distributions and annotator counts are for pr"
    for function, *arguments, words in (
        (s.calibration_error, VOTES, FORECAST, for_proper),
        (s.ks_calibration_error, VOTES, FORECAST, for_proper),
        (s.kernel_calibration_error, VOTES, FORECAST, for_proper),
        (s.kernel_calibration_test, VOTES, FORECAST, for_proper),
        (s.significance.consistency_test, VOTES, FORECAST, for_proper),
        (s.corp_decomposition, VOTES, FORECAST, for_proper),
        (s.ReliabilityDisplay.from_predictions, VOTES, FORECAST, for_proper),
        (s.CalibrationReport.from_predictions, VOTES, FORECAST, for_proper),
        (s.kernel_calibration_error, problem, FORECAST, single),
        (s.calibration_error, problem, FORECAST, single),
        (error, proba, labels, turned("y_proba")),
        (error, proba, np.eye(2)[labels], turned("y_proba")),
        (s.PlattScaling().fit, labels, proba, turned("X")),
        (error, [0.2, 0.7, 1.0], [0.2, 0.7, 0.9], "continuous values"),
        (error, [[np.inf, 1], [1, 0]], [0.2, 0.7], "must hold one label per sample"),
        (partial(error, smoother=LogisticRegression()), VOTES, FORECAST, "smooths one-hot labels"),
        (tree.fit, SHARES, VOTES, FORECAST, "cannot be fitted to soft labels"),
        (line.fit, SHARES, VOTES, FORECAST, "cannot be fitted to soft labels"),
        (s.LabelShiftRecalibrator().fit, proba[:2], counts, "needs one label per"),
        (s.TemperatureScaling().fit, FORECAST[:2], counts, "y has 2 columns and X"),
    ):
        with pytest.raises(ValueError, match=words):
            function(*arguments)


@pytest.mark.parametrize("loss", SCORES)
def test_the_loss_is_the_mean_over_votes(loss):
    rows, labels, weight = expanded(FORECAST, VOTES)
    soft = s.calibration_upper_bound(VOTES, FORECAST, loss=loss)
    single = s.calibration_upper_bound(labels, rows, loss=loss, sample_weight=weight)
    assert soft == pytest.approx(single)
    terms = s.score_decomposition(VOTES, FORECAST, loss=loss)
    single = s.score_decomposition(labels, rows, loss=loss, sample_weight=weight)
    assert_allclose([terms.loss, terms.uncertainty], [single.loss, single.uncertainty])
    assert terms.loss == pytest.approx(terms.calibration + terms.refinement, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("notion", ["canonical", "top_label"])
def test_the_calibration_error_is_that_of_the_world(notion):
    """Mean over 12 seeds of votes, and of exact distributions, within 4 standard errors."""
    values = {2: [], 5: [], None: []}
    for seed in range(12):
        forecast, calibrated, shares, rng = world(500, seed=seed)
        notions = s.data.notions.NOTIONS[notion]()
        pairs = notions.problems(forecast, calibrated)
        truth = np.mean([Brier().divergence(c, f).mean() for f, c in pairs])
        for n_votes, errors in values.items():
            y = shares if n_votes is None else votes_of(shares, n_votes, rng)
            errors.append(s.proper_calibration_error(y, forecast, notion=notion) - truth)
    for errors in values.values():
        assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(12) + 2e-4
    # More votes, less noise; distributions have no noise of votes.
    assert np.std(values[2]) > np.std(values[5]) > np.std(values[None])


def test_intervals_of_the_error():
    for metric in ("brier", "log"):
        interval = s.calibration_error_interval(VOTES, FORECAST, metric=metric)
        estimator = s.CalibrationErrorEstimator(loss=metric).fit(FORECAST, VOTES)
        assert (interval.low, interval.high) == estimator.confidence_interval_
    bound = s.calibration_error_interval(VOTES, FORECAST, metric="upper_bound")
    assert bound.low < s.calibration_upper_bound(VOTES, FORECAST) < bound.high
    with pytest.raises(ValueError, match="Label distributions and annotator counts are for"):
        s.calibration_error_interval(VOTES, FORECAST, metric="l1")
    many = votes_of(SHARES, np.full(300, 100), np.random.default_rng(0))
    assert s.soft_label_decomposition(many, FORECAST, loss="log").grouping.high < 0.2
    decompositions = [
        s.soft_label_decomposition(VOTES, FORECAST, confidence_level=c) for c in (0.5, 0.95)
    ]
    for name in (*PARTS, "excess"):
        narrow, wide = (getattr(decomposition, name) for decomposition in decompositions)
        assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low), name


def test_estimators_take_a_fitted_classifier():
    model = LogisticRegression().fit(SHARES, VOTES.argmax(axis=1))
    proba = model.predict_proba(SHARES)
    of_forecasts = s.CalibrationErrorEstimator().fit(proba, VOTES)
    of_classifier = s.CalibrationErrorEstimator(model).fit(SHARES, VOTES)
    assert of_classifier.calibration_error_ == of_forecasts.calibration_error_
    low, high = of_classifier.confidence_interval_
    assert low <= of_classifier.calibration_error_ <= high
    options = {"method": "risk", "n_permutations": 0}
    grouping = s.GroupingLossEstimator(model, **options).fit(SHARES, VOTES)
    same = s.GroupingLossEstimator(**options).fit(SHARES, VOTES, y_proba=proba)
    assert grouping.grouping_loss_ == same.grouping_loss_
    tree = DecisionTreeClassifier(max_depth=3).fit(SHARES, VOTES.argmax(axis=1))
    missing = np.where(SHARES > 0.9, np.nan, SHARES)
    assert 0 < s.CalibrationErrorEstimator(tree).fit(missing, VOTES).calibration_error_ < 1
    regions = s.GroupingLossEstimator(method="partition", partitioner="kmeans", n_bins=3)
    regions.fit(SHARES, VOTES @ LAST_TWO, y_proba=FORECAST @ LAST_TWO)
    assert regions.grouping_loss_ > -1 and len(regions.regions_) > 5
    with pytest.raises(ValueError, match="cannot fit a classifier to labels of shape"):
        s.CalibrationErrorEstimator(LogisticRegression(), cv=3).fit(SHARES, VOTES)
    few = VOTES[:90], FORECAST[:90]
    (terms,) = s.DecompositionDisplay.from_predictions(*few, X=SHARES[:90]).terms
    assert terms.loss == pytest.approx(s.score_decomposition(*few).loss)
    plt.close("all")


@pytest.mark.parametrize("method", ["partition", "risk"])
def test_the_grouping_loss_is_a_lower_bound_near_the_truth(method):
    forecast, calibrated, shares, rng = world(1500)
    truth = Brier().divergence(shares, calibrated).mean()
    for y in (shares, votes_of(shares, 5, rng)):
        estimator = s.GroupingLossEstimator(method=method, random_state=0)
        bound = estimator.fit(shares, y, y_proba=forecast).grouping_loss_
        assert 0.3 * truth < bound < 1.1 * truth
    noise = estimator.fit(rng.normal(size=(1500, 2)), y, y_proba=forecast)
    assert -0.5 * truth < noise.grouping_loss_ < 0.1 * truth


@pytest.mark.parametrize(
    "recalibrator",
    [
        s.TemperatureScaling(), s.TemperatureScaling(loss="brier"), s.PlattScaling(),
        s.recalibration.BiasCorrectedTemperatureScaling(),
        s.recalibration.EnsembleTemperatureScaling(), s.BetaCalibration(),
        s.VectorScaling(shrinkage=0), s.recalibration.QuadraticScaling(),
        s.recalibration.LabelNoiseScaling(),
        s.IsotonicRecalibrator(), s.HistogramBinning(n_bins=4, strategy="uniform"),
        s.recalibration.KernelRecalibrator(bandwidth=0.05), s.recalibration.LabelFrequency(),
        s.IdentityRecalibrator(),
    ],
    ids=repr,
)  # fmt: skip
def test_recalibrators_fit_as_to_all_votes(recalibrator):
    """A loss that is linear in the label is the weighted loss of the votes one by one."""
    rows, labels, weight = expanded(FORECAST, VOTES)
    soft = recalibrator.fit(FORECAST, VOTES).predict_proba(FORECAST)
    losses = recalibrator.loss_before_, recalibrator.loss_after_
    single = recalibrator.fit(rows, labels, sample_weight=weight).predict_proba(FORECAST)
    assert_allclose(soft, single, atol=1e-4)
    assert_allclose(losses, (recalibrator.loss_before_, recalibrator.loss_after_), atol=1e-6)


@pytest.mark.parametrize(
    "recalibrator",
    [
        s.recalibration.MatrixScaling(), s.DirichletCalibration(), s.VectorScaling(),
        s.recalibration.ModelAverageScaling(),
        s.SplineScaling(), s.VennAbersRecalibrator(),
    ],
    ids=repr,
)  # fmt: skip
def test_recalibrators_with_a_penalty_learn_the_map(recalibrator):
    forecast, calibrated, shares, rng = world(2000)
    recalibrated = recalibrator.fit(forecast, votes_of(shares, 5, rng)).predict_proba(forecast)
    before, after = (Brier().divergence(calibrated, p).mean() for p in (forecast, recalibrated))
    assert after < 0.1 * before


def test_parts_add_up():
    for y, loss, notion in (
        (VOTES, "brier", "classwise"),
        (VOTES, "log", "top_label"),
        (VOTES, "log", "canonical"),
        (SHARES, "spherical", "canonical"),
    ):
        decomposition = s.soft_label_decomposition(y, FORECAST, loss=loss, notion=notion)
        whole, *parts = (getattr(decomposition, name).estimate for name in PARTS)
        assert whole == pytest.approx(sum(parts), abs=1e-12)
        assert decomposition.excess.estimate == pytest.approx(parts[0] + parts[1], abs=1e-12)
        error = s.proper_calibration_error(y, FORECAST, loss=loss, notion=notion)
        assert decomposition.calibration.estimate == pytest.approx(error, abs=1e-12)


def test_intervals_by_hand():
    """Brier: the entropy of m votes is m / (m - 1) times that of their shares."""
    weight, m = np.random.default_rng(1).uniform(0.5, 2, 300), VOTES.sum(axis=1)
    q = VOTES / m[:, None]
    loss, entropy = ((q - FORECAST) ** 2).sum(1) + 1 - (q**2).sum(1), 1 - (q**2).sum(1)
    entropy *= m / (m - 1)
    options = {"sample_weight": weight, "confidence_level": 0.9}
    terms = s.soft_label_decomposition(VOTES, FORECAST, **options)
    for part, values in (
        (terms.expected_loss, loss),
        (terms.irreducible, entropy),
        (terms.excess, loss - entropy),
    ):
        expected = mean_interval(values, weight, 0.9)
        limits = part.low, part.estimate, part.high
        assert limits == pytest.approx((expected.low, expected.estimate, expected.high), rel=1e-9)
    single = np.where(np.arange(300)[:, None] % 3 == 0, np.eye(3)[VOTES.argmax(axis=1)], VOTES)
    terms, some = s.soft_label_decomposition(single, FORECAST, **options), np.arange(300) % 3 > 0
    mean = np.average(entropy[some], weights=weight[some])
    values = np.full(300, mean)
    values[some] += weight.sum() / weight[some].sum() * (entropy[some] - mean)
    expected = mean_interval(values, weight, 0.9)
    assert terms.n_measured == 200 and terms.irreducible.low == pytest.approx(expected.low)
    assert terms.irreducible.high == pytest.approx(expected.high, rel=1e-9)


def test_irreducible_by_hand():
    """m / (m - 1) times 1 - |q|^2 for Brier; a jackknife of Shannon's entropy for the log loss."""
    votes = np.array([[2, 1, 0], [1, 0, 0], [1, 1, 0]])
    forecast = np.full((3, 3), 1 / 3)
    decomposition = s.soft_label_decomposition(votes, forecast)
    assert decomposition.irreducible.estimate == pytest.approx((1.5 * 4 / 9 + 2 * 0.5) / 2)
    assert decomposition.n_measured == 2
    three = -(2 * np.log(2 / 3) + np.log(1 / 3)) / 3
    jackknife = 3 * three - 2 * (2 / 3 * np.log(2))  # one of the two like votes is left out
    decomposition = s.soft_label_decomposition(votes, forecast, loss="log")
    assert decomposition.irreducible.estimate == pytest.approx((jackknife + 2 * np.log(2)) / 2)


def test_limits_allow_for_the_bias_of_entropies():
    """Two votes: the estimate is 2 log 2 where they differ. A perfect forecast has no grouping."""
    q = np.linspace(0, 1, 20_001)[1:-1]
    bias = 4 * np.log(2) * q * (1 - q) - LogLoss().entropy(np.column_stack([q, 1 - q]))
    _, _, shares, rng = world(400)
    two = shares[:, :2] / shares[:, :2].sum(axis=1, keepdims=True)
    votes = votes_of(two, 2, rng)
    decomposition = s.soft_label_decomposition(votes, two, loss="log")
    part, reach = decomposition.irreducible, 1.966 * decomposition.irreducible.standard_error
    assert part.high - part.estimate == pytest.approx(reach - bias.min(), abs=2e-4)
    assert part.estimate - part.low == pytest.approx(reach + bias.max(), abs=2e-4)
    assert decomposition.excess.high - decomposition.excess.estimate > bias.max()
    for n_votes in (2, 5):
        decomposition = s.soft_label_decomposition(
            votes_of(shares, n_votes, rng), shares, loss="log"
        )
        assert decomposition.grouping.low == 0 < decomposition.grouping.high
        low, high = decomposition.irreducible.low, decomposition.irreducible.high
        assert low < LogLoss().entropy(shares).mean() < high
    with pytest.warns(UserWarning, match=r"Entropies of Spherical\(\) have an unknown bias"):
        decomposition = s.soft_label_decomposition(votes, two, loss="spherical")
    assert np.isnan(
        [decomposition.grouping.low, decomposition.excess.high, decomposition.irreducible.low]
    ).all()
    assert np.isfinite([decomposition.grouping.estimate, decomposition.expected_loss.low]).all()


def test_exact_distributions_and_known_votes():
    forecast, _, shares, rng = world(500)
    decomposition = s.soft_label_decomposition(shares, forecast, loss="log")
    assert decomposition.irreducible.estimate == pytest.approx(LogLoss().entropy(shares).mean())
    excess = LogLoss().divergence(shares, forecast).mean()
    assert decomposition.excess.estimate == pytest.approx(excess)
    votes = votes_of(shares, 4, rng)
    counted = s.soft_label_decomposition(votes, forecast)
    for number in (4, np.full(500, 4)):
        assert counted == s.soft_label_decomposition(votes / 4, forecast, votes=number)
    single = np.float32(votes_of(shares, 9999, rng) / 9999)  # of 9999 votes they are less exact
    assert s.soft_label_decomposition(single, forecast, votes=9999).grouping.estimate > 0


def test_weights_and_jobs():
    selected = np.arange(300) % 3 > 0
    weighted = s.soft_label_decomposition(
        VOTES, FORECAST, sample_weight=selected, notion="classwise"
    )
    again = s.soft_label_decomposition(
        VOTES[selected], FORECAST[selected], notion="classwise", n_jobs=2
    )
    for name in PARTS:
        part, part_again = (getattr(record, name) for record in (weighted, again))
        assert_allclose(
            [part.estimate, part.low, part.high],
            [part_again.estimate, part_again.low, part_again.high],
        )


def test_an_impossible_vote_has_an_infinite_log_loss():
    forecast = np.array([[0.0, 1.0], [0.3, 0.7], [0.5, 0.5], [0.2, 0.8]] * 10)
    votes = np.array([[1, 4], [2, 3], [3, 2], [1, 4]] * 10)
    decomposition = s.soft_label_decomposition(votes, forecast, loss="log")
    assert decomposition.expected_loss.estimate == decomposition.calibration.estimate == np.inf
    assert np.isfinite([decomposition.grouping.estimate, decomposition.irreducible.estimate]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_classes", "n_votes", "loss"),
    [(3, 2, "brier"), (3, None, "brier"), (10, 5, "brier"), (10, 20, "brier"), (3, 20, "log")],
)
def test_coverage(n_classes, n_votes, loss):
    """Intervals of 95 % cover the truth in 87 of 100 data sets or more (p < 1e-3 for 95 %)."""
    score, n_sets = SCORES[loss], 100
    forecast, calibrated, shares, _ = world(200_000, n_classes, seed=10**6)
    truth = {
        "expected_loss": score.loss(shares, forecast).mean(),
        "calibration": score.divergence(calibrated, forecast).mean(),
        "grouping": score.divergence(shares, calibrated).mean(),
        "irreducible": score.entropy(shares).mean(),
    }
    covered = dict.fromkeys(PARTS, 0)
    for seed in range(n_sets):
        forecast, _, shares, rng = world(1000, n_classes, seed=seed)
        y = shares if n_votes is None else votes_of(shares, n_votes, rng)
        decomposition = s.soft_label_decomposition(y, forecast, loss=loss)
        for name in PARTS:
            part = getattr(decomposition, name)
            covered[name] += part.low <= truth[name] <= part.high
    assert min(covered.values()) >= 87
