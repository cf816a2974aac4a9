"""The report: from probabilities to a verdict, with the numbers that it rests on."""

from dataclasses import asdict

from skcalib.intervals import check_confidence_level
from skcalib.report._from_data import FromData
from skcalib.report._run import check_seed, versions
from skcalib.report._shown import Shown
from skcalib.report.content import document
from skcalib.report.finders import find
from skcalib.report.method import method
from skcalib.report.wording import headline, sentences, wrong_for_some


class CalibrationReport(FromData, Shown):
    r"""Can these probabilities be trusted? The verdict, and the numbers behind it.

    Make one with `from_estimator` or `from_predictions`; ``print(report)`` shows it in the
    terminal, `to_html` writes it as one self-contained page with figures, `to_dict` returns the
    numbers. Several models are put side by side by :class:`~skcalib.ComparisonReport`.

    - **Verdict**: "miscalibrated" where the interval of a Brier calibration error lies above zero
      (all classes at once; the confidence; the confidence by cross-fitted isotonic regression,
      which sees curves that the default smoother may miss), or where the kernel test of all
      classes rejects at the 1 % level. How large, which way, with intervals.
    - **Parts of the loss**: Brier score and log loss into calibration and refinement
      (:func:`~skcalib.score_decomposition`), for all classes at once and, beyond two classes, for
      the top label and class by class. The calibration error is the "risk" estimate with the
      cross-fitted logit map (`LogitSmoother`): what a recalibration fitted on other folds saves, a
      lower bound in expectation, with a Student interval.
    - **Where it is wrong**: ranges of scores, and classes, whose intervals exclude what is
      promised.
    - **What calibration cannot see**, where features are given: the grouping loss of the
      confidence (:class:`~skcalib.GroupingLossEstimator`), by trees, which name for whom, and by a
      model of all features, which may find groups that trees cannot name.
    - **What to do**: which recalibrator lowers the log loss on samples that it has not seen, by
      how much, or to leave it.
    - **What others report**: ECE and relatives, each with its interval and its bias.

    Parameters
    ----------
    problem : Problem
        Validated forecasts; use the class methods.
    name : str
        Name of the model.
    features : array-like of shape (n_samples, n_features), default=None
        Features, for the grouping loss.
    confidence_level : float, default=0.95
        Level of all intervals.
    random_state : int, RandomState instance or None, default=0
        Seed of folds, permutations and bands. A whole number makes the report reproducible; from
        anything else one is drawn.
    n_jobs : int, default=None
        Problems of a notion, candidates and folds in parallel.
    verbose : int, default=0
        Above 0, each stage is printed with its time.

    Attributes
    ----------
    findings : Findings
        All numbers, as frozen records.
    verdict : str
        The verdict in words.
    miscalibrated : bool
        Whether miscalibration was found.
    random_state : int
        The seed.
    grouping_estimator : GroupingLossEstimator or None
        The split whose worst regions are named, for `GroupingDisplay.from_grouping_estimator`.

    See Also
    --------
    ComparisonReport : Several models on the same samples.

    Notes
    -----
    About 5 s for 10,000 samples of 10 classes with features, on one core.

    Examples
    --------
    >>> from skcalib import CalibrationReport
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> report = CalibrationReport.from_predictions(data.y, data.y_proba, name="simulation")
    >>> print(report.verdict.splitlines()[0])
    Miscalibrated: over-confident.
    >>> round(report.to_dict()["errors"][0]["calibration"]["estimate"], 3)
    0.008
    """

    def __init__(
        self,
        problem,
        *,
        name,
        features=None,
        confidence_level=0.95,
        random_state=0,
        n_jobs=None,
        verbose=0,
    ):
        check_confidence_level(confidence_level)
        self.problem = problem
        self.name = str(name)
        self.confidence_level = confidence_level
        self.random_state = check_seed(random_state)
        self.findings, self.grouping_estimator = find(
            problem,
            features=features,
            confidence_level=confidence_level,
            random_state=self.random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            name=self.name,
        )

    @property
    def miscalibrated(self):
        """True where miscalibration was found."""
        return self.findings.miscalibrated

    @property
    def verdict(self):
        """The verdict in words: a headline, then a sentence a line."""
        return "\n".join([headline(self.findings), *sentences(self.findings)])

    def _document(self):
        return document(self)

    def __repr__(self):
        return f"<CalibrationReport of {self.name}: {headline(self.findings)}>"

    def to_dict(self):
        """All numbers as nested dictionaries and lists, ready for JSON.

        Returns
        -------
        dict
            The verdict, every finding, and how they were computed. Infinite losses are infinite
            floats.
        """
        findings = self.findings
        return {
            "name": self.name,
            "headline": headline(findings),
            "verdict": sentences(findings),
            "miscalibrated": self.miscalibrated,
            "wrong_for_some_groups": wrong_for_some(findings),
            "recalibrator_helps": findings.recalibrator_helps,
            "method": method(self),
            **asdict(findings),
            "classes": self.problem.classes.tolist(),
            "confidence_level": self.confidence_level,
            "random_state": self.random_state,
            "versions": versions(),
        }
