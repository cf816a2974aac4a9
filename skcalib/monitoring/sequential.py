"""A test of calibration that may be looked at after every sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skcalib._arguments import resolve_notion
from skcalib._validation import check_count, check_label_list, check_y, listed
from skcalib.kernels import Kernel
from skcalib.monitoring._alternatives import (
    HARMONICS,
    Alternatives,
    KernelAlternatives,
    ScoreAlternatives,
    TemperatureAlternatives,
)
from skcalib.notions import Canonical, Classwise, TopLabel
from skcalib.problem import check_problem

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skcalib._arguments import NotionLike

_BLOCK = 4096  # samples at a time
_MOST_POINTS = 2000  # of the path
_HALF = 0.5  # of the posterior weight, for a direction


@dataclass(frozen=True)
class Evidence:
    """What the evidence of a `SequentialCalibrationTest` is about.

    Attributes
    ----------
    event : str
        The event: "" for the positive class and the top label, or a class.
    direction : {"too_high", "too_low", "too_extreme", "too_moderate", "uneven"}
        What the forecasts are.
    low, high : float
        Range of scores in which the sum of the residuals of all samples is most significant.
    difference : float
        Observed frequency minus mean forecast in this range.
    since : int
        Number of samples after which the leading alternative has gained: an estimate of where the
        miscalibration begins.
    """

    event: str
    direction: str
    low: float
    high: float
    difference: float
    since: int

    def __str__(self) -> str:
        words = {
            "too_high": "too high",
            "too_low": "too low",
            "too_extreme": "too extreme",
            "too_moderate": "too moderate",
            "uneven": "miscalibrated",
        }
        what = f" for {self.event}" if self.event else ""
        sign = "too low" if self.difference > 0 else "too high"
        where = f"{sign} for scores from {self.low:.2g} to {self.high:.2g}"
        first = words[self.direction]
        said = where if first == sign else f"{first}, most of all {where}"
        return f"Forecasts{what} are {said}, since sample {self.since + 1:,}."


class SequentialCalibrationTest(BaseEstimator):
    r"""Test of calibration whose p-value is valid at every time: it may be looked at every day.

    A test for a fixed number of samples that is repeated as samples arrive rejects calibrated
    forecasts sooner or later. This one controls the probability of that over all times.

    Forecasts :math:`p_t` are made before the labels :math:`y_t`. Under calibration, the label has
    the probability :math:`p_t` given all that is known before. For an alternative probability
    :math:`q_{a,t}`, which depends on the forecast and on earlier samples, the likelihood ratio has
    the expectation 1. So the average over alternatives a with weights :math:`\pi_a`,

    .. math:: e_T = \sum_a \pi_a \prod_{t \le T} \frac{q_{a,t}(y_t)}{p_t(y_t)} ,

    is a test martingale, the *e-value*, and by Ville's inequality

    .. math:: P\bigl(\sup_T e_T \ge 1 / \alpha\bigr) \le \alpha .

    Parameters
    ----------
    labels : array-like of shape (n_classes,), default=None
        The class of each column of `y_proba`; [negative, positive] for a single column. None for
        0, 1, ... and False, True.
    notion : {"auto", "top_label", "classwise", "canonical"} or Notion, default="auto"
        What is tested. "auto": the positive class of two, else whether the prediction is right.
        "classwise": the average of the e-values of the classes. "canonical": all classes at once;
        the average of the e-values of the top label, of powers of all probabilities, and of the
        classes.
    features : "auto", int, callable or Kernel, default="auto"
        The alternatives. Each score always has a shift of the log odds, a slope of the standardised
        logit, and a mixture with a uniform distribution. "auto" adds four sines and cosines of the
        score and two of its rank, and a whole number that many and half as many. A function
        ``features(score)`` of scores (n,) returns others, of shape (n, J), best between -1 and 1. A
        :class:`~skcalib.kernels.Kernel` is for the residuals of earlier samples with similar
        forecasts, of all classes at once.
    alpha : float, default=0.05
        Level: largest probability that calibrated forecasts are ever rejected.

    Attributes
    ----------
    log_e_value_ : float
        Logarithm of the e-value now.
    largest_log_e_value_ : float
        Its maximum over all times.
    pvalue_ : float
        Anytime-valid p-value: one over the largest e-value, at most 1.
    rejected_ : bool
        Whether the e-value has reached :math:`1 / \alpha` at any time.
    rejected_at_ : int or None
        The first number of samples at which it had.
    n_samples_seen_ : int
        Number of samples of positive weight.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    path_ : ndarray of shape (n_points, 2)
        Number of samples and log e-value, at no more than 2,000 times.

    See Also
    --------
    skcalib.kernel_calibration_test : More powerful for one fixed number of samples.

    Notes
    -----
    **Order.** The e-value depends on the order of the samples, so two tests cannot be merged. The
    e-values of *independent* streams may be multiplied.

    **Delayed labels.** Add a sample when its label arrives. This is valid if the delay does not
    depend on the label given the past; if labels of one class arrive sooner, wait for all labels
    of a period.

    **Weights** are powers of the ratios and must be at most 1: the result is then conservative.

    **Batches** do not matter: samples are used one by one in their order, and only earlier samples
    enter the alternatives. The result is the same to the last bit, with a kernel up to rounding.

    Cost: about 80 alternatives for each score; no samples are stored, but 50 forecasts with a
    kernel. A million binary forecasts take some seconds.

    References
    ----------
    .. [1] J. Ville. Etude critique de la notion de collectif. 1939.
    .. [2] G. Shafer. Testing by betting. Journal of the Royal Statistical Society A 184, 2021.
    .. [3] A. Ramdas, P. Gruenwald, V. Vovk and G. Shafer. Game-theoretic statistics and safe
       anytime-valid inference. Statistical Science 38, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.monitoring import SequentialCalibrationTest
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=3000)
    >>> y = rng.random(3000) < p**1.3
    >>> test = SequentialCalibrationTest()
    >>> for week in np.split(np.arange(3000), 30):
    ...     _ = test.partial_fit(y[week], p[week])
    >>> test.rejected_, test.evidence().direction
    (True, 'too_high')
    """

    # The arguments of a metric are data, not metadata that a meta-estimator could route.
    __metadata_request__fit = {"y_true": UNUSED, "y_proba": UNUSED}  # noqa: RUF012
    __metadata_request__partial_fit = {"y_true": UNUSED, "y_proba": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        labels: ArrayLike | None = None,
        *,
        notion: NotionLike = "auto",
        features: Literal["auto"] | int | Callable[..., np.ndarray] | Kernel = "auto",
        alpha: float = 0.05,
    ) -> None:
        self.labels = labels
        self.notion = notion
        self.features = features
        self.alpha = alpha

    def fit(
        self, y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Start again, with these samples.

        Parameters
        ----------
        y_true, y_proba, sample_weight
            As in `partial_fit`.

        Returns
        -------
        SequentialCalibrationTest
            The object itself.
        """
        for name in [name for name in vars(self) if name.endswith("_") or name.startswith("_st")]:
            delattr(self, name)
        return self.partial_fit(y_true, y_proba, sample_weight)

    def partial_fit(
        self, y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add samples, in the order in which their labels became known.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probability of the positive class, or of each class, forecast before the labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of at most 1.

        Returns
        -------
        SequentialCalibrationTest
            The object itself.

        Raises
        ------
        ValueError
            For invalid input or parameters, labels that are unknown, and weights above 1. The
            samples before are kept.
        """
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha must lie strictly between 0 and 1, got {self.alpha!r}.")
        labels = self._known_labels(y_true, y_proba)
        problem = check_problem(y_true, y_proba, sample_weight=sample_weight, labels=labels)
        weight = problem.weight if sample_weight is not None else None
        if weight is not None and weight.max() > 1:
            raise ValueError(
                f"Weights must be at most 1 here, got {weight.max():.3g}: divide all weights of "
                "the stream by the largest possible one."
            )
        if not hasattr(self, "_streams"):
            self._start(problem.classes)
        for start in range(0, len(problem.weight), _BLOCK):
            self._add(problem.take(slice(start, start + _BLOCK)), weight is not None)
        return self

    def evidence(self) -> Evidence | None:
        """What the evidence is about; for the kernel, and without any evidence, None.

        Returns
        -------
        Evidence or None
            The direction, the scores, and since when.

        Raises
        ------
        NotFittedError
            Before the first sample.
        """
        check_is_fitted(self)
        if not self.log_e_value_ > 0:
            return None
        scores = [one for one in self._streams if isinstance(one.alternatives, ScoreAlternatives)]
        if not scores:
            return None
        strength = [_log_mean(one.alternatives.log_ratio, one.alternatives.prior) for one in scores]
        strongest = scores[int(np.argmax(strength))]
        return _evidence(strongest.event, strongest.alternatives)

    def _known_labels(self, y_true, y_proba):
        if hasattr(self, "classes_"):
            return self.classes_
        if self.labels is not None:
            return check_label_list(self.labels)
        y, n_columns = check_y(y_true), 1 if np.ndim(y_proba) < 2 else np.shape(y_proba)[1]
        numbered = np.arange(max(n_columns, 2))
        if y.dtype.kind == "b" and len(numbered) == 2:
            return np.array([False, True])
        if y.dtype.kind not in "iuf" or not np.isin(y, numbered).all():
            raise ValueError(
                f"labels must list the classes, because a batch may lack some; the labels here are "
                f"{listed(np.unique(y).tolist())}. For a single column [negative, positive]."
            )
        return numbered

    def _start(self, classes):
        n_classes = len(classes)
        notion = resolve_notion(self.notion).for_columns(n_classes)
        self.classes_ = classes
        self._streams = _streams(notion, self.features, classes)
        self._notion = notion
        self.n_samples_seen_ = 0
        self.log_e_value_ = self.largest_log_e_value_ = 0.0
        self.rejected_, self.rejected_at_, self.pvalue_ = False, None, 1.0
        self._step, self._points = 1, []

    def _add(self, problem, weighted):
        weight = problem.weight if weighted else None
        totals = []
        for stream in self._streams:
            ratios = stream.alternatives.advance(*stream.read(problem), weight)
            totals.append(_log_mean(ratios, stream.alternatives.prior))
        share = np.array([stream.prior for stream in self._streams])
        path = _log_mean(np.column_stack(totals), share)
        first = self.n_samples_seen_ + 1
        self.n_samples_seen_ += len(path)
        self._keep_points(first, path)
        self.log_e_value_ = float(path[-1])
        self.largest_log_e_value_ = max(self.largest_log_e_value_, float(path.max()))
        self.pvalue_ = float(np.exp(-self.largest_log_e_value_))
        above = np.flatnonzero(path >= -np.log(self.alpha))
        if len(above) and not self.rejected_:
            self.rejected_, self.rejected_at_ = True, int(first + above[0])

    def _keep_points(self, first, path):
        """Keep the path at multiples of a step, which doubles when there are too many points."""
        number = first + np.arange(len(path))
        kept = number % self._step == 0
        self._points += list(zip(number[kept].tolist(), path[kept].tolist(), strict=True))
        while len(self._points) > _MOST_POINTS:
            self._step *= 2
            self._points = [point for point in self._points if point[0] % self._step == 0]

    @property
    def path_(self) -> np.ndarray:
        """Number of samples and log e-value, at no more than about 2,000 times."""
        check_is_fitted(self, "classes_")
        last = (self.n_samples_seen_, self.log_e_value_)
        points = (
            self._points if self._points and self._points[-1] == last else [*self._points, last]
        )
        return np.array([(0, 0.0), *points])


# --- The e-values that are averaged ---------------------------------------------------------------


@dataclass
class _Stream:
    """Alternatives of one event or of all classes, with the weight of their e-value."""

    prior: float
    event: str
    alternatives: Alternatives
    notion: Any = None  # of one event; None for all columns
    number: int = 0

    def read(self, problem):
        """Scores and events of a score, or forecasts and events of all classes."""
        if self.notion is None:
            return problem.forecast, problem.target == 1
        pairs = list(self.notion.problems(problem.forecast, problem.target))
        forecast, target = pairs[self.number]
        return np.ascontiguousarray(forecast[:, 1]), target[:, 1] == 1


def _streams(notion, features, classes):
    n_classes = len(classes)
    if isinstance(features, Kernel):
        return [_Stream(1.0, "", KernelAlternatives(features, n_classes))]
    options: dict[str, Any] = {"harmonics": HARMONICS}
    if callable(features):
        options = {"harmonics": 0, "function": features}
    elif not isinstance(features, str):
        options = {"harmonics": check_count(features, "features")}
    elif features != "auto":
        raise ValueError(
            f"features must be 'auto', a whole number, a function or a Kernel, got {features!r}."
        )
    if isinstance(notion, Canonical) and n_classes > 2:
        found = [
            _Stream(1 / 3, "", ScoreAlternatives(**options), TopLabel()),
            _Stream(1 / 3, "", TemperatureAlternatives()),
        ]
        for k, label in enumerate(classes.tolist()):
            own = ScoreAlternatives(harmonics=0)
            found.append(_Stream(1 / (3 * n_classes), f"class {label}", own, Classwise(), k))
        return found
    if isinstance(notion, Classwise):
        return [
            _Stream(1 / n_classes, f"class {label}", ScoreAlternatives(**options), notion, k)
            for k, label in enumerate(classes.tolist())
        ]
    return [_Stream(1.0, "", ScoreAlternatives(**options), notion)]


def _log_mean(log_values, weight):
    """Logarithm of the weighted mean of values (..., A) given by their logarithms."""
    most = log_values.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        scaled = np.exp(log_values - most)
    found = most[..., 0] + np.log((scaled * weight).sum(axis=-1))
    return np.where(np.isinf(most[..., 0]), most[..., 0], found)


def _evidence(event, alternatives):
    """Direction and range of the alternatives, by their posterior weights."""
    log_weight = alternatives.log_ratio + np.log(alternatives.prior)
    if np.isfinite(log_weight.max()):
        posterior = np.exp(log_weight - log_weight.max())
    else:  # a label of probability 0
        posterior = (log_weight == np.inf).astype(np.float64)
    posterior /= posterior.sum()
    kinds: dict[str, float] = {}
    names = {"shift": ("too_low", "too_high"), "slope": ("too_moderate", "too_extreme")}
    for k, share in enumerate(posterior):
        kind, size = alternatives.kind_of(k)
        pair = names.get(kind, ("uneven", "uneven") if kind == "curve" else ("", "too_extreme"))
        name = pair[0] if size > 0 else pair[1]
        kinds[name] = kinds.get(name, 0.0) + float(share)
    best = max(kinds, key=lambda name: kinds[name])
    low, high, difference = alternatives.worst_range()
    return Evidence(
        event=event,
        direction=best if kinds[best] >= _HALF else "uneven",
        low=low,
        high=high,
        difference=difference,
        since=int(alternatives.lowest_at[int(log_weight.argmax())]),
    )
