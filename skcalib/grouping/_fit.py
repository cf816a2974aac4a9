r"""Fit of one problem of a notion: from forecasts to the terms of its grouping loss.

`fit_problem` chooses the method.

**Partition bound** (`fit_partition`, `fit_given_regions`): the terms of
`skcalib.grouping.partition` on level sets and regions, with a calibration curve and a permutation
test.

**Risk bound** (`fit_risk`): the reduction of the loss by any model of the score and the features,
at the best scale of the other folds. doc/design.rst has the formula.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import softmax
from scipy.stats import norm
from sklearn.base import clone, is_classifier

from skcalib._util.parallel import out_of_fold, run_each, threads_for
from skcalib._util.validation import mean_one
from skcalib.data.labels import is_one_hot
from skcalib.grouping._score_basis import steps_beside_score
from skcalib.grouping.partition import (
    Partitioner,
    Regions,
    cut_level_sets,
    half_of_clusters,
    level_sets,
    merge_single_clusters,
    merge_singletons,
    partition_terms,
    stratified_half,
    variance_of_mean,
)
from skcalib.grouping.regions import permutation_pvalue, region_table, sign_pvalue
from skcalib.links.logits import detection_limit, log_forecast
from skcalib.recalibration.corrected_model import Mixing, held_out_paths
from skcalib.scores import weighted_mean
from skcalib.smoothers._base import check_folds, smooth_other_clusters
from skcalib.stats.pvalues import bonferroni


@dataclass(frozen=True)
class GroupingFit:
    """Terms of one problem, averaged over the two directions where halves were swapped."""

    plugin: float
    bias: float
    induced: float
    variance: float
    lower_bound: float
    calibration: float
    calibration_induced: float
    mean_loss: float
    refinement: float
    correction: float
    pvalue: float
    table: list
    n_regions: int
    n_measured: int
    singletons: float
    scale: float = np.nan


@dataclass(frozen=True)
class GroupingProblem:
    """One problem of a notion with its options; ``events`` names its columns."""

    forecast: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    features: np.ndarray
    events: list
    cluster: np.ndarray | None = None


def fit_problem(problem, score, smoother, partitioner, regions, options, method, seed):
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
    found = fit_risk(problem, score, smoother, None, options, seed)
    names = ("plugin", "bias", "induced", "table", "n_regions", "n_measured", "singletons")
    return replace(found, **{name: getattr(regions, name) for name in names})


def fit_partition(problem, score, smoother, partitioner, options, seed):
    """Partition bound: regions of one half, measured on the other."""
    if len(problem.forecast) < 2:
        raise ValueError(
            "The grouping loss of a single sample cannot be estimated: one half of the samples "
            "determines the regions, the other measures them."
        )
    rng = np.random.RandomState(seed)
    bins = level_sets(problem.forecast, options.n_bins, options.strategy)
    cutter = Partitioner(partitioner, options.region_ratio, rng, options.features)
    prepared = cutter.prepare(problem.features)
    if problem.cluster is None:
        half = stratified_half(problem.forecast, bins, options.test_size, rng)
    else:
        half = half_of_clusters(problem.forecast, problem.cluster, options.test_size, rng)
    results = [
        _measure(problem, score, smoother, cutter, prepared, bins, measured, options, rng)
        for measured in ((half, ~half) if options.swap else (half,))
    ]
    return results[0] if len(results) == 1 else _average(*results)


def _measure(problem, score, smoother, cutter, prepared, bins, measured, options, rng):
    """Fit regions and curve on the other half; measure on `measured`."""
    with threads_for(prepared):
        cut = cut_level_sets(cutter, prepared, problem.target, problem.weight, bins, measured)
    fitting = ~measured
    fitted = clone(smoother).fit(
        problem.forecast[fitting], problem.target[fitting], problem.weight[fitting]
    )
    curve = fitted.predict(problem.forecast[measured])
    return _terms(problem, score, bins, measured, cut, curve, options, rng)


def _average(one, two):
    """Both directions: means; the variance counts them as dependent, the p-value doubles."""
    names = ("plugin", "bias", "induced", "lower_bound", "calibration", "calibration_induced")
    names += ("mean_loss", "refinement", "correction", "singletons")
    means = {name: 0.5 * (getattr(one, name) + getattr(two, name)) for name in names}
    spread = 0.25 * (np.sqrt(one.variance) + np.sqrt(two.variance)) ** 2
    table = [
        replace(region, share=0.5 * region.share, harm=0.5 * region.harm)
        for region in one.table + two.table
    ]
    return replace(
        one,
        **means,
        variance=float(spread),
        pvalue=bonferroni([one.pvalue, two.pvalue]),
        table=table,
        n_regions=one.n_regions + two.n_regions,
        n_measured=one.n_measured + two.n_measured,
    )


def fit_given_regions(problem, score, smoother, regions, options, seed):
    """Partition bound with given regions: all samples are measured."""
    rng = np.random.RandomState(seed)
    bins = level_sets(problem.forecast, options.n_bins, options.strategy)
    names, number = np.unique([str(name) for name in regions], return_inverse=True)
    _, first, region = np.unique(bins * len(names) + number, return_index=True, return_inverse=True)
    rules = [f"region {names[k]}" for k in number[first]]
    n_before = len(rules)
    singletons = np.mean(np.bincount(region) == 1)
    for level in range(bins.max() + 1):
        here = bins == level
        local_names, local = np.unique(region[here], return_inverse=True)
        # Labels are not used: a region of one sample joins the largest of its level set.
        size = np.bincount(local)[:, None].astype(float)
        region[here] = local_names[merge_singletons(local, np.where(size == 1, size.max(), size))]
    kept, region = np.unique(region, return_inverse=True)
    rules = [rules[k] for k in kept]
    curve = _held_out_curve(problem, smoother)
    cut = Regions(region, rules, float(singletons), n_before)
    measured = np.ones(len(bins), dtype=bool)
    return _terms(problem, score, bins, measured, cut, curve, options, rng)


def _held_out_curve(problem, smoother):
    """The curve at each sample without its own label, or without those of its cluster."""
    rows = problem.forecast, problem.target, problem.weight
    if problem.cluster is None:
        return clone(smoother).fit(*rows).smooth_held_out()
    return smooth_other_clusters(smoother, *rows, problem.cluster)


def _terms(problem, score, bins, measured, cut, curve, options, rng):
    level, forecast, target = bins[measured], problem.forecast[measured], problem.target[measured]
    weight, region = problem.weight[measured], cut.region
    residual, cluster, single = target - curve, None, "sample"
    lonely = np.bincount(region)[region] == 1
    if problem.cluster is not None:
        cluster, single = problem.cluster[measured], "cluster"
        region, lonely = merge_single_clusters(level, region, cluster)
    if lonely.all():
        raise ValueError(
            f"Every region has a single {single}: use fewer bins or a larger region_ratio."
        )
    if lonely.any():  # level sets of one sample are omitted from all terms
        keep = ~lonely
        level, forecast, target, weight = level[keep], forecast[keep], target[keep], weight[keep]
        residual, curve = residual[keep], curve[keep]
        region, cluster = region[keep], None if cluster is None else cluster[keep]
    kept, region = np.unique(region, return_inverse=True)
    cut = replace(cut, region=region, rules=[cut.rules[k] for k in kept])
    known = curve
    if options.by_curve:  # which divides by frequencies: none may be 0
        known = softmax(log_forecast(curve, detection_limit(curve)), axis=1)
    rows = level, region, forecast, target, known, weight, cluster
    terms = partition_terms(score, *rows, by_curve=options.by_curve)
    pvalue = np.nan
    if options.n_permutations and cluster is not None:
        rows = level, region, residual, weight, cluster
        pvalue = sign_pvalue(*rows, options.n_permutations, rng)
    elif options.n_permutations:
        rows = level, region, forecast, residual, weight
        pvalue = permutation_pvalue(*rows, options.n_permutations, rng)
    rows = level, region, cut.rules, forecast, target, curve, weight
    table = region_table(problem.events, *rows, options.confidence_level, cluster)
    return GroupingFit(
        plugin=terms.plugin,
        bias=terms.bias,
        induced=terms.induced,
        variance=terms.variance,
        lower_bound=terms.lower_bound,
        calibration=terms.calibration,
        calibration_induced=terms.calibration_induced,
        mean_loss=float(
            weighted_mean(score.loss(problem.target, problem.forecast), problem.weight)
        ),
        refinement=float(weighted_mean(score.loss(target, curve), weight)),
        correction=terms.correction,
        pvalue=pvalue,
        table=table,
        n_regions=cut.n_before,
        n_measured=int(measured.sum()),
        singletons=cut.singletons,
    )


# --- Risk bound -----------------------------------------------------------------------------------


_NEAR_ZERO = 1e-4
_LEAST_SHARE = 0.05  # of a probability of the curve
_LEAST_KNOWN = 10  # values of a feature, to be of use to a model


def fit_risk(problem, score, smoother, model, options, seed):
    """Risk bound: the reduction of the loss by a model of (score, features) on held-out samples."""
    curve = _held_out_curve(problem, smoother)
    own = {"random_state": seed, "cluster": problem.cluster}
    folds = check_folds(options.folds, problem.target, **own)
    terms = risk_terms(problem, score, curve, model, folds, seed)
    weight = problem.weight / problem.weight.sum()
    bound = float(weight @ terms.differences)
    variance = variance_of_mean(terms.differences, weight, problem.cluster)
    before, after = score.loss(problem.target, problem.forecast), score.loss(problem.target, curve)
    # At a small scale the saving per scale is the slope of the loss towards the model. Folds learn
    # from each other, which under the null doubles the variance of the mean.
    slope = terms.slope
    mean = float(weight @ slope)
    error = float(np.sqrt(2 * variance_of_mean(slope, weight, problem.cluster)))
    pvalue = float(norm.sf(mean / error)) if error > 0 else 1.0
    return GroupingFit(
        plugin=np.nan,
        bias=np.nan,
        induced=np.nan,
        variance=variance,
        lower_bound=bound,
        calibration=float(weight @ (before - after)),
        calibration_induced=0.0,  # no bins
        mean_loss=float(weight @ before),
        refinement=float(weight @ after),
        correction=np.nan,
        pvalue=pvalue,
        table=[],
        n_regions=0,
        n_measured=len(weight),
        singletons=0.0,
        scale=terms.scale,
    )


@dataclass(frozen=True)
class RiskTerms:
    """Paired differences of the loss, whose weighted mean is the lower bound, and the mean scale.

    ``slope`` is the saving per unit of the scale near a = 0.
    """

    differences: np.ndarray
    slope: np.ndarray
    scale: float


def risk_terms(problem, score, curve, model, folds, seed):
    """Steps from the held-out `curve`, mixed by the losses of the other folds.

    `model` is None for the corrected model, or a regressor of the residual, a column at a time, or
    a classifier of the label. What a function of the score explains is removed from the steps.
    """
    target, weight = problem.target, mean_one(problem.weight)  # penalties depend on their scale
    if model is None:
        start = log_forecast(curve, detection_limit(curve))
        given = problem.features, target, weight, folds
        finish = partial(_steps_of_fold, start, problem.forecast, curve, weight)
        paths = held_out_paths(start, *given, seed=seed, finish=finish)
    else:
        features = np.column_stack([problem.forecast[:, 1:], problem.features])
        predict = partial(_model_steps, model, features, problem.forecast, target, curve, weight)
        paths = [out_of_fold(predict, folds, len(curve))[0][None]]

    def losses(step, rows):
        return score.loss(target[rows], _refined(curve[rows], step))

    mixing = Mixing(losses, paths, weight, problem.cluster)
    differences, slope, scale = np.zeros((3, len(curve)))
    for test, mixture in mixing.of_other_folds(folds):
        before, far = mixing.before[test], mixture.of(paths, test)
        near = _NEAR_ZERO * mixture.of(paths, test, direction=True)
        differences[test] = _saved(before, losses(far, test))
        slope[test] = _saved(before, losses(near, test)) / _NEAR_ZERO
        scale[test] = mixture.weights.sum()
    return RiskTerms(differences, slope, float(weighted_mean(scale, weight)))


def _saved(before, after):
    """Differences of losses; equal infinite ones differ by 0."""
    equal = before == after
    return np.where(equal, 0.0, before) - np.where(equal, 0.0, after)


def _refined(curve, step):
    """Steps from the curve that stay in the simplex; no probability falls to less than a twentieth.

    Else the log loss of a single label could be infinite, and one sample near the border would hold
    back the weight of all.
    """
    moved = np.maximum(curve + step, _LEAST_SHARE * curve)
    return moved / moved.sum(axis=1, keepdims=True)


def _fit_predict(model, X, residual, weighted, X_new):
    return clone(model).fit(X, residual, **weighted).predict(X_new)


def _steps_of_fold(start, forecast, curve, weight, predict, train, test):
    """Steps of the probabilities for the corrections of their logarithms."""

    def steps(rows):
        return softmax(start[rows] + predict(rows), axis=2) - softmax(start[rows], axis=1)

    return steps_beside_score(forecast, curve, weight, steps, train, test)


def _model_steps(model, features, forecast, target, curve, weight, train, test):
    """Steps from the curve to the predictions of a model, with the threads that it can feed."""
    known = features, target, curve, weight, train

    def steps(rows):
        return _refine(model, *known, rows)[None]

    with threads_for(features):
        return steps_beside_score(forecast, curve, weight, steps, train, test)[0]


def _refine(model, features, target, curve, weight, train, test):
    """Steps from the curve to the predictions of the model at the rows `test`."""
    weighted = {} if np.ptp(weight) == 0 else {"sample_weight": weight[train]}
    # Boosting fails on a feature without any value, also in its early-stopping split.
    known = np.count_nonzero(~np.isnan(features[train]), axis=0)
    hollow = (known < len(train)) & (known < _LEAST_KNOWN)
    if hollow.any():
        features = np.where(hollow, 0.0, features)
    if is_classifier(model):
        if not is_one_hot(target):
            raise ValueError(
                f"{type(model).__name__} is a classifier, which cannot be fitted to soft labels: "
                "pass a regressor, or leave out partitioner=."
            )
        labels = target[train].argmax(axis=1)
        if len(np.unique(labels)) == 1:
            return np.zeros_like(curve[test])
        fitted = clone(model).fit(features[train], labels, **weighted)
        refined = np.zeros((len(test), target.shape[1]))
        refined[:, fitted.classes_] = fitted.predict_proba(features[test])
        return refined - curve[test]
    residual = target[train] - curve[train]
    columns = range(1, target.shape[1]) if target.shape[1] == 2 else range(target.shape[1])
    step = np.zeros((len(test), target.shape[1]))
    tasks = ((model, features[train], residual[:, k], weighted, features[test]) for k in columns)
    step[:, columns] = np.stack(run_each(_fit_predict, tasks), axis=1)
    if target.shape[1] == 2:
        step[:, 0] = -step[:, 1]
    return step
