"""What a report finds out: numbers with intervals, before any wording or drawing."""

from dataclasses import dataclass

import numpy as np

from skcalib.errors import ScoreDecomposition
from skcalib.errors._terms import check_loss, check_notion, reduce_terms, smooth_notion
from skcalib.errors.proper import decompose
from skcalib.intervals import MeanInterval, mean_interval
from skcalib.notions import TopLabel
from skcalib.scores import Brier
from skcalib.smoothers import IsotonicSmoother, LogitSmoother
from skcalib.tower import weighted_mean


@dataclass(frozen=True)
class ErrorFinding:
    """The decomposition of one loss under one notion, with the interval of the calibration."""

    loss: str
    notion: str
    smoother: str
    terms: ScoreDecomposition
    calibration: MeanInterval

    @property
    def detected(self):
        """True where the interval of the calibration error lies above zero."""
        return self.calibration.low > 0


@dataclass(frozen=True)
class Findings:
    """Everything that a report says, as numbers.

    ``errors`` holds the two losses under each notion with the default smoother; ``flexible`` is
    the Brier error of the confidence (for two classes: of the forecast) with cross-fitted isotonic
    regression, which sees curves that the default smoother cannot.
    """

    n_samples: int
    n_classes: int
    accuracy: MeanInterval
    confidence_gap: MeanInterval
    errors: tuple
    flexible: ErrorFinding
    root_brier_score: float

    def error(self, loss, notion):
        """The finding of that loss and notion."""
        return next(e for e in self.errors if (e.loss, e.notion) == (loss, notion))

    @property
    def confidence(self):
        """Brier error of the confidence; with two classes it is that of the forecast itself."""
        return self.error("brier", "canonical" if self.n_classes == 2 else "top_label")


def find(problem, *, confidence_level, random_state=0, n_jobs=None):
    """`Problem` -> `Findings`."""
    n_classes = problem.forecast.shape[1]
    notions = ("canonical",) if n_classes == 2 else ("canonical", "top_label", "classwise")

    def look(name, smoother, losses=LOSSES):
        notion = check_notion(name)
        smoothed = smooth_notion(problem, notion=notion, smoother=smoother, n_jobs=n_jobs)
        for loss in losses:
            terms = reduce_terms(smoothed, score=check_loss(loss), notion=notion, method="risk")
            interval = mean_interval(terms.influence, terms.weight, confidence_level)
            yield ErrorFinding(loss, name, type(smoother).__name__, decompose(terms), interval)

    smoother = LogitSmoother(random_state=random_state)
    confidence_notion = "canonical" if n_classes == 2 else "top_label"
    (flexible,) = look(confidence_notion, IsotonicSmoother(), ("brier",))
    confidence, right = _confidence(problem)
    brier = Brier().loss(problem.target, problem.forecast)
    return Findings(
        n_samples=len(problem.forecast),
        n_classes=n_classes,
        accuracy=mean_interval(right, problem.weight, confidence_level),
        confidence_gap=mean_interval(confidence - right, problem.weight, confidence_level),
        errors=tuple(finding for name in notions for finding in look(name, smoother)),
        flexible=flexible,
        root_brier_score=float(np.sqrt(weighted_mean(brier, problem.weight))),
    )


#: Losses of a report, in the order of its table.
LOSSES = ("brier", "log")


def _confidence(problem):
    forecast, target = next(TopLabel().problems(problem.forecast, problem.target))
    return forecast[:, 1], target[:, 1]
