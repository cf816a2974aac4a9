"""Groups that the user names: the values, ranges and intersections of columns, or masks.

`named_groups` reads what functions take as ``by``. Columns of many numbers are cut into fifths of
the samples, and columns of many times into years, quarters, months, days or hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skcalib._util.types import GroupsLike
from skcalib._util.validation import take_rows, to_numpy
from skcalib.data.table_columns import (
    Column,
    is_frame,
    names_of_columns,
    read_column,
    read_columns,
    resolution,
    times_as_text,
)

#: Most groups of one call.
MOST_GROUPS = 1000
#: Columns of more numbers or times than these are cut into ranges.
_FEW_VALUES = 10
#: Intersections of fewer samples than these form one group.
_SMALL = 20
#: Numbers of calendar units that are groups.
_FEWEST_UNITS, _MOST_UNITS = 3, 12
_MOST_SHOWN = 3
#: What is said of several columns without their intersections.
MARGINS = "Each group is of one column: intersections=True gives those of all columns together."


@dataclass(frozen=True)
class NamedGroups:
    """Names of the m groups, their members (n, m), whether they may overlap, and a note."""

    names: list[str]
    members: np.ndarray
    overlapping: bool
    note: str = ""


@dataclass(frozen=True)
class _Values:
    """Groups of one column: the number of the group of each sample, and their names in order."""

    number: np.ndarray
    names: list[str]
    cut: str = ""


def named_groups(by: GroupsLike, n_samples: int, *, intersections: bool = False) -> NamedGroups:
    """Groups of masks, of each column, or of all columns together."""
    if isinstance(by, Mapping):
        masks = {name: _is_mask(values) for name, values in by.items()}
        if all(masks.values()):
            return _of_masks(by, n_samples, intersections)
        if any(masks.values()):
            name = next(name for name, found in masks.items() if not found)
            raise ValueError(
                f"by has masks, but by[{name!r}] must be a mask of {n_samples} booleans too, got "
                f"{np.asarray(by[name]).dtype}. For columns of groups pass a data frame."
            )
    columns = _columns(by, n_samples)
    parts = [_values(column) for column in columns]
    if not intersections:
        for column, part in zip(columns, parts, strict=True):
            _check_number(len(part.names), column.name)
    notes = [note for note in (_note_of_cuts(columns, parts),) if note]
    if len(columns) == 1:
        _check_number(len(parts[0].names), columns[0].name)
        return NamedGroups(parts[0].names, _members(parts[0]), False, " ".join(notes))
    if intersections:
        names, members, pooled = _intersections(parts)
        return NamedGroups(names, members, False, " ".join([*notes, pooled] if pooled else notes))
    notes.append(MARGINS)
    names = [name for part in parts for name in part.names]
    return NamedGroups(names, np.hstack(list(map(_members, parts))), True, " ".join(notes))


def take_groups(by: Any, rows: np.ndarray, n_samples: int) -> Any:
    """The groups of some of the samples."""
    if len(rows) == n_samples or not hasattr(by, "__len__"):  # others are refused later
        return by
    if isinstance(by, Mapping):
        for name, values in by.items():
            _check_shape(np.shape(values), n_samples, f"by[{name!r}]")
        return {name: take_rows(values, rows) for name, values in by.items()}
    if len(by) != n_samples:
        raise ValueError(
            f"by must have the group of each of the {n_samples} samples, got {len(by)}."
        )
    return take_rows(by, rows)


def place(name: str) -> tuple[int, float, str]:
    """Sort key of names: numbers in their order, then texts in theirs."""
    try:
        number = float(name)
    except ValueError:
        return 1, 0.0, name
    return (0, number, "") if np.isfinite(number) else (1, 0.0, name)


# --- Columns --------------------------------------------------------------------------------------


def _columns(by, n_samples):
    """The columns of what the user passed, each with a value for each sample."""
    if isinstance(by, Mapping):
        if not by:
            raise ValueError("by is an empty dict: pass a mask or column for each name.")
        cells = [to_numpy(one, name="by") for one in by.values()]
        columns = list(map(read_column, cells, names_of_columns(by, "by")))
    elif is_frame(by):
        columns = read_columns(by, owner="by")
    else:
        by = to_numpy(by, name="by")
        shape = np.shape(by)
        if len(shape) == 2:
            columns = read_columns(by, [f"column {k}" for k in range(shape[1])])
        else:
            _check_shape(shape, n_samples, "by")
            columns = [read_column(by)]
    for one in columns:
        _check_shape(one.cells.shape, n_samples, "by")
    if not columns:
        raise ValueError("by has no columns: pass the group of each sample.")
    return columns


def _check_shape(shape, n_samples, name):
    if shape != (n_samples,):
        raise ValueError(
            f"{name} must have the group of each of the {n_samples} samples, got shape {shape}: "
            "pass an array, a data frame, or a dict of masks."
        )


def _values(column: Column):
    """Groups of a column, by name; missing values are the last one."""
    known = ~column.missing
    if column.kind == "time":
        number, names, cut = _of_times(column.cells[known])
    elif column.kind in ("number", "duration"):
        number, names, cut = _of_numbers(column.numbers()[known], column.kind == "duration")
    else:
        if column.kind == "other" and not all(isinstance(one, tuple) for one in column.cells):
            raise ValueError(
                f"{f'Column {column.name} of by' if column.name else 'by'} has {column.reason}: "
                "pass numbers, times, text or categories."
            )
        texts = column.texts()
        if column.missing.any():
            texts = np.where(texts == "missing", "'missing'", texts)
            texts[column.missing] = "missing"
        texts = texts.astype(str)
        distinct, number = np.unique(texts, return_inverse=True)
        order = sorted(range(len(distinct)), key=lambda k: place(str(distinct[k])))
        names = [_titled(column.name, str(distinct[k])) for k in order]
        return _Values(np.argsort(order)[number.ravel()], names)
    names = [_titled(column.name, name, cut) for name in names]
    of_all = np.full(len(known), len(names))
    of_all[known] = number
    if not known.all():
        names.append(_titled(column.name, "missing"))
    return _Values(of_all, names, cut)


def _titled(column, name, cut=""):
    """The name of a group with its column, where that has a name."""
    return f"{column} {'' if cut else '= '}{name}" if column else name


def _of_numbers(numbers, are_days):
    """(group of each number, names, how they are cut): the values, or fifths of the samples."""
    distinct, number = np.unique(numbers, return_inverse=True)
    number, unit = number.ravel(), " days" if are_days else ""
    if len(distinct) <= _FEW_VALUES:
        return number, [name + unit for name in _ranges(distinct, np.arange(len(distinct)))], ""
    fifth = _fifths(number)
    names = [name + unit for name in _ranges(distinct, fifth)]
    return fifth[number], names, "fifths of the samples"


def _fifths(number):
    """The group of each distinct value: the fifth of the samples in which its middle lies."""
    counts = np.bincount(number)
    middle = np.cumsum(counts) - counts / 2
    _, group = np.unique(np.floor(5 * middle / counts.sum()), return_inverse=True)
    return group.ravel()


def _ranges(values, group):
    """Names of ranges of sorted values, with as many digits as tell them apart."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    ends = np.append(starts[1:], len(values)) - 1
    low, high = values[starts], values[ends]
    single = low == high
    if not np.array_equal(values, np.rint(values)):  # ranges meet between their values
        middle = high[:-1] / 2 + low[1:] / 2
        low, high = np.append(low[:1], middle), np.append(middle, high[-1:])
        low, high = np.where(single, values[starts], low), np.where(single, values[starts], high)
        all_digits: Any = range(10 if single.all() else 4, 18)
    else:
        all_digits = (15, 17)
    for digits in all_digits:
        pairs = [[f"{end:.{digits}g}" for end in ends] for ends in zip(low, high, strict=True)]
        names = [
            one if alone else f"{one} to {two}"
            for (one, two), alone in zip(pairs, single, strict=True)
        ]
        if len(set(names)) == len(names):
            break
    return names


#: Names of units of the calendar and their types in NumPy, from long to short.
_UNITS = {
    "years": "M8[Y]",
    "quarters": "M8[3M]",
    "months": "M8[M]",
    "days": "M8[D]",
    "hours": "M8[h]",
}


def _of_times(times):
    """(group of each time, names, how they are cut): the times, calendar units, or fifths."""
    distinct, number = np.unique(times, return_inverse=True)
    number = number.ravel()
    if len(distinct) <= _FEW_VALUES:
        return number, times_as_text(distinct, resolution(distinct)), ""
    for unit, kind in _UNITS.items():
        starts, group = np.unique(distinct.astype(kind), return_inverse=True)
        if _FEWEST_UNITS <= len(starts) <= _MOST_UNITS:
            return group.ravel()[number], [_unit_text(one, unit) for one in starts], unit
    fifth = _fifths(number)
    cuts = np.flatnonzero(np.diff(fifth, prepend=-1))
    ends = distinct[cuts], distinct[np.append(cuts[1:], len(distinct)) - 1]
    for size in (86_400_000_000, 60_000_000, 1_000_000, 1):
        pairs = zip(*(times_as_text(one, size) for one in ends), strict=True)
        names = [low if low == high else f"{low} to {high}" for low, high in pairs]
        if len(set(names)) == len(names):
            break
    return fifth[number], names, "fifths of the samples"


def _unit_text(start, unit):
    """A unit of the calendar as text, from its start."""
    if unit == "quarters":
        months = int(start.astype("M8[M]").astype(int))
        return f"{1970 + months // 12} Q{months % 12 // 3 + 1}"
    text = str(start).replace("T", " ")
    return f"{text}:00" if unit == "hours" else text


def _note_of_cuts(columns, parts):
    """A sentence on the columns that were cut into ranges."""
    said = []
    for column, part in zip(columns, parts, strict=True):
        if part.cut:
            kind = "times" if column.kind == "time" else "numbers"
            n_values = len(np.unique(column.cells[~column.missing]))
            name = f"{column.name} ({n_values:,} {kind})" if column.name else f"{n_values:,} {kind}"
            said.append(f"{name} into {part.cut}")
    cut = f"Cut: {', '.join(said)}. Values that are text or a category, such as codes, are not cut."
    return cut if said else ""


def _members(part):
    return part.number[:, None] == np.arange(len(part.names))


def _check_number(n_groups, column=""):
    if n_groups > MOST_GROUPS:
        raise ValueError(
            f"{f'Column {column} of by' if column else 'by'} has {n_groups:,} groups, more than "
            f"{MOST_GROUPS:,}: join some of them first."
        )


# --- Intersections --------------------------------------------------------------------------------


def _intersections(parts):
    """Names and members of the groups of all columns together, and a note on the small ones."""
    table = np.column_stack([part.number for part in parts])
    cells, number, counts = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    number = number.ravel()
    named = [
        " and ".join(part.names[k] for part, k in zip(parts, cell, strict=True)) for cell in cells
    ]
    small, note = np.flatnonzero(counts < _SMALL), ""
    if len(small) > 1:
        large = np.flatnonzero(counts >= _SMALL)
        group = np.full(len(cells), len(large))
        group[large] = np.arange(len(large))
        first = [named[k] for k in small[:_MOST_SHOWN]]
        more = f" and {len(small) - _MOST_SHOWN} more" if len(small) > _MOST_SHOWN else ""
        note = (
            f"{len(small)} intersections of fewer than {_SMALL} samples form one group of "
            f"{counts[small].sum():,}: {'; '.join(first)}{more}."
        )
        named = [*(named[k] for k in large), "smaller intersections"]
        number = group[number]
    _check_number(len(named))
    return named, number[:, None] == np.arange(len(named)), note


# --- Masks ----------------------------------------------------------------------------------------


def _is_mask(values):
    cells = np.asarray(values)
    if cells.dtype == object:
        return cells.size > 0 and all(isinstance(one, (bool, np.bool_)) for one in cells.flat)
    return cells.dtype == bool


def _of_masks(by, n_samples, intersections):
    if not by:
        raise ValueError("by is an empty dict: pass a mask for each group, by its name.")
    if intersections:
        raise ValueError(
            "intersections=True is for columns of groups, but by is a dict of masks: pass a data "
            "frame, in which each column has the group of each sample."
        )
    masks = {name: np.asarray(mask).astype(bool) for name, mask in by.items()}
    for name, mask in masks.items():
        if mask.shape != (n_samples,):
            raise ValueError(
                f"by[{name!r}] must be a mask of {n_samples} booleans, got shape {mask.shape}."
            )
    members = np.stack(list(masks.values()), axis=1)
    return NamedGroups(names_of_columns(by, "by"), members, bool((members.sum(1) > 1).any()))
