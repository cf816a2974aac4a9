"""What a report finds out: numbers with intervals, before any wording or drawing."""

import warnings
from dataclasses import dataclass

import numpy as np

from skcalib.errors import ScoreDecomposition
from skcalib.errors._terms import check_loss, check_notion, reduce_terms, smooth_notion
from skcalib.errors.proper import decompose
from skcalib.grouping import GroupingLossEstimator
from skcalib.hypothesis import CalibrationTest, kernel_calibration_test
from skcalib.hypothesis.kernel import MIN_SAMPLES
from skcalib.intervals import MeanInterval, mean_interval
from skcalib.notions import TopLabel
from skcalib.recalibration import VectorScaling
from skcalib.scores import Brier
from skcalib.selection import RecalibratorSelection, default_candidates, select_recalibrator
from skcalib.smoothers import IsotonicSmoother, LogitSmoother
from skcalib.smoothers._base import check_folds
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
class GroupingFinding:
    """Grouping loss of the confidence (for two classes: of the forecast), where features are given.

    ``calibration`` and ``irreducible_bound`` complete the Brier score of the same problem;
    ``regions`` are the worst of a balanced split of each level set. ``note`` says why there is no
    estimate, or why it is weak.
    """

    grouping_loss: MeanInterval | None = None
    pvalue: float | None = None
    loss: float | None = None
    calibration: float | None = None
    irreducible_bound: float | None = None
    regions: tuple = ()
    note: str = ""
    of_forecast: bool = False

    @property
    def detected(self):
        """True where both the interval and the test find grouping loss."""
        return self.grouping_loss is not None and self.grouping_loss.low > 0 and self.pvalue < 0.05


@dataclass(frozen=True)
class Findings:
    """Everything that a report says, as numbers.

    ``errors`` holds the two losses under each notion with the default smoother; ``flexible`` is
    the Brier error of the confidence (for two classes: of the forecast) with cross-fitted isotonic
    regression, which sees curves that the default smoother cannot. ``test`` is the kernel test of
    all classes at once, None where there are too few samples.
    """

    n_samples: int
    n_classes: int
    accuracy: MeanInterval
    confidence_gap: MeanInterval
    errors: tuple
    flexible: ErrorFinding
    root_brier_score: float
    advice: RecalibratorSelection
    test: CalibrationTest | None = None
    grouping: GroupingFinding | None = None

    def error(self, loss, notion):
        """The finding of that loss and notion."""
        return next(e for e in self.errors if (e.loss, e.notion) == (loss, notion))

    @property
    def confidence(self):
        """Brier error of the confidence; with two classes it is that of the forecast itself."""
        return self.error("brier", "canonical" if self.n_classes == 2 else "top_label")


def find(problem, *, features=None, confidence_level, random_state=0, n_jobs=None):
    """`Problem`, and the features where there are any -> `Findings`."""
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
        advice=find_recalibrator(problem, random_state, n_jobs),
        test=find_test(problem, random_state, n_jobs),
        grouping=None
        if features is None
        else find_grouping(problem, features, confidence_level, random_state, n_jobs),
    )


def find_test(problem, random_state, n_jobs=None):
    """Kernel test of all classes at once, on a random part of large samples."""
    n_samples, n_classes = problem.forecast.shape
    if n_samples < MIN_SAMPLES:
        return None
    rows = np.arange(n_samples)
    most = max(MIN_SAMPLES, int(np.sqrt(_PAIRS / n_classes)))
    if n_samples > most:  # time grows as n^2 K
        rows = np.random.RandomState(random_state).choice(n_samples, most, replace=False)
    if np.ptp(problem.forecast[rows], axis=0).max() == 0:
        return None  # equal forecasts have no distances; a kernel would have no scale
    return kernel_calibration_test(
        problem.classes[problem.target[rows].argmax(axis=1)],
        problem.forecast[rows],
        sample_weight=problem.weight[rows],
        labels=problem.classes,
        random_state=random_state,
        n_jobs=n_jobs,
    )


def find_recalibrator(problem, random_state, n_jobs=None):
    """Which map lowers the log loss on samples that it has not seen; doing nothing included."""
    n_samples, n_classes = problem.forecast.shape
    candidates = default_candidates(n_classes)
    if n_samples * n_classes > _LARGE:
        candidates = [c for c in candidates if not isinstance(c, VectorScaling)]
    folds = check_folds(5, problem.target, random_state=random_state)
    record, _ = select_recalibrator(
        candidates,
        problem.forecast,
        problem.classes[problem.target.argmax(axis=1)],
        classes=problem.classes,
        folds=[test for _, test in folds],
        weight=problem.weight,
        n_jobs=n_jobs,
    )
    return record


def find_grouping(problem, features, confidence_level, random_state, n_jobs=None):
    """Grouping loss of the confidence, and the worst regions of a split that can be named."""
    common = {
        "notion": "canonical" if problem.forecast.shape[1] == 2 else "top_label",
        "labels": problem.classes,
        "confidence_level": confidence_level,
        "n_jobs": n_jobs,
        "random_state": random_state,
    }
    y = problem.classes[problem.target.argmax(axis=1)]
    data = {"sample_weight": problem.weight, "y_proba": problem.forecast}
    n_permutations = int(np.clip(20_000_000 // len(y), 200, 999))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            found = GroupingLossEstimator(swap=True, n_permutations=n_permutations, **common).fit(
                features, y, **data
            )
            named = GroupingLossEstimator(
                partitioner="stump", n_bins=5, n_permutations=0, **common
            ).fit(features, y, **data)
    except ValueError as error:  # features that cannot be cut: the rest of the report stands
        return GroupingFinding(note=str(error))
    low, high = found.confidence_interval_
    return GroupingFinding(
        grouping_loss=MeanInterval(found.grouping_loss_, low, high, found.standard_error_),
        pvalue=found.pvalue_,
        loss=found.expected_loss_,
        calibration=found.calibration_error_,
        irreducible_bound=found.irreducible_bound_,
        regions=tuple(region for region in named.regions_ if region.direction)[:N_REGIONS],
        note=str(caught[0].message) if caught else "",
        of_forecast=problem.forecast.shape[1] == 2,
    )


#: Losses of a report, in the order of its table.
LOSSES = ("brier", "log")
#: Probabilities beyond which a report leaves out the candidates that take minutes.
_LARGE = 300_000
_PAIRS = 1e9  # pairs of samples, times classes, that the kernel test may take
#: Regions that a report names at the most.
N_REGIONS = 3


def _confidence(problem):
    forecast, target = next(TopLabel().problems(problem.forecast, problem.target))
    return forecast[:, 1], target[:, 1]
