"""Groups that the user names: sentences and the rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skcalib._formatting import points, rates
from skcalib.grouping.by_group import GroupCalibrations, calibration_by_group
from skcalib.notions import Auto

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skcalib._types import MatrixLike
    from skcalib.grouping.by_group import GroupCalibration
    from skcalib.problem import Problem

_IN_VERDICT = 3  # most groups in a sentence


def groups_of_columns(by: ArrayLike, X: MatrixLike) -> ArrayLike:
    """Names of columns of a data frame -> these columns; other groups as they are."""
    names = [by] if isinstance(by, str) else by
    columns = list(getattr(X, "columns", ()))
    if not isinstance(names, (list, tuple)) or not all(isinstance(one, str) for one in names):
        return by
    missing = [name for name in names if name not in columns]
    if not missing:
        return X[list(names)]
    if isinstance(by, str):
        raise ValueError(
            f"by={by!r} is not a column of X: pass the name of a column of a data frame, or the "
            "group of each sample."
        )
    return by


def find_by_group(problem: Problem, by: ArrayLike, confidence_level: float) -> GroupCalibrations:
    """Calibration of the event, or of the confidence, in each group."""
    return calibration_by_group(
        problem, problem.forecast, by, notion=Auto(), confidence_level=confidence_level
    )


def named_group_sentences(found: GroupCalibrations, n_classes: int) -> list[str]:
    """Which groups differ from their predictions, and which at equal scores."""
    n_groups = len(found.groups)
    off = [one for one in found.groups if one.detected]
    beyond = [one for one in found.groups if one.equal_scores_detected]
    if not off and not beyond:
        most = points(max(max(-one.difference.low, one.difference.high) for one in found.groups))
        none = f"No difference was found in the {n_groups} groups that you named"
        return [f"{none}; differences of {most} are not excluded."]
    said = []
    if off:
        verb = "differs from its" if len(off) == 1 else "differ from their"
        listed = _listed(off, lambda one: _rates(one, n_classes), "; ")
        who = f"Of the {n_groups} groups that you named, {len(off)}"
        if len(off) == n_groups > 1:
            who = f"{'Both' if n_groups == 2 else f'All {n_groups}'} groups that you named"
        said.append(f"{who} {verb} mean prediction: {listed}.")
    if beyond and n_groups == 2:  # the difference of one is that of the other
        said.append(
            "At equal scores the two groups differ from each other: recalibration of the score "
            "alone cannot remove this."
        )
    elif beyond:
        verb = "differs" if len(beyond) == 1 else "differ"
        names = _listed(beyond, lambda one: one.name, ", ")
        said.append(
            f"Compared with all samples with equal scores, {len(beyond)} {verb} ({names}): "
            "recalibration of the score alone cannot remove this."
        )
    else:
        said.append("None was found to differ from all samples with equal scores.")
    return [" ".join(said)]


def _listed(groups, text, between):
    """The groups of the smallest p-values, and how many more."""
    first = sorted(groups, key=lambda one: one.pvalue)[:_IN_VERDICT]
    more = len(groups) - len(first)
    said = between.join(text(one) for one in first)
    return f"{said}{between}{more} more in the details" if more else said


def _rates(one: GroupCalibration, n_classes):
    observed, predicted = rates(one.observed, one.mean_predicted)
    if n_classes > 2:
        return f"{one.name}, accuracy {observed}, mean confidence {predicted}"
    return f"{one.name}, observed {observed}, predicted {predicted}"


def strongest(found: GroupCalibrations, most: int) -> list[GroupCalibration]:
    """At most so many groups, those with the smallest p-values, in their order."""
    order = np.argsort([one.pvalue for one in found.groups], kind="stable")[:most]
    return [found.groups[k] for k in sorted(order)]
