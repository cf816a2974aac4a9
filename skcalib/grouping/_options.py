"""Parameters of the estimator, checked, and what the fits of all problems share."""

import numbers
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from skcalib._arguments import check_loss
from skcalib._validation import check_confidence_level
from skcalib.notions import Canonical, Classwise, TopLabel


@dataclass(frozen=True)
class Options:
    """What the fits of all problems share."""

    n_bins: int
    strategy: str
    region_ratio: int
    test_size: float
    swap: bool
    n_permutations: int
    folds: object
    n_jobs: int | None
    confidence_level: float
    feature_names: list


def check_parameters(estimator):
    """Parameters of the constructor; returns the score."""
    score = check_loss(estimator.loss)
    check_confidence_level(estimator.confidence_level)
    if estimator.method not in ("partition", "risk"):
        raise ValueError(f"method must be 'partition' or 'risk', got {estimator.method!r}.")
    if not (isinstance(estimator.test_size, numbers.Real) and 0 < estimator.test_size < 1):
        raise ValueError(f"test_size must lie between 0 and 1, got {estimator.test_size!r}.")
    for name, least in (("n_bins", 1), ("region_ratio", 2), ("n_permutations", 0)):
        value = getattr(estimator, name)
        if not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return score


def make_options(estimator, n_samples, given):
    """`Options` for so many samples; regions may be given."""
    # A level set of a single region has nothing to compare.
    least = estimator.region_ratio if given else 3 * estimator.region_ratio
    measured = n_samples if given else n_samples * estimator.test_size
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = [f"x{j}" for j in range(estimator.n_features_in_)]
    return Options(
        n_bins=max(1, min(estimator.n_bins, int(measured // least))),
        strategy=estimator.strategy,
        region_ratio=estimator.region_ratio,
        test_size=estimator.test_size,
        swap=estimator.swap,
        n_permutations=estimator.n_permutations,
        folds=5 if estimator.cv is None or estimator.estimator is not None else estimator.cv,
        n_jobs=None,
        confidence_level=estimator.confidence_level,
        feature_names=[str(name) for name in names],
    )


def check_regions(regions, n_samples):
    """One region per sample."""
    regions = np.asarray(regions)
    if regions.shape != (n_samples,):
        raise ValueError(
            f"regions must have shape ({n_samples},), one region per sample; got {regions.shape}."
        )
    return regions


def events_of(notion, classes):
    """Names of the columns of each problem of the notion."""
    names = [f"class {label}" for label in classes]
    if isinstance(notion, Canonical):
        return [names]
    if isinstance(notion, Classwise):
        return [["rest", name] for name in names]
    if isinstance(notion, TopLabel):
        return [["wrong", "top label"]]
    return repeat([f"column {k}" for k in range(len(classes) + 1)])
