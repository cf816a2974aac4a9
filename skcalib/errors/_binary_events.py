"""The binary events whose probability can be drawn as one calibration curve."""

from dataclasses import replace

from skcalib._checks import Problem
from skcalib.notions import Canonical, Classwise, TopLabel


def binary_events(problem, pos_label, notion):
    """Each event of the notion, by its name, with its `Problem` of the columns (not, event)."""
    if isinstance(notion, Canonical):
        problem = _positive_last(problem, pos_label)
    pairs = list(notion.problems(problem.forecast, problem.target))
    columns = pairs[0][0].shape[1]
    if columns != 2:
        raise ValueError(
            f"A calibration curve belongs to a binary event, but {notion!r} gives {columns} "
            "columns: use notion='top_label' or 'classwise'."
        )
    return [
        (event, replace(problem, forecast=forecast, target=target))
        for event, (forecast, target) in zip(_names(notion, problem.classes), pairs, strict=True)
    ]


def _positive_last(problem, pos_label):
    """Columns of a binary problem in the order (negative, positive)."""
    if pos_label is None or problem.classes[-1] == pos_label:
        return problem
    turned = (problem.forecast[:, ::-1], problem.target[:, ::-1])
    return Problem(*turned, problem.weight, problem.classes[::-1])


def _names(notion, classes):
    if isinstance(notion, TopLabel):
        return ["top label"]
    if isinstance(notion, Classwise):
        return [f"class {label}" for label in classes]
    return [f"class {classes[-1]}"] if isinstance(notion, Canonical) else [""]
