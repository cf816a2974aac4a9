"""The error of mean embeddings of the residuals at test locations, in linear time (W19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import check_proba, mean_one
from skcalib.data.clusters import cluster_sums
from skcalib.data.labels import check_y, class_columns
from skcalib.data.notions import Canonical, Notion, NotionLike, resolve_notion
from skcalib.data.problem import Problem, check_problem
from skcalib.errors.kernel import resolve_kernel

if TYPE_CHECKING:
    from skcalib.kernels import Kernel, KernelLike

_ROWS = 4096  # samples at a time


@checks_parameters
def unconditional_mean_embedding_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    locations: ArrayLike,
    location_labels: ArrayLike | None = None,
    kernel: KernelLike = None,
    notion: NotionLike = "canonical",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> float:
    r"""Error of the mean embedding of the residuals at given locations (UCME), in linear time.

    .. math::

        UCME = \frac1J \sum_{j=1}^J \| \frac1n \sum_i k(S_i, t_j) (e_{Y_i} - S_i) \|^2

    at the locations :math:`t_j` on the simplex; with labels :math:`l_j` of the locations only the
    component :math:`l_j` enters the norm. The error is zero for calibrated forecasts. For others it
    is almost surely not zero if the locations are drawn from a density and the kernel is
    characteristic and analytic, as the Gaussian kernel is.

    Parameters
    ----------
    y_true, y_proba
        As in :func:`kernel_calibration_error`.
    locations : array-like of shape (n_locations,) or (n_locations, n_columns)
        Points of the simplex, with as many columns as the forecasts of the notion; shape
        (n_locations,) for two columns. They must not depend on `y_true`.
    location_labels : array-like of shape (n_locations,), default=None
        The class whose component is used at each location; for "canonical" only.
    kernel : None, {"laplacian", "gaussian"} or Kernel, default=None
        As in :func:`kernel_calibration_error`.
    notion : {"canonical", "auto", "top_label"} or Notion, default="canonical"
        A notion with one problem.
    sample_weight, labels, pos_label
        As in :func:`kernel_calibration_error`. Weights are averaging weights.

    Returns
    -------
    float
        The error, not rooted, at least 0. Biased upward by the variance of the means over n. Time
        O(n J K).

    Raises
    ------
    ValueError
        For invalid input, and for notions with several problems.

    See Also
    --------
    kernel_calibration_test : With ``method="embedding"``, the test of this error.

    References
    ----------
    .. [1] D. Widmann, F. Lindsten and D. Zachariah. Calibration tests beyond classification.
       ICLR 2021.
    .. [2] W. Jitkrittum, Z. Szabo, K. Chwialkowski and A. Gretton. Interpretable distribution
       features with maximum testing power. NeurIPS 2016.

    Examples
    --------
    >>> from skcalib.errors import unconditional_mean_embedding_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, 3, random_state=0)
    >>> corners = [[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]]
    >>> error = unconditional_mean_embedding_error(data.y, data.y_proba, locations=corners)
    >>> print(f"{error:.4f}")
    0.0010
    """
    problem = check_problem(y_true, y_proba, None, sample_weight, labels, pos_label)
    notion = resolve_notion(notion)
    problem.require_order(notion)
    points = check_locations(locations, one_problem(problem, notion)[0].shape[1])
    component = check_components(location_labels, problem, notion, points)
    return Embedding(problem, resolve_kernel(kernel), notion, points, component).error()


class Embedding:
    """Features k(S_i, t_j) (y_i - S_i) of samples at locations, and their mean over samples.

    Features have shape (n, J * K); with a column `component[j]` for each location, (n, J).
    """

    def __init__(
        self,
        problem: Problem,
        kernel: Kernel,
        notion: Notion,
        points: np.ndarray,
        component: np.ndarray | None = None,
    ) -> None:
        self.forecast, self.target = one_problem(problem, notion)
        self.weight = mean_one(problem.weight)
        self.points, self.component = points, component
        n_columns = self.forecast.shape[1]
        self.terms = [
            (scalar, np.eye(n_columns) if matrix is None else matrix)
            for scalar, matrix in kernel.for_data(self.forecast).terms(n_columns)
        ]

    def error(self) -> float:
        """Mean over the locations of the squared norm of the mean feature."""
        mean = self.total(self.target) / len(self.forecast)
        return float(np.sum(mean**2) / len(self.points))

    def total(self, target: np.ndarray) -> np.ndarray:
        """Sum of the features of all samples, with their targets."""
        total: Any = sum(self._features(i, target[i]).sum(axis=0) for i in self._slices())
        return total

    def sums(self, cluster: np.ndarray) -> np.ndarray:
        """Sums of the features over clusters, from the numbers of these (n,)."""
        parts = [self._features(rows, self.target[rows]) for rows in self._slices()]
        return cluster_sums(np.concatenate(parts), cluster)

    def null_covariance(self) -> np.ndarray:
        r"""Covariance of a feature under calibration, where labels are drawn from forecasts.

        Known given the forecasts: with the features :math:`z_i(k)` that a label k would give,
        :math:`\frac1n \sum_i \sum_k S_{ik} z_i(k) z_i(k)^\top`.
        """
        total: Any = 0.0
        for rows in self._slices():
            for share, label in zip(
                self.forecast[rows].T, np.eye(len(self.forecast[0])), strict=True
            ):
                features = self._features(rows, label)
                total = total + features.T @ (share[:, None] * features)
        return total / len(self.forecast)

    def _features(self, rows, target):
        forecast = self.forecast[rows]
        residual = self.weight[rows, None] * (target - forecast)
        features = 0.0
        for scalar, matrix in self.terms:
            left = residual @ matrix
            left = left[:, None, :] if self.component is None else left[:, self.component, None]
            features = features + scalar(forecast, self.points)[:, :, None] * left
        return features.reshape(len(forecast), -1)

    def _slices(self):
        starts = range(0, len(self.forecast), _ROWS)
        return [slice(start, start + _ROWS) for start in starts]


def one_problem(problem: Problem, notion: Notion) -> tuple[np.ndarray, np.ndarray]:
    """The only pair (forecast, target) of a notion."""
    problems = list(notion.problems(problem.forecast, problem.target))
    if len(problems) > 1:
        raise ValueError(
            f"{notion!r} has {len(problems)} problems, but locations belong to one: use "
            "'canonical' or 'top_label'."
        )
    return problems[0]


def check_locations(locations: ArrayLike, n_columns: int) -> np.ndarray:
    """Points of the simplex with as many columns as the forecasts."""
    points = check_proba(locations, name="locations")
    if points.shape[1] != n_columns:
        raise ValueError(
            f"locations have {points.shape[1]} columns, but the forecasts have {n_columns}."
        )
    return points


def check_components(
    location_labels: ArrayLike | None, problem: Problem, notion: Notion, points: np.ndarray
) -> np.ndarray | None:
    """The column of the label of each location."""
    if location_labels is None:
        return None
    if not isinstance(notion.for_columns(len(problem.classes)), Canonical):
        raise ValueError("location_labels name classes, and need notion='canonical'.")
    component = class_columns(check_y(location_labels, name="location_labels"), problem.classes)
    if len(component) != len(points):
        raise ValueError(
            f"There are {len(points)} locations, but {len(component)} location_labels."
        )
    return component
