"""The law checkers accept what obeys the laws and reject planted defects, by name."""

from contextlib import contextmanager

import numpy as np
import pytest
from conftest import Quartic
from planted import altered, planted
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from skcalib.data.notions import Classwise, Notion, TopK, TopLabel
from skcalib.scores import Brier, DawidSebastiani, LogLoss, ProperScore, Spherical, TotalVariation
from skcalib.smoothers import (
    CrossFitted,
    DirichletKernel,
    IsotonicSmoother,
    NearestNeighborsSmoother,
    QuantileBins,
    Smoother,
    UniformBins,
)
from skcalib.testing import check_notion, check_score, check_smoother, estimators, formulas


class CostWeighted(ProperScore):
    """A quadratic score that weighs the classes: not symmetric, and not separable."""

    infimum = -3.0

    def entropy(self, forecast):
        return -np.sum(self._costs(forecast) * np.square(forecast), axis=-1)

    def gradient(self, forecast):
        return -2 * self._costs(forecast) * forecast

    def _costs(self, forecast):
        return np.where(np.arange(np.shape(forecast)[-1]) == 0, 3.0, 1.0)


class GlobalMean(Smoother):
    """Every sample gets the mean of the others; the base class holds out by folds."""

    projection = True

    def fit(self, forecast, target, sample_weight=None):
        self._store(forecast, target, sample_weight)
        return self

    def smooth(self, values=None):
        values = self._values(values)
        return np.zeros_like(values) + np.average(values, axis=0, weights=self.weight_)

    def predict(self, forecast):
        return np.tile(self.smooth()[0], (len(forecast), 1))


class Evens(Notion):
    """Even columns against odd columns."""

    def problems(self, forecast, target):
        yield tuple(np.stack([a[:, ::2].sum(1), a[:, 1::2].sum(1)], 1) for a in (forecast, target))


def test_accepts_what_obeys_the_laws():
    for score in (Quartic(), CostWeighted()):
        check_score(score)
    for smoother in (GlobalMean(), CrossFitted(RandomForestClassifier(3, max_depth=2), cv=3)):
        check_smoother(smoother, n_classes=(2,))
    check_notion(Evens())
    check_smoother(IsotonicSmoother(), n_classes=(2, 3))
    with pytest.raises(AssertionError, match="refuses every number"):
        check_smoother(IsotonicSmoother(), n_classes=(3, 4))


ConvexEntropy = planted(
    altered(Brier, entropy=np.negative, gradient=np.negative), infimum=None, separable=None
)
#: The classical improper score 1 - s_y, with what entropy it implies.
LinearScore = planted(
    ProperScore,
    entropy=lambda self, s: Brier().entropy(s),
    gradient=lambda self, s: Brier().gradient(s),
    loss=lambda self, q, s: 1 - np.sum(q * s, axis=-1),
)
#: Proper, but not strictly: many forecasts are as good as the truth.
ZeroOne = planted(
    ProperScore,
    infimum=0.0,
    entropy=lambda self, s: 1 - np.max(s, axis=-1),
    gradient=lambda self, s: -np.eye(np.shape(s)[-1])[np.argmax(s, axis=-1)],
)
ShiftedDivergence = altered(Brier, divergence=lambda answer: answer + 0.1)
DistanceForDivergence = planted(
    Brier, divergence=lambda self, q, s: TotalVariation().divergence(q, s)
)
CarelessLog = planted(
    ProperScore,
    infimum=0.0,
    entropy=lambda self, s: -np.sum(s * np.log(s), axis=-1),
    gradient=lambda self, s: -np.log(s) - 1,
)
NotJointlyConvex = planted(Spherical, jointly_convex=True)


REJECTED_SCORES = [
    (ConvexEntropy(), "concave"),
    (altered(LogLoss, gradient=lambda answer: 1.01 * answer)(), "gradient is the gradient"),
    # an epsilon inside the logarithm: H and its gradient no longer belong together
    (planted(LogLoss, gradient=lambda self, s: -np.log(s + 1e-3) - 1)(), "is the gradient"),
    (LinearScore(), r"L\(q, q\) = H\(q\)"),
    (ZeroOne(), "zero if and only if|strictly monotone"),
    (ShiftedDivergence(), "divergence is L"),
    (DistanceForDivergence(), "divergence is L"),
    (
        planted(Brier, loss=lambda self, q, s: Brier.loss(self, q**2, s))(),
        "affine in the target",
    ),
    (CarelessLog(), "exactly 0 and 1|Propriety"),
    (planted(Spherical, infimum=-0.5)(), "infimum"),
    (planted(Spherical, infimum=0.2)(), "infimum"),
    (planted(Spherical, separable=True)(), "separable"),
    (NotJointlyConvex(), "jointly convex"),
    (
        planted(Brier, entropy=lambda self, s: -np.multiply(s, 0.5, out=s)[..., 0])(),
        "not modified",
    ),
    (altered(Brier, entropy=lambda answer: answer[..., None])(), "shape"),
    (planted(Brier, entropy=lambda self, s: 1 / 0)(), "division by zero"),
    (planted(Brier, __hash__=None, __eq__=lambda *both: False)(), "equals its copies"),
    (planted(Brier, domain="sphere")(), "domain"),
    (
        altered(DawidSebastiani, gradient=lambda answer: answer * [0.5, 1.0])(),
        "is the gradient",
    ),
    (TotalVariation(), "ProperScore"),
    (Brier, "ProperScore"),
    ("brier", "ProperScore"),
]


@pytest.mark.parametrize(
    ("score", "sentence"),
    [
        (LinearScore(), "Propriety"),
        (ZeroOne(), "The divergence is"),
        (DistanceForDivergence(), "Pythagoras"),
        (ShiftedDivergence(), "Pythagoras"),
        (CarelessLog(), "Probabilities of exactly 0 and 1"),
        (ConvexEntropy(), "Propriety"),
        (NotJointlyConvex(), "If jointly convex"),
    ],
)
def test_each_law_of_scores_bites_by_itself(monkeypatch, score, sentence):
    """Propriety, Pythagoras and the rest do not live off the laws that come before them."""
    broken = []

    @contextmanager
    def recorded(subject, sentence):
        try:
            yield
        except (AssertionError, RuntimeWarning):
            broken.append(sentence)

    monkeypatch.setattr(formulas, "law", recorded)
    with np.errstate(all="ignore"):
        check_score(score, n_classes=(2,))
    assert any(name.startswith(sentence) for name in broken)


LeaksItself = planted(QuantileBins, smooth_held_out=lambda self, values=None: self.smooth(values))
LeakingFolds = planted(
    CrossFitted, smooth_held_out=lambda self, values=None: self.predict(self.forecast_)
)
NotLinear = planted(
    UniformBins,
    smooth=lambda self, values=None: UniformBins.smooth(self, np.abs(self._values(values))),
)
CountsWeights = planted(
    NearestNeighborsSmoother,
    predict=lambda self, s: (
        NearestNeighborsSmoother.predict(self, s) * np.minimum(1, self.weight_.sum() / 30)
    ),
)


def ignoring_weights(base):
    return planted(base, fit=lambda self, s, t, w=None: base.fit(self, s, t))


BatchMatters = altered(UniformBins, predict=lambda answer: 0.5 * answer + 0.5 * answer.mean(axis=0))


class LeaksALittle(NearestNeighborsSmoother):
    def smooth_held_out(self, values=None):
        values = self._values(values)
        return 0.999 * super().smooth_held_out(values) + 0.001 * values


class LeaksThroughTuning(DirichletKernel):
    """The bandwidth follows the labels, those of the sample itself included."""

    def fit(self, forecast, target, sample_weight=None):
        super().fit(forecast, target, sample_weight)
        self.bandwidth_ = 0.01 + 0.01 * float(np.mean(self.target_[:, 0]))
        return self


class Overshoots(UniformBins):
    reach = 1.5

    def smooth(self, values=None):
        values = self._values(values)
        centre = values if self.reach < 1 else values.mean(axis=0)
        return centre + self.reach * (super().smooth(values) - centre)


NotIdempotent = planted(Overshoots, reach=0.5)


class OrderMatters(UniformBins):
    projection = False

    def _cell_keys(self, forecast):
        keys = super()._cell_keys(forecast)
        keys[: len(keys) // 2] += 100
        return keys


class Remembers(UniformBins):
    """A second fit still knows the first."""

    def fit(self, forecast, target, sample_weight=None):
        super().fit(forecast, target, sample_weight)
        self.shift_ = getattr(self, "shift_", 0.0) + 0.1
        return self

    def predict(self, forecast):
        return (1 - self.shift_) * super().predict(forecast) + self.shift_ / self.target_.shape[1]


REJECTED_SMOOTHERS = [
    (LeaksItself(4), "Held out"),
    (LeaksALittle(5), "Held out"),
    (LeaksThroughTuning(0.1), "Held out"),
    (LeakingFolds(LogisticRegression()), "Held out"),
    (altered(UniformBins, smooth=lambda answer: 0.99 * answer)(4), "probability vectors"),
    (Overshoots(4), "probability vectors|lowest and highest"),
    (NotIdempotent(4), "idempotent"),
    (ignoring_weights(UniformBins)(4), "no weight has any influence"),
    (CountsWeights(5), "Weights are averaging weights"),
    (ignoring_weights(NearestNeighborsSmoother)(5), "no weight has any influence"),
    (ignoring_weights(DirichletKernel)(0.2), "no weight has any influence"),
    (NotLinear(4), "linear"),
    (OrderMatters(4), "Reordering|depends on that forecast only"),
    (BatchMatters(4), "depends on that forecast only"),
    (altered(UniformBins, fit=lambda fitted: None)(4), "return self"),
    (altered(UniformBins, fit=lambda fitted: fitted.set_params(n_bins=fitted.n_bins + 1))(4),
     "changes no parameter"),
    (Remembers(4), "does not depend on earlier fits"),
    (planted(UniformBins, __init__=lambda self, n_bins=3: setattr(self, "n_bins", -n_bins))(),
     "can clone"),
    (planted(UniformBins, fit=lambda self, s, t, w=None: UniformBins.fit(
        self, np.multiply(s, 1 - 1e-12, out=s), t, w))(4), "not modified"),
    (altered(UniformBins, smooth=lambda answer: answer[:, :-1])(4), "shape"),
    (planted(UniformBins, predict=lambda self, s: (
        UniformBins.predict(self, s) + np.where(s == 0, np.nan, 0)))(4), "off by nan|finite"),
    (LogisticRegression(), "derives from Smoother"),
]  # fmt: skip


def reads(pairs):
    """A notion that reads a list of problems off forecasts and targets."""
    return planted(Notion, problems=lambda self, forecast, target: iter(pairs(forecast, target)))


REJECTED_NOTIONS = [
    (altered(TopK, problems=lambda answer: [[a[:, :-1] for a in pair] for pair in answer])(2),
     "No mass is lost|two columns"),
    # the predicted class is read off the label
    (planted(TopLabel, problems=lambda self, p, t: (
        pair[::-1] for pair in TopLabel.problems(self, t, p)))(), "linear|does not depend"),
    (reads(lambda p, t: [(np.sort(p, axis=1), np.sort(t, axis=1))])(), "linear"),
    (reads(lambda p, t: [tuple(np.roll(a, len(p) % p.shape[1], 1) for a in (p, t))])(),
     "depends on that row only"),
    (reads(lambda p, t: [(p, t[:, ::-1])])(), "forecasts remain calibrated"),
    (reads(lambda p, t: [(p[:, :1], t[:, :1])])(), "two columns"),
    (reads(lambda p, t: [])(), "no problem"),
    (reads(lambda p, t: [tuple(0.9 * a + 0.1 / a.shape[1] for a in (p, t))])(),
     "Labels remain labels"),
    (reads(lambda p, t: [(p, np.multiply(t, 1 - 1e-12, out=t))])(), "not modified"),
    (planted(Classwise, reduce="median", __init__=lambda self: None)(), "mean or the sum"),
    (TopK(11), "refuses every number"),
    ("canonical", "derives from Notion"),
]  # fmt: skip


REJECTED = {
    check_score: REJECTED_SCORES,
    check_smoother: REJECTED_SMOOTHERS,
    check_notion: REJECTED_NOTIONS,
}


@pytest.mark.parametrize(
    ("check", "defective", "sentence"),
    [(check, *row) for check, rows in REJECTED.items() for row in rows],
)
def test_defects_are_rejected_by_name(check, defective, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check(defective)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_data_of_the_checkers_are_not_degenerate(n_classes):
    rng = np.random.default_rng(0)
    scores = formulas.ScoreLaws(Brier(), n_classes, rng)
    smoothers = estimators.SmootherLaws(QuantileBins(), n_classes, rng)
    notions = formulas.NotionLaws(TopLabel(), n_classes, rng)
    for laws, names in (
        (scores, ("target", "forecast")),
        (smoothers, ("forecast", "soft", "new", "distinct")),
        (notions, ("forecast", "target")),
    ):
        for points in (getattr(laws, name) for name in names):
            assert np.ptp(points, axis=0).min() > 0.3
            np.testing.assert_allclose(points.sum(axis=1), 1)
        assert laws.labels.sum(axis=0).min() >= 2
    for laws in (smoothers, notions):
        assert len(np.unique(laws.forecast, axis=0)) < len(laws.forecast)
        assert {0.0, 1.0} <= set(laws.forecast.ravel())
    assert len(np.unique(smoothers.distinct, axis=0)) == len(smoothers.distinct)
    assert np.ptp(smoothers.weight) > 1
    laws = formulas.ScoreLaws(DawidSebastiani(), 2, rng)
    for moments in (laws.target, laws.forecast):
        assert (moments[:, 1] > moments[:, 0] ** 2).all()
