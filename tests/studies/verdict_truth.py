"""What is true of a world: its gap, its shift and slope on the logit, and whom it concerns."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from conftest import rule_holds
from scipy.optimize import minimize
from scipy.special import expit
from verdict_worlds import Draw, columns, of_top

#: Samples of a world by which it is judged.
LARGE = 40_000
#: Differences of probabilities below this are rounding of the truth.
NIL = 1e-4
#: A direction that says so of both sides, or of one, needs this share of the samples there.
SIDE = 0.1
_CLIP = 1e-12


@dataclass(frozen=True)
class Truth:
    """Facts of a world, from a large draw whose P(Y | score) is known."""

    draw: Draw

    @cached_property
    def pair(self):
        """Score and truth of the event, or of the predicted class."""
        draw = self.draw
        if draw.n_classes == 2:
            return draw.score, draw.truth
        return of_top(draw.score, draw.score, draw.truth)

    @cached_property
    def curve(self):
        """Score less P(event | score): of the confidence, the truth is averaged over all rows.

        P(right | all classes) is not P(right | confidence), which is a polynomial here.
        """
        score, truth = self.pair
        if self.draw.n_classes == 2 and self.draw.exact:
            return score - truth
        degree = min(8, len(np.unique(score)) - 1)
        fitted = np.polynomial.Polynomial.fit(score, score - truth, degree, w=self.draw.share**0.5)
        return fitted(score)

    @cached_property
    def gap(self):
        """Mean score less mean truth."""
        score, truth = self.pair
        return float(self.draw.share @ (score - truth))

    @cached_property
    def least_gap(self):
        """A mean gap below this, three standard errors of the large draw, may be none."""
        score, truth = self.pair
        spread = np.sqrt(self.draw.share**2 @ (score - truth - self.gap) ** 2)
        return max(NIL, 3 * float(spread))

    @cached_property
    def rms(self):
        """Root mean square error of the event, or of the confidence."""
        return float(np.sqrt(self.draw.share @ self.curve**2))

    @cached_property
    def calibrated(self):
        """Whether scores are the truth, all classes at once."""
        return float(np.abs(self.draw.score - self.draw.truth).max()) < NIL

    @cached_property
    def class_gaps(self):
        """Mean score less mean truth of each class (two classes: of the event)."""
        draw = self.draw
        return np.atleast_1d(draw.share @ (draw.score - draw.truth))

    @cached_property
    def sides(self):
        """Shares of samples with a score above, and below, the truth.

        Of two classes the truth is not rounded: half of the forecasts of a rare event lie below
        `NIL`.
        """
        gap = self.curve
        nil = 1e-9 if self.draw.n_classes == 2 and self.draw.exact else NIL
        return float(self.draw.share @ (gap > nil)), float(self.draw.share @ (gap < -nil))

    @cached_property
    def line(self):
        """Shift alone and its standard errors, then slope (with the shift) and its own."""
        score, truth = self.pair
        return line(score, truth, self.draw.share)

    @property
    def excludes(self):
        """Whether forecasts of exactly 0 exclude labels that occur."""
        return bool(((self.draw.matrix == 0) & (columns(self.draw.truth) > 0)).any())

    def is_false(self, direction):
        """Whether the direction is wrong of this world.

        "too_high" needs a mean that is, and samples on that side; "too_extreme" of two classes a
        slope, and samples on both sides: where the curve is below the diagonal for nearly all, the
        forecasts are too high. Of the confidence of several classes it is the mean. Labels that the
        forecasts exclude have no other direction than "uneven".
        """
        if self.calibrated:
            return True
        above, below = self.sides
        slope, two = self.line[2], self.draw.n_classes == 2
        one_sided = min(above, below) < SIDE
        return {
            "too_high": self.gap < self.least_gap or above < SIDE,
            "too_low": self.gap > -self.least_gap or below < SIDE,
            "too_extreme": slope > 0.999 or one_sided if two else self.gap < NIL,
            "too_moderate": slope < 1.001 or one_sided if two else self.gap > -NIL,
            "class_shift": np.abs(self.class_gaps).max() < 10 * NIL,
            "uneven": min(above, below) < 0.02 and not self.excludes,
        }[direction]

    def grows(self, where):
        """Whether forecasts are more too high, or too low, the "higher" or "lower" they are.

        On the logit, or in points of probability: of a rare event a shift of the logit is an error
        in points that grows with the forecast.
        """
        score, share = self.pair[0], self.draw.share
        side = np.sign(self.gap)
        wrong = side * self.curve
        in_points = share @ ((score - share @ score) * wrong)
        on_logit = side * (1 - self.line[2])
        wanted = 1 if where == "higher" else -1
        return bool(wanted * in_points > 1e-9 or wanted * on_logit > 1e-3)

    def is_gravely_false(self, direction):
        """Whether shift or slope have the other sign by four standard errors."""
        if self.calibrated:
            return False
        shift, shift_error, slope, slope_error = self.line
        distance = {
            "too_high": shift / shift_error,
            "too_low": -shift / shift_error,
            "too_extreme": (slope - 1) / slope_error,
            "too_moderate": (1 - slope) / slope_error,
        }
        return distance.get(direction, 0.0) > 4

    def difference_of(self, rule):
        """Mean of posterior less truth where the rule holds, and its standard error."""
        rows = matches(rule, self.draw.X, self.pair[0])
        gap = posterior_gap(self.draw)[rows]
        if len(gap) < 2:
            return 0.0, np.inf
        return float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap)))


def posterior_gap(draw):
    """P(Y | score, X) less P(Y | score), of the event or of the predicted class."""
    if draw.posterior is None:
        return np.zeros(len(draw.score))
    if draw.n_classes == 2:
        return draw.posterior - draw.truth
    return np.subtract(*of_top(draw.score, draw.posterior, draw.truth))


def line(score, truth, share):
    """Logistic recalibration with the truth for labels."""
    z = np.log(np.clip(score, _CLIP, 1)) - np.log(np.clip(1 - score, _CLIP, 1))
    ones, centred = np.ones(len(z)), z - share @ z
    alone, errors_alone = _logistic(ones[:, None], z, truth, share)
    if np.ptp(centred) < 1e-9:
        return alone[0], errors_alone[0], 1.0, np.inf
    both, errors = _logistic(np.column_stack([ones, centred]), z, truth, share)
    return alone[0], errors_alone[0], 1 + both[1], errors[1]


def _logistic(design, offset, target, share):
    """Maximum of the likelihood, and standard errors."""

    def loss(theta):
        eta = offset + design @ theta
        gradient = design.T @ (share * (expit(eta) - target))
        return share @ (np.logaddexp(0, eta) - target * eta), gradient

    def hessian(theta):
        p = expit(offset + design @ theta)
        return (design.T * (share * p * (1 - p))) @ design + 1e-9 * np.eye(len(theta))

    start, options = np.zeros(design.shape[1]), {"gtol": 1e-12}
    optimum = minimize(loss, start, jac=True, hess=hessian, method="trust-exact", options=options)
    return optimum.x, np.sqrt(np.diag(np.linalg.inv(hessian(optimum.x))) / len(offset))


def rows_of_place(draw, place):
    """Rows of a range of scores."""
    score = Truth(draw).pair[0]
    return np.flatnonzero((score >= place["low_score"]) & (score <= place["high_score"]))


def matches(rule, X, score=None):
    """Rows of X, a frame or an array, where a rule of the report holds, with their scores (n,).

    Understood are "z > 0.3", "-1 < z <= 0.3", "region = east", "region is not east", and these
    joined by "and".
    """
    if rule == "all":
        return np.ones(len(X), dtype=bool)
    frame = X if hasattr(X, "columns") else pd.DataFrame(X).add_prefix("x")
    for word, sign in ((" is not ", "!="), (" = ", "==")):  # of values that may have several words
        text = rf"(@frame.\1.astype('str') {sign} '\2')"
        rule = re.sub(rf"(\w+){word}(.+?)(?= and |\)|$)", text, rule)
    return rule_holds(rule, frame.assign(score=score, confidence=score))
