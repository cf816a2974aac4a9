"""What a report finds out: numbers with intervals, before any wording or drawing."""

from dataclasses import dataclass

import numpy as np

from skcalib.errors import ScoreDecomposition
from skcalib.hypothesis import CalibrationTest
from skcalib.intervals import MeanInterval
from skcalib.selection import RecalibratorSelection


@dataclass(frozen=True)
class ErrorFinding:
    """The decomposition of one loss under one notion, with an interval for each part.

    ``expected_loss`` = ``calibration`` + ``refinement``.
    """

    loss: str
    notion: str
    smoother: str
    terms: ScoreDecomposition
    expected_loss: MeanInterval
    calibration: MeanInterval
    refinement: MeanInterval

    @property
    def detected(self):
        """True where the interval of the calibration error lies above zero."""
        return self.calibration.low > 0


@dataclass(frozen=True)
class SecondLook:
    """Grouping loss by a cross-fitted model of score and features, on ``n_samples`` of them."""

    grouping_loss: MeanInterval
    pvalue: float
    n_samples: int

    @property
    def detected(self):
        """True where both the interval and the test find grouping loss."""
        return self.grouping_loss.low > 0 and self.pvalue < 0.05


@dataclass(frozen=True)
class GroupingFinding:
    """Grouping loss of the confidence (for two classes: of the forecast), where features are given.

    ``grouping_loss`` and ``pvalue`` are by trees, ``second`` by a model of all features. ``rest``
    is what calibration and `bound` leave of the Brier score of the same problem, with an interval
    that is too wide rather than too narrow. ``categories`` are the worst categories of the columns
    that hold any, with intervals for all of them at once, ``regions`` the worst of a balanced split
    of each level set. ``note`` says why there is no estimate, or why it is weak.
    """

    grouping_loss: MeanInterval | None = None
    rest: MeanInterval | None = None
    pvalue: float | None = None
    second: SecondLook | None = None
    categories: tuple = ()
    regions: tuple = ()
    note: str = ""

    @property
    def by_trees(self):
        """True where both the interval and the test of the trees find grouping loss."""
        return self.grouping_loss is not None and self.grouping_loss.low > 0 and self.pvalue < 0.05

    @property
    def detected(self):
        """True where trees find grouping loss, or a model of all features does."""
        return self.by_trees or (self.second is not None and self.second.detected)

    @property
    def bound(self):
        """The lower bound to tell: of the trees, or of the model where only that finds groups."""
        only_second = self.detected and not self.by_trees
        return self.second.grouping_loss if only_second else self.grouping_loss


@dataclass(frozen=True)
class Place:
    """A range of scores, or a class: what is promised there on average, and what comes true.

    ``where`` says it in words, ``label`` for a table. [low, high] is the Clopper-Pearson interval
    of ``mean_outcome``, widened so that those of all places of the ``kind`` hold at once. ``share``
    is that of the samples, by weight.
    """

    kind: str
    where: str
    label: str
    n_samples: int
    share: float
    mean_score: float
    mean_outcome: float
    low: float
    high: float

    @property
    def detected(self):
        """True where the interval does not hold the mean score."""
        return not self.low <= self.mean_score <= self.high

    @property
    def harm(self):
        """What the gap adds to a squared error."""
        return self.share * (self.mean_score - self.mean_outcome) ** 2


@dataclass(frozen=True)
class ReportedNumber:
    """A number that others report, with its interval, and one sentence on its bias.

    ``name`` is for people, ``key`` for programs. ``target`` is what the interval is about, which a
    biased number may miss. Without a value, ``note`` says why; ``valid`` tells whether the interval
    holds its target as often as its level says.
    """

    key: str
    name: str
    note: str
    value: MeanInterval | None
    target: str = ""
    valid: bool = True


@dataclass(frozen=True)
class BrierChange:
    """Held-out Brier score ``before`` and ``after`` a map that was chosen by the log loss.

    ``standard_error`` is that of their paired difference, ``log_loss`` the held-out one after.
    """

    name: str
    log_loss: float
    before: float
    after: float
    standard_error: float

    @property
    def harmful(self):
        """True where the Brier score rises by more than its standard error."""
        return self.after - self.before > self.standard_error


@dataclass(frozen=True)
class Findings:
    """Everything that a report says, as numbers.

    ``errors`` holds the two losses under each notion with the default smoother; ``flexible`` is
    the Brier error of the confidence (for two classes: of the forecast) with cross-fitted isotonic
    regression, which sees curves that the default smoother may miss. ``test`` is the kernel test of
    all classes at once on ``n_tested`` samples, None where there are too few. ``places`` are the
    ranges of scores and the classes, ``reported`` the numbers that others report, ``notes`` what
    the estimators warned of. ``advice`` compares the maps that do not harm, ``brier_change`` is of
    the chosen one, and ``refused`` are those that would have been chosen by the log loss, but
    raise the Brier score.
    """

    n_samples: int
    effective_size: float
    n_classes: int
    accuracy: MeanInterval
    confidence_gap: MeanInterval
    errors: tuple
    flexible: ErrorFinding
    advice: RecalibratorSelection
    reported: tuple
    places: tuple
    test: CalibrationTest | None = None
    n_tested: int = 0
    grouping: GroupingFinding | None = None
    brier_change: BrierChange | None = None
    refused: tuple = ()
    notes: tuple = ()

    def error(self, loss, notion):
        """The finding of that loss and notion."""
        return next(e for e in self.errors if (e.loss, e.notion) == (loss, notion))

    @property
    def confidence(self):
        """Brier error of the confidence; with two classes it is that of the forecast itself."""
        return self.error("brier", "canonical" if self.n_classes == 2 else "top_label")

    @property
    def looks(self):
        """The Brier errors on which the verdict rests."""
        canonical = self.error("brier", "canonical")
        return [canonical, *([self.confidence] if self.n_classes > 2 else []), self.flexible]

    @property
    def test_rejects(self):
        """The kernel test counts for the verdict at the 1 % level: other looks were taken."""
        return self.test is not None and self.test.rejects(0.01)

    @property
    def miscalibrated(self):
        """True where a calibration error is above zero beyond its interval, or the test rejects."""
        return any(look.detected for look in self.looks) or self.test_rejects

    @property
    def reach(self):
        """Root mean square by which a slope or shift must be off to be found with 95 %.

        Off by r, a mean of paired differences is r^2 with a standard error of 2 r sqrt(loss / n):
        it lies 1.96 + 1.64 of them above zero from this r on.
        """
        return 2 * (1.96 + 1.64) * np.sqrt(self.confidence.terms.loss / self.effective_size)

    @property
    def recalibrator_helps(self):
        """True where the chosen map lowers the loss beyond the interval of the gain."""
        return self.advice.chosen != self.advice.names[0] and self.advice.gain.low > 0
