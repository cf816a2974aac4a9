"""`GroupingLossEstimator`, and the grouping loss before and after a correction.

`fit_problem` chooses between the partition bound and the risk bound (`skcalib.grouping.bounds`);
`collect` makes the attributes from the fits.
"""

from __future__ import annotations

import numbers
import threading
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state, indexable
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from skcalib._util.formatting import Record, nonnegative_text, pvalue_text
from skcalib._util.messages import shown
from skcalib._util.parallel import run_each, threads_for
from skcalib._util.parameters import check_choice, check_parameters_of, checks_parameters
from skcalib._util.types import (
    CV,
    ArrayLike,
    Label,
    MatrixLike,
    PartitionerLike,
    RandomState,
    ResponseMethod,
    Strategy,
)
from skcalib._util.validation import (
    check_count,
    check_indices,
    check_proba,
    take_rows,
    weighted_features,
)
from skcalib.data.clusters import numbers_by_appearance
from skcalib.data.features import encode_features
from skcalib.data.notions import Canonical, Notion, NotionLike, resolve_notion
from skcalib.data.problem import Problem, check_problem
from skcalib.estimators.classifiers import ClassifierInspector
from skcalib.grouping.bounds import (
    GroupingFit,
    GroupingProblem,
    Options,
    ScoreCurve,
    fit_given_regions,
    fit_partition,
    fit_risk,
)
from skcalib.grouping.partition import allows_nan, is_estimator
from skcalib.recalibration import CalibrationImprovement
from skcalib.recalibration.base import recalibrated_proba
from skcalib.recalibration.held_out import check_after, improvement_of_forecasts, is_fitted_map
from skcalib.scores import LossLike, ProperScore, resolve_loss
from skcalib.smoothers import SmootherLike, resolve_smoother
from skcalib.stats.means import MeanInterval
from skcalib.stats.pvalues import bonferroni

if TYPE_CHECKING:
    from skcalib.smoothers import Smoother

#: Held by `fit` while it stores the attributes.
_STORING = threading.Lock()


class GroupingLossEstimator(ClassifierInspector):
    r"""Estimate a lower bound of the grouping loss, which no recalibration removes (L23).

    A calibrated classifier can be wrong for every group: over-confident for one, under-confident
    for another, and right on average. With Q = E[Y|X] and C = E[Y|S], the expected loss of the
    score S is the sum

    .. math:: E\,L(Y, S) = \underbrace{E\,D(C, S)}_{calibration} +
        \underbrace{E\,D(Q, C)}_{grouping} + \underbrace{E\,L(Y, Q)}_{irreducible} .

    **The number.** A model of (score, features) corrects the held-out calibration curve
    :math:`\hat C` on the other folds. With its steps m the bound is the reduction of the loss,

    .. math:: GL \ge E\,L(Y, \hat C) - E\,L(Y, \hat C + m) , \qquad E[m|S] = 0 .

    The steps are the best mixture of a linear model, of products of features and of boosted trees
    (:ref:`grouping_loss`). Levels and weights are those of the lowest loss on the other folds, and
    the step is 0 unless the gain on these exceeds its standard error. What a function of the score,
    of its rank and of the curve explains is removed from m. So a curve that does not fit is not
    mistaken for grouping loss.

    **The regions.** ``method="partition"`` divides each level set of the score into regions of
    similar features. The partition is learned on one half of the data and evaluated on the other
    (L23 prop. 4.2-4.3):

    .. math:: GL \ge \underbrace{E\,D(R, C_B) - bias}_{explained} -
        \underbrace{E\,D(\hat C, \bar C_B)}_{induced\ by\ binning} ,

    where R are the label frequencies of the regions and :math:`C_B` those of the level sets. The
    bias correction (a jackknife) is exact in expectation for Brier. For other scores it leaves a
    bias of second order. The explained log loss is too large if regions have fewer than one label
    of a rare class, so it needs larger regions. With many classes a level set is wide, and the
    induced term may exceed the grouping loss. "auto" compares a region with the mean of the curve
    in it, so that nothing is induced. For jointly convex D, Jensen's inequality gives

    .. math:: GL \ge \underbrace{E\,D(R, \bar C_R) - bias}_{explained} -
        \underbrace{E\,D(C_B, \bar C_B) - bias}_{error\ of\ the\ curve} .

    Parameters
    ----------
    estimator : classifier or None, default=None
        The classifier. With None, pass ``y_proba`` to `fit`, and as X any representation, such as
        the penultimate layer of a network. The log-probabilities of the network contain little
        additional information.
    loss : {"brier", "log", "spherical", "rps"} or ProperScore, default="brier"
        The proper score.
    notion : str or Notion, default="canonical"
        "canonical", "auto", "classwise", "top_label" or "cumulative". For two classes, the positive
        class. For "canonical" with more classes, the level sets are cells of the simplex that are
        cut at medians.
    partitioner : None, "stump", "kmeans" or estimator, default=None
        None: a histogram tree. "stump": one split at the median of a feature, which gives a simple
        rule; ties at the median are not split, and each side has at least a third of the samples.
        "kmeans": clusters of `region_ratio` standardised samples. Any scikit-learn estimator with
        `apply` or `predict` gets the features as numbers, and its seeds that are None are set from
        `random_state`. ``KMeans(2)`` is the other partition of L23 into two regions. For "risk": a
        regressor that is fitted to the residual, or a classifier, in place of the default model.
    n_bins : int, default=15
        Maximum number of level sets, 15 as in L23; fewer if one would not have three regions of
        measured samples.
    strategy : {"quantile", "uniform"}, default="quantile"
        Level sets of equal mass or equal width.
    region_ratio : int, default=12
        Measured samples per region. A value below 6 gives a warning, because the bound is then
        unreliable.
    smoother : None, str, Smoother or classifier, default=None
        The continuous calibration curve, fitted on the half that is not measured. None is
        `LogitSmoother`, with the averaged maps that :func:`~skcalib.proper_calibration_error` uses
        by default. They are fitted to normal scores of the ranks of the log odds, in place of the
        log odds, where the log evidence of these is larger by 5: as where most scores are crowded
        at one value. Other values are those of that function.
    method : {"auto", "partition", "risk"}, default="auto"
        "auto": the number, its interval and the p-value are those of the model, and the regions
        explain them; given regions are measured against the curve, without a model. "partition":
        the estimator of L23. "risk": the model without regions.
    test_size : float, default=0.5
        Share of the samples that are measured, stratified by score.
    swap : bool, default=False
        Average over both roles of the halves.
    n_permutations : int, default=200
        Permutations of the test of "partition"; 0 for none, and a p-value of nan. Their number is
        doubled while no permutation reaches the observed statistic, up to 100,000 or fewer for many
        samples.
    cv : None, int or splitter, default=None
        None if the classifier is already fitted and (X, y) are held-out data. Otherwise its
        probabilities are computed out of fold. It also sets the folds of the model, 5 by default.
    confidence_level : float, default=0.95
        Level of the intervals.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        "auto" is predict_proba, if there is one. Decision values have any scale: they are divided
        by their spread, and become probabilities through the logistic function or the softmax
        (:ref:`decision_values`).
    labels : array-like of shape (n_classes,), default=None
        With ``estimator=None``, the class of each column of `y_proba`.
    n_jobs : int, default=None
        Number of parallel jobs, over folds and problems of the notion. 1 means one core.
    random_state : int, RandomState instance or None, default=0
        Seed of the halves, trees, clusters and permutations.

    Attributes
    ----------
    grouping_loss_ : float
        The lower bound; 0 or slightly negative if no grouping loss is found.
    confidence_interval_ : tuple of float
        Normal interval of the bound. It accounts for the measured samples, not for the partition.
    standard_error_ : float
        Standard error of the bound.
    pvalue_ : float
        p-value of "no grouping loss": one-sided normal test of the slope of the loss towards the
        model, with the variance doubled because folds depend on each other. "partition": residuals
        are permuted among neighbours in the score. Several problems are combined by Bonferroni.
    valid_ : bool
        False where the bound tells nothing. For regions: the standard error (or for "partition" the
        induced term) exceeds the bound, the interval lies below 0, or ``irreducible_bound_``
        exceeds ``expected_loss_``.
    reason_ : str
        Why it is not valid, and what to do, in one sentence.
    plugin_, bias_, explained_, induced_ : float
        Terms of the bound of the regions, nan for "risk". ``induced_`` is what is subtracted: for
        "auto" the error of the curve in the level sets.
    calibration_error_ : float
        The reduction of the loss by the cross-fitted calibration curve, which needs no bins.
        "partition": the calibration error of the binned score, :math:`E\,D(C_B, S_B)`. It is
        debiased by a jackknife, so it may be negative. If D is jointly convex, its target is at
        most the calibration error of the score.
    calibration_induced_ : float
        The part of the calibration error that binning removes, :math:`E[D(C, S) - D(C_B, S_B)]`.
        For Brier it is :math:`E\,V[S - C|S_B]`, which is not negative (L23 prop. C.2). C is
        estimated by the curve. For Brier the error of the curve inside the level sets is added, so
        the estimate is slightly too large, of order 1/n. (The code of L23 has the opposite sign.)
        0 without bins, for "auto" and "risk".
    calibration_error_corrected_ : float
        Calibration error of the score itself: ``calibration_error_ + calibration_induced_``.
    expected_loss_ : float
        Mean loss of the score.
    irreducible_bound_ : float
        Upper bound of the irreducible loss: the loss minus ``epistemic_bound_``. If that bound is
        nan or infinite, it is the loss of the calibration curve minus the grouping loss.
    epistemic_bound_ : float
        Lower bound of :math:`E\,D(Q, S)`: ``calibration_error_`` plus ``grouping_loss_``. For
        "partition" and a score whose D is not jointly convex it is nan, and reading it gives a
        warning.
    binned_epistemic_bound_ : float
        The same bound without a calibration curve (L23 theorem C.1, corollary C.2): calibration
        plus explained, minus :math:`E[2 cov(Y, S|S_B) - var(S|S_B)]`. For "partition" and
        quadratic scores, else nan.
    regions_ : list of Region
        The regions, the most harmful first: see :class:`~skcalib.grouping.Region`. The gap of a
        region is the expected frequency at equal scores minus the mean outcome, so a score that is
        equally wrong for all regions has no gap. ``pandas.DataFrame(regions_)`` makes a table.
        Empty for "risk".
    n_regions_ : int
        Regions before single samples were merged into the region most like them.
    scale_ : float
        Total weight of the parts of the model, averaged over folds and problems; nan for
        "partition".
    classes_ : array of shape (n_classes,)
        Classes, in the order of the columns.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    GroupingDisplay : Draws the regions.
    CalibrationErrorEstimator : The part of the loss that recalibration removes.
    grouping.differences_at_equal_scores : Finds groups that are defined by rules of the features.

    Notes
    -----
    The error that binning removes can be large, most with few level sets of equal width: use
    ``calibration_error_corrected_`` (:ref:`grouping_loss`).

    ``epistemic_bound_`` needs a score with ``jointly_convex``, such as Brier and log, because
    binning may increase the calibration error of other scores (:ref:`grouping_loss`).
    The model has no bins, so its bound holds for every score, and so does ``irreducible_bound_``.

    An injective recalibration leaves the grouping loss unchanged (L23 lemma C.5). The classwise
    standard error is the mean over classes, as if their errors were perfectly correlated.

    Examples
    --------
    >>> from skcalib import GroupingLossEstimator
    >>> from skcalib.datasets import make_grouping_problem
    >>> data = make_grouping_problem(10_000, random_state=0)
    >>> estimator = GroupingLossEstimator(random_state=1).fit(data.X, data.y, y_proba=data.y_proba)
    >>> round(estimator.grouping_loss_, 4), round(data.truth["grouping_brier"], 4)
    (0.0054, 0.0059)
    >>> estimator.pvalue_ < 0.01
    True
    """

    _takes_incomplete = True

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        loss: LossLike = "brier",
        notion: NotionLike = "canonical",
        partitioner: PartitionerLike = None,
        n_bins: int = 15,
        strategy: Strategy = "quantile",
        region_ratio: int = 12,
        smoother: SmootherLike = None,
        method: Literal["auto", "partition", "risk"] = "auto",
        test_size: float = 0.5,
        swap: bool = False,
        n_permutations: int = 200,
        cv: CV = None,
        confidence_level: float = 0.95,
        response_method: ResponseMethod = "auto",
        labels: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.estimator = estimator
        self.loss = loss
        self.notion = notion
        self.partitioner = partitioner
        self.n_bins = n_bins
        self.strategy = strategy
        self.region_ratio = region_ratio
        self.smoother = smoother
        self.method = method
        self.test_size = test_size
        self.swap = swap
        self.n_permutations = n_permutations
        self.cv = cv
        self.confidence_level = confidence_level
        self.response_method = response_method
        self.labels = labels
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike | Problem | None,
        y_proba: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        regions: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Estimate the grouping loss on (X, y).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features: numbers, times and categories. A warning names columns that are left out, such
            as free text and identifiers (:ref:`features`). Missing values are allowed if the
            partitioner accepts them; the default one does. The classifier gets X unchanged.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Labels; or soft labels, as in :func:`~skcalib.proper_calibration_error`, with `y_proba`
            or a fitted classifier. Of an indicator matrix with missing cells (NaN) each label uses
            its known rows. A ``skcalib.data.problem.Problem`` of the rows of X holds validated
            forecasts too.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes), default=None
            Probabilities, with ``estimator=None``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights for the means, the curve and the trees; with `cv` also passed to the classifier.
        regions : array-like of shape (n_samples,), default=None
            Regions that are known in advance, such as a clinic or an age group, and not derived
            from these labels. All samples are then measured.
        groups : array-like of shape (n_samples,), default=None
            The cluster of each sample, such as a patient, by any labels. Halves and folds then
            consist of whole clusters, and the noise of the regions is that of clusters. The test
            draws signs of clusters instead of permuting samples (:ref:`clusters`). A splitter in
            `cv` receives the groups, and a number of folds means `StratifiedGroupKFold`.
        **fit_params : dict
            With `cv`: further parameters of the `fit` of the classifier. Routed as metadata where
            metadata routing is enabled.

        Returns
        -------
        GroupingLossEstimator
            The fitted estimator.

        Raises
        ------
        ValueError
            For invalid input, and for features that are sparse, infinite or all left out.
        """
        score = check_parameters(self)
        if self.estimator is not None and y_proba is not None:
            raise ValueError(
                "y_proba and an estimator were both given: drop y_proba, or set estimator=None to "
                "evaluate these probabilities. Weights are passed as sample_weight=."
            )
        if self.method == "risk" and regions is not None:
            raise ValueError("method='risk' has no regions: use 'partition' to measure given ones.")
        problem, rows = self._forecasts(
            X, y, sample_weight, fit_params, groups=groups, y_proba=y_proba
        )
        problem.require_order(resolve_notion(self.notion), score)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1000))
        (X,) = indexable(X)
        n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
        regions = None if regions is None else check_regions(regions, n_samples)[rows]
        encoded = encode_features(
            X if len(rows) == n_samples else take_rows(X, rows),
            allow_nan=allows_nan(self.partitioner),
        )
        notion = resolve_notion(self.notion).for_columns(len(problem.classes))
        method = "partition" if self.method == "auto" and regions is not None else self.method
        smoother = ScoreCurve() if self.smoother is None else resolve_smoother(self.smoother)
        smoother = smoother.for_loss(score)

        def tasks():
            pairs = notion.problems(problem.forecast, problem.target)
            names = notion.column_names(problem.classes)  # these never end
            for k, ((forecast, target), events) in enumerate(zip(pairs, names, strict=False)):
                arrays = {
                    "forecast": forecast,
                    "target": target,
                    "weight": problem.weight,
                    "features": encoded.values,
                    "cluster": problem.cluster,
                    "regions": regions,
                }
                if problem.is_incomplete:
                    known = np.flatnonzero(~np.isnan(target[:, 0]))
                    arrays = {name: take_rows(array, known) for name, array in arrays.items()}
                if arrays["cluster"] is not None:
                    arrays["cluster"] = numbers_by_appearance(arrays["cluster"])
                if events is None:
                    events = [f"column {column}" for column in range(forecast.shape[1])]
                known_regions = arrays.pop("regions")
                part = GroupingProblem(events=events, **arrays)
                options = _make_options(self, encoded.features, len(part.weight), known_regions)
                model = score, smoother, self.partitioner
                yield part, *model, known_regions, options, method, seed + k

        with threads_for(encoded.values, self.n_jobs):
            fits = run_each(fit_problem, tasks(), n_jobs=self.n_jobs)
        with _STORING:  # the attributes are those of one fit, if several threads fit
            validate_data(self, X, skip_check_array=True)
            self.classes_ = problem.classes
            collect(self, fits, notion)
        return self

    @property
    def epistemic_bound_(self) -> float:
        r"""Lower bound of :math:`E\,D(Q, S)`: ``calibration_error_`` plus ``grouping_loss_``; nan,
        with a warning, for "partition" and a score whose D is not jointly convex.
        """
        check_is_fitted(self)
        if not _binning_reduces_calibration(self):
            warnings.warn(
                f"epistemic_bound_ is nan: the divergence of {self.loss!r} is not jointly convex, "
                "so binning may increase its calibration error and the sum may exceed E D(Q, S); "
                "use loss='brier' or 'log', or method='auto'.",
                UserWarning,
                stacklevel=2,
            )
            return np.nan
        return self.calibration_error_ + self.grouping_loss_

    def _given_forecasts(self, X, y, *, sample_weight, groups, y_proba):
        if y_proba is None:
            raise ValueError(
                "GroupingLossEstimator without an estimator needs the probabilities: pass y_proba "
                "next to the features X, fit(X, y, y_proba)."
            )
        if np.ndim(y_proba) == 1:
            try:
                check_proba(y_proba, name="y_proba", copy=False)
            except ValueError as error:
                raise ValueError(f"{error} Weights are passed as sample_weight=.") from None
        problem = check_problem(
            y,
            y_proba,
            resolve_notion(self.notion),
            sample_weight,
            self.labels,
            groups=groups,
            soft=True,
            remedy="labels",
            incomplete=True,
        )
        check_consistent_length(X, y)
        validate_data(self, X, skip_check_array=True)
        return problem

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        if self.estimator is None:
            tags.input_tags.allow_nan = True
        tags.input_tags.allow_nan &= allows_nan(self.partitioner)
        return tags


# --- Checks and shared options --------------------------------------------------------------------


def check_parameters(estimator: GroupingLossEstimator) -> ProperScore:
    """Parameters of the constructor; returns the score."""
    score = resolve_loss(estimator.loss)
    check_parameters_of(estimator)
    check_choice(estimator.method, "method", choices=("auto", "partition", "risk"))
    if not (isinstance(estimator.test_size, numbers.Real) and 0 < estimator.test_size < 1):
        raise ValueError(f"test_size must lie between 0 and 1, got {shown(estimator.test_size)}.")
    check_count(estimator.n_bins, "n_bins")
    model = estimator.partitioner
    if estimator.method == "risk" and not (model is None or is_estimator(model)):
        raise ValueError(
            "With method='risk' the partitioner must be None, a regressor of the residual or a "
            f"classifier, got {shown(model)}."
        )
    return score


def _make_options(estimator, features, n_samples, regions):
    """`Options` for so many samples, with or without given regions."""
    # A level set of a single region has nothing to compare.
    least, measured = 3 * estimator.region_ratio, n_samples * estimator.test_size
    if regions is not None:
        least, measured = estimator.region_ratio, n_samples
    return Options(
        n_bins=max(1, min(estimator.n_bins, int(measured // least))),
        strategy=estimator.strategy,
        region_ratio=estimator.region_ratio,
        test_size=estimator.test_size,
        swap=estimator.swap,
        by_curve=estimator.method == "auto",
        n_permutations=estimator.n_permutations,
        folds=5 if estimator.cv is None or estimator.estimator is not None else estimator.cv,
        confidence_level=float(estimator.confidence_level),
        features=features,
    )


def check_regions(regions: ArrayLike, n_samples: int) -> np.ndarray:
    """One region per sample."""
    regions = np.asarray(regions)
    if regions.shape != (n_samples,):
        raise ValueError(
            f"regions must have shape ({n_samples},), one region per sample; got {regions.shape}."
        )
    return regions


def fit_problem(
    problem: GroupingProblem,
    score: ProperScore,
    smoother: Smoother,
    partitioner: PartitionerLike,
    regions: np.ndarray | None,
    options: Options,
    method: str,
    seed: int,
) -> GroupingFit:
    """One problem by the method in use."""
    if regions is None and method != "partition" and len(problem.forecast) < 4:
        raise ValueError(
            "The grouping loss needs at least 4 samples: a model and its weights are fitted to "
            f"some of them and evaluated on others; got {len(problem.forecast)}."
        )
    if method == "risk":
        return fit_risk(problem, score, smoother, partitioner, options, seed)
    if regions is not None:
        return fit_given_regions(problem, score, smoother, regions, options, seed)
    if method == "partition":
        return fit_partition(problem, score, smoother, partitioner, options, seed)
    untested = replace(options, n_permutations=0)
    regions = fit_partition(problem, score, smoother, partitioner, untested, seed)
    bound = fit_risk(problem, score, smoother, None, options, seed)
    names = ("plugin", "bias", "induced", "table", "n_regions", "n_measured", "singletons")
    return replace(bound, **{name: getattr(regions, name) for name in names})


# --- Fitted attributes ----------------------------------------------------------------------------


def collect(estimator: GroupingLossEstimator, fits: list[GroupingFit], notion: Notion) -> None:
    """Set the attributes of the estimator from the fits of its problems."""
    share = 1 / len(fits) if notion.reduce == "mean" else 1.0

    def total(name):
        return float(share * sum(getattr(fit, name) for fit in fits))

    estimator.plugin_, estimator.bias_ = total("plugin"), total("bias")
    estimator.induced_ = total("induced")
    estimator.explained_ = estimator.plugin_ - estimator.bias_
    estimator.grouping_loss_ = total("lower_bound")
    estimator.calibration_error_ = total("calibration")
    estimator.calibration_induced_ = total("calibration_induced")
    estimator.calibration_error_corrected_ = (
        estimator.calibration_error_ + estimator.calibration_induced_
    )
    estimator.expected_loss_ = total("mean_loss")
    estimator.scale_ = float(np.mean([fit.scale for fit in fits]))
    estimator.binned_epistemic_bound_ = (
        estimator.calibration_error_ + estimator.explained_ - total("correction")
    )
    irreducible = estimator.expected_loss_ - estimator.calibration_error_
    # Where that is no bound, or the difference of two infinities, the curve is used instead.
    if not _binning_reduces_calibration(estimator) or np.isinf(estimator.expected_loss_):
        irreducible = total("refinement")
    estimator.irreducible_bound_ = irreducible - estimator.grouping_loss_
    estimator.standard_error_ = float(share * sum(np.sqrt(fit.variance) for fit in fits))
    reach = float(norm.ppf(0.5 + float(estimator.confidence_level) / 2)) * estimator.standard_error_
    bound = estimator.grouping_loss_
    estimator.confidence_interval_ = (bound - reach, bound + reach)
    estimator.pvalue_ = bonferroni([fit.pvalue for fit in fits])
    estimator.regions_ = sorted(
        (region for fit in fits for region in fit.table), key=lambda region: -region.harm
    )
    estimator.n_regions_ = sum(fit.n_regions for fit in fits)
    estimator.reason_ = ""
    if np.isnan(estimator.scale_):
        estimator.reason_ = _reason(estimator)
        _warn(fits)
    estimator.valid_ = not estimator.reason_


def _binning_reduces_calibration(estimator):
    """Whether the calibration error in use is at most that of the score: without bins, it is."""
    return bool(np.isfinite(estimator.scale_)) or resolve_loss(estimator.loss).jointly_convex


def _reason(estimator):
    """Why the bound of a partition tells nothing, or an empty text."""
    bound, induced = estimator.grouping_loss_, estimator.induced_
    error = estimator.standard_error_
    is_partition = estimator.method == "partition"
    if estimator.confidence_interval_[1] < 0:
        reason = "its interval lies below 0"
    elif estimator.irreducible_bound_ > estimator.expected_loss_:
        reason = "it leaves more than the loss"
    elif is_partition and induced > bound:
        reason = f"its induced term ({induced:.2g}) is larger"
    elif error > bound:
        reason = f"its standard error ({error:.2g}) is larger"
    else:
        return ""
    method = "method='auto', " if is_partition else ""
    return (
        f"The bound {bound:.2g} of the regions tells nothing, because {reason}: use {method}more "
        "samples or fewer bins."
    )


def _warn(fits):
    ratio = sum(fit.n_measured for fit in fits) / max(sum(fit.n_regions for fit in fits), 1)
    single = max(fit.singletons for fit in fits)
    # One or two of a dozen regions are more than 5 %, but not a reason for a warning.
    several = max(fit.singletons * fit.n_regions for fit in fits) > 2.5
    if ratio < 6 or single > (0.05 if several else 0.25):
        warnings.warn(
            f"The regions hold {ratio:.1f} measured samples on average, and {100 * single:.0f} "
            "% of them a single one: the bound of the grouping loss is unreliable. Use more "
            "samples, fewer bins or a larger region_ratio (about 12).",
            UserWarning,
            stacklevel=4,
        )


# --- Grouping loss before and after a correction --------------------------------------------------


@dataclass(frozen=True)
class GroupingImprovement(Record):
    """Result of :func:`~skcalib.grouping.grouping_improvement`.

    `to_frame` has two rows, before and after, with the columns ``forecast`` ("before" or "after"),
    ``loss``, ``grouping_loss``, with ``_low`` and ``_high``, and ``pvalue``.

    Attributes
    ----------
    gain : CalibrationImprovement
        Mean loss before minus after, with interval and p-value.
    grouping_before, grouping_after : MeanInterval
        Lower bounds of the grouping loss.
    pvalue_before, pvalue_after : float
        p-values of the hypothesis that there is no grouping loss.

    See Also
    --------
    skcalib.grouping.grouping_improvement : Makes this record.
    """

    gain: CalibrationImprovement
    grouping_before: MeanInterval
    grouping_after: MeanInterval
    pvalue_before: float
    pvalue_after: float

    _beside = ("gain",)
    _intervals = ("grouping_loss",)

    def _columns(self):
        return {
            "forecast": ["before", "after"],
            "loss": [self.gain.loss_before, self.gain.loss_after],
            "grouping_loss": [self.grouping_before, self.grouping_after],
            "pvalue": [self.pvalue_before, self.pvalue_after],
        }

    def __str__(self) -> str:
        lines = [f"gain                  {self.gain}"]
        for name, bound, pvalue in (
            ("before", self.grouping_before, self.pvalue_before),
            ("after", self.grouping_after, self.pvalue_after),
        ):
            text = f"{nonnegative_text(bound)} ({pvalue_text(pvalue)})"
            lines.append(f"grouping loss {name:<7} {text}")
        return "\n".join(lines)


@checks_parameters
def grouping_improvement(
    y_true: ArrayLike,
    before: ArrayLike,
    after: ArrayLike | BaseEstimator,
    X: MatrixLike | ArrayLike,
    *,
    loss: LossLike = "brier",
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    n_jobs: int | None = None,
    random_state: RandomState = 0,
) -> GroupingImprovement:
    r"""Improvement by a correction that uses features, and the grouping loss before and after it.

    The samples must be new: used for neither the classifier nor the correction. The gain is the
    mean paired difference of the losses, as in :func:`~skcalib.calibration_improvement`. For both
    forecasts the function also estimates the lower bound of the grouping loss of
    :class:`~skcalib.GroupingLossEstimator`, with its p-value.

    The gain is the total decrease of the calibration error and the grouping loss, because both
    forecasts have the same irreducible loss. It is :math:`E\,D(Q, S) - E\,D(Q, S')` with :math:`Q =
    E[Y|X]`, for any correction that depends on the score and X alone.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of held-out samples.
    before : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probabilities without the correction.
    after : array-like of the same kind, or fitted recalibrator
        Probabilities with it; or the recalibrator, which is applied to `before` and, if it takes
        features, to X.
    X : array-like of shape (n_samples, n_features) or (n_samples,)
        Features (:ref:`features`), or the group of each sample. The regions are then the groups.
    random_state : int, RandomState instance or None, default=0
        Folds and models, or permutations of groups; an integer compares both forecasts on the same.

    Returns
    -------
    GroupingImprovement
        Record with ``gain, grouping_before, grouping_after, pvalue_before, pvalue_after``, a text
        and `to_frame`.

    Raises
    ------
    ValueError
        For invalid input, and for too few samples.
    NotFittedError
        If `after` is a recalibrator that is not fitted.

    See Also
    --------
    skcalib.GroupRecalibrator : The correction.
    skcalib.calibration_improvement : The same gain, for a recalibration that uses the score alone.

    Examples
    --------
    >>> from skcalib import GroupRecalibrator
    >>> from skcalib.datasets import make_grouping_problem
    >>> from skcalib.grouping import grouping_improvement
    >>> data = make_grouping_problem(10_000, random_state=0)
    >>> P, y, X = data.y_proba, data.y, data.X
    >>> correction = GroupRecalibrator().fit(P[:5000], y[:5000], features=X[:5000])
    >>> found = grouping_improvement(y[5000:], P[5000:], correction, X[5000:])
    >>> found.gain.low > 0, found.grouping_after.estimate < 0.5 * found.grouping_before.estimate
    (True, True)
    """
    rows = {"before": before, "X": X, "sample_weight": sample_weight}
    is_recalibrator = is_fitted_map(after)
    check_indices(y_true=y_true, **rows, after=after)
    score = resolve_loss(loss)
    names: dict[str, Any] = {"labels": labels, "pos_label": pos_label}
    problem = check_problem(y_true, before, sample_weight=sample_weight, name="before", **names)
    problem.require_order(Canonical(), score)
    groups = np.ndim(X) == 1
    X = weighted_features(X, sample_weight, np.shape(y_true)[0])
    if is_recalibrator:
        corrected = recalibrated_proba(after, problem.forecast, problem.classes, X)
    else:
        corrected = check_after(after, y_true, problem, sample_weight, names)
    gain = improvement_of_forecasts(
        score, problem, corrected, confidence_level, None, name="grouping_improvement"
    )
    features = np.zeros((len(X), 1)) if groups else encode_features(X)
    bounds, pvalues = [], []
    for forecast in (problem.forecast, corrected):
        estimator = GroupingLossEstimator(
            loss=score,
            labels=problem.classes,
            confidence_level=confidence_level,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        estimator.fit(
            features, problem.labels, forecast, problem.weight, regions=X if groups else None
        )
        low, high = estimator.confidence_interval_
        error = estimator.standard_error_
        bounds.append(MeanInterval(estimator.grouping_loss_, low, high, error))
        pvalues.append(estimator.pvalue_)
    return GroupingImprovement(gain, bounds[0], bounds[1], pvalues[0], pvalues[1])
