"""The report: from probabilities to a verdict, with the numbers that it rests on."""

from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np

from skcalib._checks import check_problem, check_weight
from skcalib._labels import check_y
from skcalib._version import __version__
from skcalib.intervals import check_confidence_level
from skcalib.report.findings import find
from skcalib.report.html import render_body, render_page
from skcalib.report.text import render_text
from skcalib.report.wording import headline, is_miscalibrated, sentences
from skcalib.responses import held_out_proba, take_rows

#: Packages whose versions a report records.
PACKAGES = ("scikit-learn", "numpy", "scipy", "matplotlib")


class CalibrationReport:
    r"""Can these probabilities be trusted? The verdict, and the numbers behind it.

    Make one with `from_estimator` or `from_predictions`; ``print(report)`` shows it as a table,
    `to_html` writes one self-contained page with the reliability diagram, `to_dict` returns the
    numbers.

    The report decomposes the Brier score and the log loss into calibration error and refinement,
    for all classes at once and, beyond two classes, for the top label and class by class
    (:func:`~skcalib.score_decomposition`). The calibration error is the "risk" estimate with the
    cross-fitted logit map (`LogitSmoother`): what a recalibration fitted on other folds saves, a
    lower bound in expectation, with a Student interval. A second look with cross-fitted isotonic
    regression (`IsotonicSmoother`) sees curves that the map cannot follow. Where features are
    given, the grouping loss of the confidence (:class:`~skcalib.GroupingLossEstimator`) says what
    calibration cannot see, and for whom. The verdict is
    "miscalibrated" where an interval of the Brier calibration error lies above zero.

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
    random_state : int, default=0
        Seed of the folds and of the bands of the diagram.
    n_jobs : int, default=None
        Problems of a notion in parallel.

    Attributes
    ----------
    findings : Findings
        All numbers, as frozen records.
    verdict : str
        The verdict in words.
    miscalibrated : bool
        Whether miscalibration was found.

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
    ):
        check_confidence_level(confidence_level)
        self.problem = problem
        self.name = name
        self.confidence_level = confidence_level
        self.random_state = random_state
        self.findings = find(
            problem,
            features=features,
            confidence_level=confidence_level,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_proba,
        X=None,
        *,
        name="forecasts",
        sample_weight=None,
        labels=None,
        pos_label=None,
        confidence_level=0.95,
        random_state=0,
        n_jobs=None,
    ):
        """Report on labels and probabilities of held-out samples.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probability of the positive class, or of each class. Rows sum to one.
        X : array-like of shape (n_samples, n_features), default=None
            Features or any representation, for the grouping loss.
        name : str, default="forecasts"
            Name of the model.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        labels : array-like of shape (n_classes,), default=None
            The class of each column of `y_proba`.
        pos_label : label, default=None
            The class that a `y_proba` of shape (n_samples,) speaks of.
        confidence_level : float, default=0.95
            Level of all intervals.
        random_state : int, default=0
            Seed.
        n_jobs : int, default=None
            Problems of a notion in parallel.

        Returns
        -------
        CalibrationReport
            The report.
        """
        problem = check_problem(
            y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
        )
        if X is not None:
            there = check_weight(sample_weight, len(np.asarray(y_true))) > 0
            X = take_rows(X, np.flatnonzero(there))
        return cls(
            problem,
            name=name,
            features=X,
            confidence_level=confidence_level,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        cv=None,
        name=None,
        sample_weight=None,
        confidence_level=0.95,
        response_method="auto",
        random_state=0,
        n_jobs=None,
    ):
        """Report on a classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted, and (X, y) held out; or any classifier, with `cv`.
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Labels.
        cv : None, int or splitter, default=None
            None: the classifier is used as it is. Else it is cloned, fitted on the folds and
            judged by its out-of-fold probabilities.
        name : str, default=None
            Name of the model; its class by default.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the evaluation; not passed to the classifier.
        confidence_level : float, default=0.95
            Level of all intervals.
        response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
            Decision values become probabilities through the logistic function or the softmax.
        random_state : int, default=0
            Seed.
        n_jobs : int, default=None
            Folds, and problems of a notion, in parallel.

        Returns
        -------
        CalibrationReport
            The report.
        """
        y = check_y(y, name="y")
        proba, classes, tested = held_out_proba(
            estimator,
            X,
            y,
            cv=cv,
            response_method=response_method,
            n_jobs=n_jobs,
            owner=cls.__name__,
        )
        weight = check_weight(sample_weight, len(y))
        problem = check_problem(
            y[tested], proba[tested], sample_weight=weight[tested], labels=classes
        )
        return cls(
            problem,
            name=type(estimator).__name__ if name is None else name,
            features=take_rows(X, np.flatnonzero(tested & (weight > 0))),
            confidence_level=confidence_level,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    @property
    def miscalibrated(self):
        """True where miscalibration was found beyond an interval."""
        return is_miscalibrated(self.findings)

    @property
    def verdict(self):
        """The verdict in words: a headline, then a sentence a line."""
        return "\n".join([headline(self.findings), *sentences(self.findings)])

    @property
    def method_note(self):
        """How the numbers were computed, in one paragraph."""
        return (
            f"Calibration error: what a map on the logits, fitted on other folds, saves "
            f"({100 * self.confidence_level:g} % Student intervals of paired differences; a lower "
            "bound in expectation). Brier score halved for two columns; log loss in nats. Seed "
            f"{self.random_state}; skcalib {__version__}, scikit-learn {version('scikit-learn')}, "
            f"numpy {version('numpy')}."
        )

    def __str__(self):
        return render_text(self)

    def __repr__(self):
        return f"<CalibrationReport of {self.name}: {headline(self.findings)}>"

    def _repr_html_(self):
        return render_body(self)

    def to_html(self, path):
        """Write one self-contained HTML page, with its figures inside.

        Parameters
        ----------
        path : str or path-like
            File to write.

        Returns
        -------
        pathlib.Path
            The file.
        """
        path = Path(path)
        path.write_text(render_page(self), encoding="utf-8")
        return path

    def to_dict(self):
        """All numbers as nested dictionaries and lists, ready for JSON.

        Returns
        -------
        dict
            The verdict, every finding, and how they were computed.
        """
        return {
            "name": self.name,
            "headline": headline(self.findings),
            "verdict": sentences(self.findings),
            "miscalibrated": self.miscalibrated,
            **asdict(self.findings),
            "classes": self.problem.classes.tolist(),
            "confidence_level": self.confidence_level,
            "random_state": self.random_state,
            "versions": {"skcalib": __version__, **{name: version(name) for name in PACKAGES}},
        }
