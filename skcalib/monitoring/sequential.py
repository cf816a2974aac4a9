"""A test of calibration that may be looked at after every sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skcalib.kernels import Kernel
from skcalib.monitoring._streams import Evidence, Streams, check_alpha, check_stream

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skcalib._arguments import NotionLike

_BLOCK = 4096  # samples at a time
_MOST_POINTS = 2000  # of the path


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
        check_alpha(self.alpha)
        given = y_true, y_proba, sample_weight
        problem, weight = check_stream(*given, self.labels, getattr(self, "classes_", None))
        if not hasattr(self, "classes_"):
            self._start(problem.classes)
        for start in range(0, len(problem.weight), _BLOCK):
            rows = slice(start, start + _BLOCK)
            self._add(problem.take(rows), None if weight is None else weight[rows])
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
        return self._streams.evidence()

    def _start(self, classes):
        self.classes_ = classes
        self._streams = Streams(self.notion, self.features, classes)
        self.n_samples_seen_ = 0
        self.log_e_value_ = self.largest_log_e_value_ = 0.0
        self.rejected_, self.rejected_at_, self.pvalue_ = False, None, 1.0
        self._step, self._points = 1, []

    def _add(self, problem, weight):
        path = self._streams.average(self._streams.advance(problem, weight))
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
