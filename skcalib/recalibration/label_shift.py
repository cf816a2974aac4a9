"""Recalibration for class frequencies: by Bayes' rule, or from labels."""

from __future__ import annotations

import warnings
from operator import itemgetter
from typing import Literal, Self

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from skcalib._util.arithmetic import bin_ends
from skcalib._util.messages import shown
from skcalib._util.types import ArrayLike
from skcalib._util.validation import check_finite_columns, drop_zero_weights, number_of_samples
from skcalib.data.clusters import effective_size, outside_level
from skcalib.data.labels import check_label_list, listed
from skcalib.recalibration.base import (
    FittedFromSketch,
    LogitRecalibrator,
    Recalibrator,
    divided_by_sum,
)
from skcalib.scores import LossLike, weighted_mean
from skcalib.smoothers.partition import quantile_cuts

_EM_STEPS = 20  # after the optimiser, each of which raises the likelihood
_PRIOR = 0.5  # samples of each class that the prior of the frequencies stands for
_UNCERTAIN = 0.1  # standard error of a share that is worth a warning
_CELLS = 10  # of the scores whose frequencies are compared
_SMALL = 0.1  # ratio of variances below which a direction is left out of the comparison
_VIOLATED = 0.01  # p-value of the comparison that is worth a warning
#: Precisions of the prior of shifts that "auto" compares.
_PRECISIONS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
_STRONG = 1e12  # a precision that leaves no shift
_WEAK = 1e-2  # shrinkage of shifts, in samples, where a class has no label


class LabelShiftRecalibrator(Recalibrator):
    r"""Correct probabilities for other class frequencies (label shift).

    The forecasts are calibrated on one population (the source) and used on another (the target).
    Class frequencies differ, but the features of each class have the same distribution. The
    calibrated forecast on the target is then, by Bayes' rule,

    .. math:: p'_k \propto p_k\, \pi'_k / \pi_k ,

    with the class frequencies :math:`\pi` of the source and :math:`\pi'` of the target (Saerens,
    Latinne and Decaestecker, Neural Computation 14, 2002).

    With labels, `fit` takes the mean forecast as the frequencies of the source, unless these are
    given. It varies less than the frequencies of the labels, and corrects forecasts that are too
    high everywhere (Alexandari, Kundaje and Shrikumar, ICML 2020). In simulations with 1,000 labels
    the error of :math:`\pi'` was up to 7 times smaller; for three classes with forecasts that are
    too extreme it was a fifth larger. The map is then the identity until `adapt`. With
    ``target_prior="em"``, `adapt`, or `fit` without labels, estimates :math:`\pi'` from forecasts
    of the target. It maximises the concave log posterior density

    .. math:: \sum_i w_i \log \sum_k \pi'_k\, p_{ik} / \pi_k + \tfrac12 \sum_k \log \pi'_k ,

    where the weights have the sum of the effective sample size. The prior stands for half a sample
    of each class. Without it a rare class can get the frequency 0, which no later forecast
    corrects, with a standard error of 0.

    **What is assumed.** The features of a class have the same distribution in both populations, and
    the forecasts are calibrated on the source: put a recalibrator before this one, preferably
    `BiasCorrectedTemperatureScaling` (Alexandari, Kundaje and Shrikumar, ICML 2020). The
    distribution of a score on the target is then the mixture of its distributions in the classes of
    the source, with the weights :math:`\pi'`. If `fit` had labels of the source, `adapt` tests this
    without labels of the target: a chi-squared test of the frequencies of ten intervals of the
    score, the last column of two and the largest forecast of several. At the level of .01 it
    rejected at most .023 of simulated label shifts, and .99 where a feature had moved by one
    standard deviation. It cannot see what keeps these frequencies, such as other labels for the
    same features. Without labels of the source nothing is tested.

    **Undersampling.** A model that was trained with all positives and a share r of the negatives is
    corrected by known frequencies. Only their ratios matter, so ``source_prior=[r * (1 - m), m]``
    (divided by its sum) and ``target_prior=[1 - m, m]`` give the same map for each m: :math:`p' = r
    p / (r p + 1 - p)`.

    Parameters
    ----------
    source_prior : array-like of shape (n_classes,), default=None
        Class frequencies :math:`\pi`, in the order of the columns; None for the mean forecast in
        `fit` with `y`.
    target_prior : "em" or array-like of shape (n_classes,), default="em"
        Class frequencies :math:`\pi'`, or "em": with labels, `fit` takes those of the source, or
        of the labels if those of the source are given; without, it estimates the frequencies.
    loss : {"log", "brier", "spherical", "rps"} or ProperScore, default="log"
        What ``loss_before_`` and ``loss_after_`` are measured in, if `fit` gets labels.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class. Without `y` the classes are
        numbered from 0 by default.

    Attributes
    ----------
    source_prior_, target_prior_ : ndarray of shape (n_classes,)
        The class frequencies of the map.
    standard_error_ : ndarray of shape (n_classes,)
        Standard errors of ``target_prior_``, from the information of the likelihood and the prior,
        and that of the mean forecast of the source, if it is ``source_prior_``; 0 if the
        frequencies are given. They treat the forecasts as calibrated. A `UserWarning` lists the
        classes whose frequency is less than two of them from 0: limits are then 0 and the frequency
        plus two standard errors.
    pvalue_ : float
        Of the test of the assumption; NaN where nothing is tested. A value below .01 is a
        `UserWarning`.

    See Also
    --------
    skcalib.recalibration.BiasCorrectedTemperatureScaling : Recommended before this one.
    InterceptRecalibrator : Fits the ratios of the frequencies to labels of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import LabelShiftRecalibrator
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(20_000, 2, random_state=0)
    >>> p, y = data.posterior[:, 1], data.y
    >>> kept = (y == 1) | (np.random.default_rng(0).random(20_000) < 0.2)  # fewer negatives
    >>> shift = LabelShiftRecalibrator(source_prior=[np.mean(y == 0), np.mean(y)]).fit(p[kept])
    >>> shift.target_prior_.round(2), np.mean(y[kept]).round(2)
    (array([0.16, 0.84]), np.float64(0.84))
    """

    _takes_soft = False

    def __init__(
        self,
        source_prior: ArrayLike | None = None,
        target_prior: Literal["em"] | ArrayLike = "em",
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
    ) -> None:
        self.source_prior = source_prior
        self.target_prior = target_prior
        super().__init__(input=input, loss=loss, labels=labels)

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the class frequencies.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Forecasts: without `y`, of the target; with `y`, usually of the source, as in a
            pipeline. In that case pass the forecasts of the target to `adapt`.
        y : array-like of shape (n_samples,), default=None
            Labels.

        Raises
        ------
        ValueError
            For invalid input; if the frequencies of the source are neither given nor follow from
            `y`; for a class that the source lacks, unless the frequencies are the same; and,
            without labels, for a class to which every forecast gives probability 0.
        """
        if y is not None:
            return super().fit(X, y, sample_weight)
        if self.source_prior is None:
            raise ValueError(
                "LabelShiftRecalibrator requires y to be passed, but the target y is None: pass "
                "labels, or as source_prior= the class frequencies for which the forecasts are "
                "calibrated."
            )
        self._check_parameters()
        raw = check_finite_columns(X, name="X")
        n_classes = max(2, raw.shape[1])
        classes = np.arange(n_classes) if self.labels is None else check_label_list(self.labels)
        if len(classes) != n_classes:
            raise ValueError(f"labels lists {len(classes)} classes, but X has {n_classes} columns.")
        weight, raw = drop_zero_weights(sample_weight, raw)
        values = self._validated(raw)
        self._set_columns(X, classes)
        samples = self._samples(values, None, weight)
        self._learn_priors(samples.forecast, None, weight)
        self.calibration_range_ = samples.ranges(self)
        return self

    def adapt(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the class frequencies of the target from its forecasts, and keep the others.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Forecasts of the target.

        Returns
        -------
        LabelShiftRecalibrator
            The recalibrator itself, with a new ``target_prior_``.

        Raises
        ------
        ValueError
            For invalid input, and for a class to which every forecast gives probability 0.
        """
        check_is_fitted(self)
        weight, values = drop_zero_weights(sample_weight, self._validated_columns(X))
        self._estimate_target(self._read(values), weight)
        return self

    def _fit_map(self, samples):
        frequency = weighted_mean(samples.target, samples.weight)
        self._learn_priors(samples.forecast, frequency, samples.weight)
        if self.source_prior is None:
            self._cells = _ClassCells(samples.forecast, samples.target, samples.weight)

    def _learn_priors(self, forecast, frequency, weight):
        """Class frequencies of both populations; `frequency` is that of the labels, or None."""
        n_classes, self._cells = len(self.classes_), None
        self._source_noise = np.zeros((n_classes, n_classes))
        if self.source_prior is None:
            mean = np.where(frequency > 0, weighted_mean(forecast, weight), 0.0)
            ratio = forecast / np.where(mean > 0, mean, 1.0)
            influence = weight[:, None] / weight.sum() * (ratio - 1)
            self.source_prior_, self._source_noise = mean / mean.sum(), influence.T @ influence
            frequency = self.source_prior_
        else:
            self.source_prior_ = self._checked(self.source_prior, "source_prior")
        if not isinstance(self.target_prior, str):
            target = self._checked(self.target_prior, "target_prior")
        elif self.target_prior != "em":
            raise ValueError(
                "target_prior must be 'em' or the frequency of each class, got "
                f"{shown(self.target_prior)}."
            )
        elif frequency is None:
            self._estimate_target(forecast, weight)
            return
        else:
            target = frequency
        if not np.array_equal(target, self.source_prior_):
            self._refuse_absent()
        self._set_target(target, np.zeros(n_classes))

    def _checked(self, prior, name):
        """Frequencies (K,) that sum to one."""
        try:
            shares = np.array(prior, dtype=np.float64)
        except (OverflowError, TypeError, ValueError):
            shares = np.empty(0)
        n_classes = len(self.classes_)
        if shares.shape != (n_classes,) or not abs(shares.sum() - 1) < 1e-6 or shares.min() <= 0:
            raise ValueError(
                f"{name} must have a positive frequency for each of the {n_classes} classes, and "
                f"they must sum to 1; got {shown(prior)}."
            )
        return shares / shares.sum()

    def _refuse_absent(self):
        """Raise for classes that the source lacks, where the target may have them."""
        absent = self.classes_[self.source_prior_ == 0]
        if len(absent):
            raise ValueError(
                f"The source has no samples of the classes {listed(absent)}, or gives each "
                "forecast of them as 0, so their probabilities cannot be corrected: pass a "
                "positive source_prior for each class."
            )

    def _estimate_target(self, forecast, weight):
        self._refuse_absent()
        ratio = forecast / self.source_prior_
        absent = self.classes_[~(ratio > 0).any(axis=0)]
        if len(absent):
            raise ValueError(
                f"Every forecast gives probability 0 to the classes {listed(absent)}, so their "
                "frequencies cannot be estimated: leave these columns out, or pass target_prior."
            )
        share, size, pvalue = weight / weight.sum(), effective_size(weight), np.nan
        target = _maximise(ratio, share, size, forecast.mean(axis=0))
        errors, influence = _standard_errors(ratio, share, size, target, self._source_noise)
        if self._cells is not None:
            pvalue = self._cells.pvalue(forecast, share, target, influence)
        self._set_target(target, errors, pvalue)
        near = self.classes_[target < 2 * errors]
        if errors.max() > _UNCERTAIN or len(near):
            unclear = f", and the classes {listed(near)} may be absent" if len(near) else ""
            warnings.warn(
                "The class frequencies of the target are uncertain: their standard errors are up "
                f"to {errors.max():.2g}{unclear}. The forecasts hardly distinguish some classes, "
                "or there are too few of them: use more samples, or pass target_prior.",
                UserWarning,
                stacklevel=outside_level(),
            )
        if pvalue < _VIOLATED:
            warnings.warn(
                "The scores of the target are no mixture of those of the classes of the source "
                f"(p = {pvalue:.2g}): more than the class frequencies changed, or the forecasts "
                "are not calibrated on the source. The map may do harm: use labels of the target.",
                UserWarning,
                stacklevel=outside_level(),
            )

    def _set_target(self, prior, errors, pvalue=np.nan):
        self.target_prior_, self.standard_error_, self.pvalue_ = prior, errors, float(pvalue)
        ratio = self._ratio()
        self.injective_ = bool((ratio > 0).all())
        self.preserves_argmax_ = self.preserves_order_ = bool(np.ptp(ratio) < 1e-12)

    def _ratio(self):
        """Factors of the forecasts (K,); 1 for a class that neither population has."""
        source, target = self.source_prior_, self.target_prior_
        return np.divide(target, source, out=np.ones(len(source)), where=source > 0)

    def _apply_map(self, forecast):
        ratio = self._ratio()
        if np.ptp(ratio) == 0:
            return forecast
        # No probability is left where a forecast is certain of a class that the target lacks.
        return divided_by_sum(forecast * ratio, forecast)

    def _write_map(self, add, x):
        ratio = self._ratio()
        return x if np.ptp(ratio) == 0 else add("normalise", add("scale", x, factor=ratio), x)


def _maximise(ratio, share, size, start):
    """Frequencies (K,) of the largest posterior density of mixtures with densities `ratio` (n, K).

    `share` (n,) are weights that sum to one, and `size` is the number of samples.
    """
    pull = _PRIOR / size

    def gradient(prior):
        """Of the mean log likelihood."""
        return (share / (ratio @ prior)) @ ratio

    def loss(theta):
        prior = softmax(theta)
        value = share @ np.log(ratio @ prior) + pull * log_softmax(theta).sum()
        return -value, -prior * (gradient(prior) - 1) - pull * (1 - len(prior) * prior)

    options = {"gtol": 1e-10, "ftol": 1e-15, "maxiter": 1000}
    prior = softmax(minimize(loss, np.log(start), jac=True, method="L-BFGS-B", options=options).x)
    for _ in range(_EM_STEPS):
        prior = prior * gradient(prior) + pull
        prior /= prior.sum()
    return prior


def _standard_errors(ratio, share, size, prior, source):
    """Sandwich standard errors (K,) of the frequencies, and the influence of samples (n, K).

    `source` (K, K) is the covariance of the log frequencies of the source.
    """
    residual = ratio * prior / (ratio @ prior)[:, None]
    mean = share @ residual
    residual -= mean
    covariance = (residual.T * share) @ residual
    within = _multinomial(mean) - covariance  # mean covariance of the classes given the forecasts
    basis = null_space(np.ones((1, len(prior))))
    total = 1 + _PRIOR * len(prior) / size
    # The information of the prior about log ratios of frequencies.
    pull = np.eye(len(prior)) / len(prior) + total * np.outer(prior, prior)
    pull = _PRIOR * len(prior) * pull
    information = basis.T @ (size * covariance + pull) @ basis
    slope = _multinomial(prior) @ basis @ np.linalg.solve(information, basis.T)
    noise = size**2 * (residual.T * share**2) @ residual + pull + size**2 * within @ source @ within
    return np.sqrt(np.diag(slope @ noise @ slope.T)), size * residual @ slope.T


class _ClassCells:
    """Frequencies of intervals of the score in each class of the source."""

    def __init__(self, forecast, target, weight):
        self.edges = quantile_cuts(_score(forecast), _CELLS)
        mass = target.T * (weight / weight.sum())
        self.size = np.array([effective_size(of_class) for of_class in mass])
        sums = mass @ self._marks(forecast)  # a class without samples is refused later
        self.frequency = sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-300)

    def _marks(self, forecast):
        cell = np.searchsorted(bin_ends(self.edges), _score(forecast))
        return np.eye(len(self.edges) + 1)[cell]

    def pvalue(self, forecast, share, prior, influence):
        """Of the hypothesis that the target is a mixture of the classes with the shares `prior`."""
        marks, mixture = self._marks(forecast), prior @ self.frequency
        seen = share @ marks
        residual = marks - influence @ self.frequency - seen
        # Variances of the frequencies are those of the mixture, also where a cell is empty.
        covariance = (share @ share) * (_multinomial(mixture) - _multinomial(seen))
        covariance += (residual.T * share**2) @ residual
        for class_share, size, frequency in zip(prior, self.size, self.frequency, strict=True):
            covariance += class_share**2 / size * _multinomial(frequency)
        values, vectors = np.linalg.eigh(covariance)
        large = values > _SMALL * values[-1]
        normal = (vectors.T @ (seen - mixture))[large] ** 2 / values[large]
        return float(chi2.sf(normal.sum(), large.sum())) if values[-1] > 0 else np.nan


def _score(forecast):
    return forecast[:, 1] if forecast.shape[1] == 2 else forecast.max(axis=1)


def _multinomial(frequency):
    return np.diag(frequency) - np.outer(frequency, frequency)


# --- A shift that is fitted to labels -------------------------------------------------------------


class InterceptRecalibrator(FittedFromSketch, LogitRecalibrator):
    r"""Shift of the log odds: :math:`softmax(\log s + b)`, one offset for each class.

    The map of a model that was trained with other class frequencies, by undersampling or class
    weights, where these frequencies are unknown: it is Bayes' rule with the ratios :math:`e^{b_k}`
    of the frequencies (`LabelShiftRecalibrator`), fitted to labels. For two classes it is an update
    of the intercept alone (Steyerberg et al., Statistics in Medicine 23, 2004). With the log loss,
    the mean probability of each class is its frequency in the calibration set. Injective; the
    ranking by each ratio of two probabilities is kept, and the predicted class may change.

    If a class has no label, its best offset is :math:`-\infty`. All offsets are then shrunk towards
    0 with the weight of a hundredth of a sample; if all labels are the same, there is a
    `ConvergenceWarning`.

    Parameters
    ----------
    shrinkage : float or "auto", default=0.0
        Precision of a normal prior of the offsets around 0. "auto" takes that of the largest
        marginal likelihood (Laplace's approximation) among 1000, 300, ..., .3: with few samples or
        many classes the offsets are then small unless the labels require them. The mean
        probability of a class is no longer exactly its frequency.

    Attributes
    ----------
    intercept_ : array of shape (n_classes,)
        Offsets b, which sum to zero.
    shrinkage_ : float
        The precision in use.
    n_iter_ : int
        Iterations of the fit.

    See Also
    --------
    skcalib.recalibration.BiasCorrectedTemperatureScaling : With a temperature.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import InterceptRecalibrator
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(20_000, 2, random_state=0)
    >>> odds = 10 * data.posterior[:, 1] / data.posterior[:, 0]  # ten times too high
    >>> shift = InterceptRecalibrator().fit(odds / (1 + odds), data.y)
    >>> np.exp(np.diff(shift.intercept_)).round(1)
    array([0.1])
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        shrinkage: float | Literal["auto"] = 0.0,
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.shrinkage = shrinkage

    def _fit_map(self, samples):
        score, logits, target = samples.score, samples.forecast, samples.target
        share = samples.weight / samples.weight.sum()
        labelled, size = target.any(axis=0), number_of_samples(samples.weight, samples.count)
        automatic, fits = isinstance(self.shrinkage, str), []
        for precision in _PRECISIONS if automatic else [self.shrinkage]:
            pull = min(max(precision, 0.0 if labelled.all() else _WEAK), _STRONG) / size

            def objective(shift, pull=pull):
                loss, slope = score.logit_loss(target, logits + shift)
                return share @ loss + pull / 2 * shift @ shift, share @ slope + pull * shift

            start = fits[-1][-1].x if fits else np.zeros(logits.shape[1])
            options = {"gtol": 1e-10, "ftol": 1e-13}
            fit = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
            evidence = 0.0
            if automatic:
                evidence = _evidence(logits + fit.x, target, size * share, precision, fit.x)
            fits.append((evidence, float(precision), fit))
        _, self.shrinkage_, fit = max(fits, key=itemgetter(0))
        converged = fit.success or np.abs(fit.jac).max() < 1e-4  # or rounding ended the search
        self.intercept_, self.n_iter_ = fit.x - fit.x.mean(), int(fit.nit)
        self.injective_ = True
        self.preserves_argmax_ = self.preserves_order_ = bool(np.ptp(self.intercept_) == 0)
        if (labelled.sum() == 1 and self.shrinkage_ < _WEAK) or not converged:
            warnings.warn(
                "InterceptRecalibrator: the labels are all the same, and the best offsets are "
                f"infinite; they were shrunk towards 0 with the weight of {_WEAK:g} samples."
                if converged
                else f"InterceptRecalibrator did not converge: {fit.message}.",
                ConvergenceWarning,
                stacklevel=outside_level(),
            )

    def _apply_map(self, logits):
        return softmax(logits + self.intercept_, axis=1)

    def _write_map(self, add, x):
        return add("softmax", add("scale", x, shift=self.intercept_))


def _evidence(logits, target, weight, precision, shift):
    """Log marginal likelihood of offsets with a normal prior, by Laplace's approximation."""
    log = log_softmax(logits, axis=1)
    p = np.exp(log)
    information = np.diag(weight @ p) - (p.T * weight) @ p
    likelihood = weight @ np.sum(target * log, axis=1) - precision / 2 * shift @ shift
    # A constant added to all offsets has no effect: its direction cancels here.
    hessian = information / precision + np.eye(len(shift))
    return likelihood - 0.5 * np.linalg.slogdet(hessian)[1]


# --- Frequencies given the predicted class --------------------------------------------------------


class LabelFrequency(Recalibrator):  # numpydoc ignore=PR02
    """Predict the label frequencies given the predicted class (G22, appendix E.1).

    Every forecast with the same predicted class is mapped to the class frequencies among those
    samples. The map is calibrated. It keeps the accuracy if the prediction is the most frequent
    label, but it loses all other sharpness. It illustrates why injective maps are preferable.

    Attributes
    ----------
    frequencies_ : array of shape (n_classes, n_classes)
        Row k: label frequencies where class k is predicted; the overall frequencies if it never is.

    See Also
    --------
    IdentityRecalibrator : Leaves the probabilities unchanged.
    LabelShiftRecalibrator : Adapts them to new frequencies of the classes.

    Examples
    --------
    >>> from skcalib.recalibration import LabelFrequency
    >>> LabelFrequency().fit([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 0]).frequencies_
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    def _fit_map(self, samples):
        target, weight = samples.target, samples.weight
        top = samples.forecast.argmax(axis=1)
        overall = weight @ target / weight.sum()
        frequencies = []
        for k in range(target.shape[1]):
            w = weight * (top == k)
            frequencies.append(w @ target / w.sum() if w.any() else overall)
        self.frequencies_ = np.array(frequencies)
        self.injective_ = self.preserves_order_ = False
        most_frequent = self.frequencies_.argmax(axis=1)
        self.preserves_argmax_ = bool((most_frequent == np.arange(len(most_frequent))).all())

    def _apply_map(self, forecast):
        return self.frequencies_[forecast.argmax(axis=1)]

    def _write_map(self, add, x):
        return add("matrix", add("top", x, tolerance=0.0), coef=self.frequencies_)
