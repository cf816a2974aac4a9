"""Sharpness of any representation: through an injective map into the simplex."""

import numpy as np
from scipy.special import softmax

from skcalib._arguments import check_loss, check_notion, check_smoother
from skcalib._validation import (
    check_features,
    check_label_list,
    check_weight,
    check_y,
    moderate,
    one_hot,
    unique_labels,
)
from skcalib.errors._terms import refuse_infinite, smooth_held_out
from skcalib.notions import Canonical
from skcalib.smoothers import DirichletKernel
from skcalib.tower import weighted_mean


def representation_sharpness(
    y_true, representation, loss, notion, smoother, method, sample_weight, labels
):
    if not isinstance(check_notion(notion), Canonical):
        raise ValueError("sharpness of a representation exists for notion='canonical' only.")
    y = check_y(y_true)
    features = check_features(representation, name="y_proba", n_samples=len(y))
    weight = moderate(check_weight(sample_weight, len(y)))
    classes = unique_labels(y) if labels is None else check_label_list(labels)
    target, counts = one_hot(y, classes), weight > 0
    score = check_loss(loss)
    if method not in ("auto", "risk"):
        raise ValueError(
            "sharpness of a representation exists for method='risk' only: there is no forecast "
            "that the other methods could compare with."
        )
    chosen = check_smoother(DirichletKernel("risk", "loss") if smoother is None else smoother)
    smoother = chosen.for_loss(score)
    if target.shape[1] < 2:
        return 0.0  # one class: no uncertainty to explain
    target, weight, features = target[counts], weight[counts], features[counts]
    smoothed = smooth_held_out(_into_simplex(features, weight), target, weight, smoother)
    refinement = smoothed.refinement(score)
    refuse_infinite(refinement)
    uncertainty = score.entropy(weighted_mean(target, weight))
    return float(uncertainty - weighted_mean(refinement, weight))


def _into_simplex(features, weight):
    """Standardise, then softmax(0, z): injective up to constant columns, which tell nothing."""
    features = _unit_reach(features)  # before anything is subtracted or squared
    varies = np.ptp(features, axis=0) > 0
    centred = _unit_reach(np.where(varies, features - weighted_mean(features, weight), 0.0))
    spread = np.sqrt(weighted_mean(centred**2, weight))
    z = centred / np.where(spread > 0, spread, 1.0)
    return softmax(np.column_stack([np.zeros(len(z)), z]), axis=1)


def _unit_reach(columns):
    reach = np.abs(columns).max(axis=0)
    return columns / np.where(reach > 0, reach, 1.0)
