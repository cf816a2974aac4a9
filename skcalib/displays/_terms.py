"""From predictions to the parts of the loss; nothing here draws."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skcalib._arguments import check_loss, check_notion
from skcalib._formatting import decimals_of, nonnegative_text
from skcalib._validation import check_confidence_level
from skcalib.displays._regions import grouping_interval
from skcalib.displays._units import unit
from skcalib.estimators.calibration_error import CalibrationErrorEstimator
from skcalib.grouping import GroupingLossEstimator
from skcalib.inference import MeanInterval
from skcalib.notions import Classwise, TopLabel


@dataclass(frozen=True)
class LossTerms:
    """Parts of the mean loss of one model.

    ``calibration`` and ``grouping``, a lower bound or None, have the fields ``estimate``, ``low``,
    ``high`` and ``standard_error``.
    """

    name: str
    loss: float
    calibration: MeanInterval
    grouping: MeanInterval | None

    @property
    def rest(self):
        """What the other parts leave: the refinement, or an upper bound of the irreducible loss."""
        explained = 0.0 if self.grouping is None else self.grouping.estimate
        return self.loss - self.calibration.estimate - explained

    @property
    def parts(self):
        """The parts that have an interval, by their name."""
        parts = {"calibration": self.calibration, "grouping": self.grouping}
        return {name: part for name, part in parts.items() if part is not None}

    def __str__(self):
        texts = [f"calibration {nonnegative_text(self.calibration)}"]
        if self.grouping is not None:
            at_least = "≥ " if self.grouping.estimate >= 0 else ""
            texts.append(f"grouping {at_least}{nonnegative_text(self.grouping)}")
        decimals = min(decimals_of(part) for part in self.parts.values())
        sign = "refinement" if self.grouping is None else "rest ≤"
        return ", ".join([*texts, f"{sign} {self.rest:z.{decimals}f}"])


@dataclass(frozen=True)
class TermOptions:
    """Options of the door, checked: parameters of both estimators, and what estimates grouping."""

    shared: dict
    grouping: GroupingLossEstimator | None
    unit: str


def check_options(loss, notion, smoother, grouping, confidence_level, random_state):
    """Arguments of `DecompositionDisplay` -> `TermOptions`."""
    shared = dict(
        loss=check_loss(loss),
        notion=check_notion(notion),
        smoother=smoother,
        confidence_level=confidence_level,
    )
    check_confidence_level(confidence_level)
    about = {TopLabel: " of the top label", Classwise: ", one class against the rest"}
    text = unit(loss) + about.get(type(shared["notion"]), "")
    return TermOptions(shared, _check_grouping(grouping, random_state), text)


def _check_grouping(grouping, random_state):
    """What estimates the grouping loss: None, or an unfitted estimator."""
    if grouping is None:
        return None
    if isinstance(grouping, str) and grouping in ("partition", "risk"):
        estimator = GroupingLossEstimator(method=grouping)
    elif isinstance(grouping, GroupingLossEstimator):
        estimator = clone(grouping).set_params(estimator=None, cv=None)
    else:
        raise ValueError(
            f"grouping must be 'partition', 'risk', a GroupingLossEstimator or None, got "
            f"{grouping!r}."
        )
    if not isinstance(random_state, (int, np.integer)):  # all models have the same halves
        random_state = check_random_state(random_state).randint(2**31 - 1)
    return estimator.set_params(n_permutations=0, random_state=random_state)


def loss_terms(name, problem, X, sample_weight, options):
    """Parts of the loss of one model on a `Problem`."""
    y = problem.target.argmax(axis=1)
    shared = {**options.shared, "labels": np.arange(len(problem.classes))}
    calibration = CalibrationErrorEstimator(**shared).fit(problem.forecast, y, sample_weight)
    if not np.isfinite(calibration.expected_loss_):
        raise ValueError(
            f"The loss of {name} is infinite, because it gives probability 0 to a label that "
            "occurs: there is no bar of that length; use loss='brier'."
        )
    interval = MeanInterval(
        calibration.calibration_error_,
        *calibration.confidence_interval_,
        calibration.standard_error_,
    )
    bound = None
    if options.grouping is not None and X is not None:
        estimator = clone(options.grouping).set_params(**shared)
        bound = grouping_interval(estimator.fit(X, y, sample_weight, y_proba=problem.forecast))
    return LossTerms(str(name), calibration.expected_loss_, interval, bound)
