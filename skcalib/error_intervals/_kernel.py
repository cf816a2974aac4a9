"""Intervals of the kernel calibration error and of the error of mean embeddings."""

import numpy as np

from skcalib._arguments import check_notion
from skcalib.error_intervals._squared import SquaredNorm
from skcalib.errors.kernel import (
    Embedding,
    ResidualKernel,
    _check_components,
    check_kernel,
    check_locations,
    one_problem,
)
from skcalib.problem import check_problem

_ROWS = 600  # that the spectrum of the noise is computed from


def residual_kernel(options, n_jobs):
    """The function h of two samples, from all arguments of `kernel_calibration_error`."""
    problem = _problem(options)
    notion = check_notion(options["notion"])
    return ResidualKernel.of_problem(problem, check_kernel(options["kernel"]), notion, n_jobs)


def squared_embedding_norm(h, rng):
    """`SquaredNorm` of the unbiased kernel calibration error.

    The mean is that of the features w_i k(S_i, .)(y_i - S_i), whose products are h. Centred
    products give the noise; the second and third cumulant of its law leave the diagonal out, as
    unbiased estimates do.
    """
    n_samples, weight = len(h), h.weight
    ones = np.ones((n_samples, 1))
    mean = h.multiply(ones)[:, 0] / n_samples
    raw = float(mean.mean())
    along = mean - weight * raw
    pairs = n_samples**2 - float(weight @ weight)  # weights have the mean one
    unbiased = (n_samples**2 * raw - h.diagonal().sum()) / pairs
    signal = float(along @ along) / (n_samples * (n_samples - 1))
    rows = np.arange(n_samples)
    if n_samples > _ROWS:
        rows = rng.choice(n_samples, _ROWS, replace=False)
    m, some = len(rows), h.take(rows)
    w, a = weight[rows], mean[rows]
    noise = some.matrix() - np.outer(w, a) - np.outer(a, w) + raw * np.outer(w, w)
    np.fill_diagonal(noise, 0.0)
    noise2 = 2 * np.sum(noise**2) / (m * (m - 1) * n_samples**2)
    noise3 = 8 * np.sum((noise @ noise) * noise) / (m * (m - 1) * (m - 2) * n_samples**3)
    return SquaredNorm.from_mean(signal, raw, unbiased, noise2, noise3)


def squared_location_norm(options):
    """`SquaredNorm` of the error of mean embeddings at locations."""
    problem, notion = _problem(options), check_notion(options["notion"])
    columns = one_problem(problem, notion)[0].shape[1]
    points = check_locations(options["locations"], columns)
    component = _check_components(options["location_labels"], problem, notion, points)
    embedding = Embedding(problem, check_kernel(options["kernel"]), notion, points, component)
    features = embedding._features(slice(None), embedding.target) / np.sqrt(len(points))
    n_samples = len(features)
    mean = features.mean(axis=0)
    noise = (features - embedding.weight[:, None] * mean) / np.sqrt(n_samples * (n_samples - 1))
    matrix, raw = noise.T @ noise, float(mean @ mean)
    estimate, noise2 = raw - float(np.trace(matrix)), 2 * float(np.sum(matrix**2))
    noise3 = 8 * float(np.sum((matrix @ matrix) * matrix))
    return SquaredNorm.from_mean(float(mean @ matrix @ mean), raw, estimate, noise2, noise3)


def _problem(options):
    return check_problem(
        options["y_true"],
        options["y_proba"],
        sample_weight=options["sample_weight"],
        labels=options["labels"],
        pos_label=options["pos_label"],
    )
