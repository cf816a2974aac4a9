"""The command ``skcalib monitor``: the samples of files are added to a monitor in a state file."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skcalib._util.files import exclusive, replace_file, without_standard_input
from skcalib._util.formatting import printable
from skcalib._util.progress import print_line
from skcalib.cli.parser import ALPHA, NOTION, WINDOW, columns_of, print_note, reading
from skcalib.data.class_columns import ColumnNames
from skcalib.data.column_names import in_words
from skcalib.io._classes import advice, normalize
from skcalib.io._roles import ChoiceError
from skcalib.io._tables import MANY
from skcalib.io.files import read_files, suffix_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def run_monitor(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Pass the line to `say`, then replace the state; return the exit status.

    Raises ValueError and OSError, also those of `say`, and then the state is as it was.
    """
    if options.state.is_symlink():
        options.state = Path(os.path.realpath(options.state))
    if options.state.exists() and not (options.state.is_file() or options.state.is_dir()):
        raise ValueError(f"--state must be a regular file, got {options.state}.")
    with without_standard_input(options.files) as options.files, exclusive(options.state):
        return _add_files(options, say)


def _add_files(options, say):
    """Add the samples of the files to the state, which no other process changes."""
    monitor, names = _read_state(options), {}
    before = 0 if monitor is None else monitor.n_alarms_
    for path in options.files:
        monitor = _add_file(path, monitor, options, names)
    data, added = monitor.to_bytes(), monitor.n_alarms_ - before
    alarms = {0: "no alarm", 1: "an alarm"}.get(added, f"{added} alarms")
    added_names = list(names.values())
    listed = ", ".join(added_names) if len(added_names) < 4 else f"{len(added_names)} files"
    say(printable(f"{listed}: {alarms}. All: {monitor.summary()}"))
    replace_file(options.state, data)
    return int(added > 0)


def _add_file(path, monitor, options, names):
    """The monitor with the samples of a file, or of the files of a folder or a pattern.

    `names` are those of the files of this call, by what identifies their rows.
    """
    if suffix_of(path) == ".sketch":
        raise ValueError(
            f"{path.name} is a sketch, whose samples have no order: pass the table that it was "
            "made of."
        )
    columns = columns_of(options.by)
    read, files = _read(path, monitor, options, columns)
    print_note(path.name, read.note)
    if options.normalize:
        read = replace(read, y_proba=normalize(read.y_proba, path.name))
    monitor, read = _monitor_for(monitor, read, path, options)
    columns_read = _joined_names(monitor, read, path, options)
    known = [] if not hasattr(monitor, "classes_") else monitor.sources_
    by, y_proba = _groups(read.features, columns), read.y_proba
    for one in files:
        source = _source(read, monitor.labels, one)
        if source in names:
            raise ValueError(
                f"{one.name} has the same rows as {names[source]}: files must have new samples "
                "only."
            )
        if source in known:
            raise ValueError(
                f"{one.name} has been added to {options.state.name} before as a whole, under this "
                "or another name: files must have new samples only."
            )
        names[source] = one.name
        groups = None if by is None else by[one.rows]
        try:
            with advice(y_proba):
                monitor.partial_fit(
                    read.y_true[one.rows], y_proba[one.rows], by=groups, source=source
                )
        except ValueError as error:
            raise ValueError(f"{one.name} cannot be added: {error}") from error
    columns_read.store(monitor)
    return monitor


def _read(path, monitor, options, columns):
    """The samples of a file, and its rows; of several columns with one role, that of the state."""
    roles, stored = reading(options), ColumnNames.known_of(monitor)
    known = {"label_column": stored.label, "score_column": stored.score}
    while True:
        try:
            return read_files(path, features=columns, identified=True, **roles)
        except ChoiceError as error:
            same = [
                one
                for one in error.choices
                if all(known.get(key) and in_words(known[key]) == in_words(value)
                       for key, value in one.items())
            ]  # fmt: skip
            if len(same) != 1:
                raise
            roles |= same[0]
            print_note(path.name, f"{next(iter(same[0].values()))} is taken, as in the state")


def _joined_names(monitor, read, path, options):
    """Names of the columns of the state and of a file; a column of another name is refused.

    One that the call names is taken, unless its name states another outcome.
    """
    stored = ColumnNames.known_of(monitor)
    names = ColumnNames(read.label_column, read.score_column)
    state = printable(options.state.name)
    if hasattr(monitor, "classes_") and stored == ColumnNames() != names:
        listed = ", ".join(one for one in (names.label, names.score) if one is not None)
        print_line(f"{state} has no names of columns; from now on they are {listed}.")
    named = ColumnNames(
        None if options.label_column else names.label, None if options.score_column else names.score
    )
    for given in (names, named):
        found = stored.difference(given, monitor.labels)
        if found is None:
            continue
        what, known, new, is_other = found
        said = f"{path.name} has the {what} {new!r}, and {state} has {known!r}"
        if is_other:
            raise ValueError(
                f"{said}, which are different outcomes: start another state for {new!r}."
            )
        if given is named:
            option = "label_column" if what == "labels" else "score_column"
            raise ChoiceError(
                f"{said}: start another state or, if these are the same {what}, name the column",
                [{option: new}],
            )
    return ColumnNames(stored.label or names.label, stored.score or names.score)


def _source(read, labels, file):
    """What identifies the rows of a file: labels and probabilities if they are many, else all."""
    places = {str(label): place for place, label in enumerate(labels)}
    codes = [places.get(label, -1) for label in map(str, read.y_true[file.rows].tolist())]
    proba = read.y_proba[file.rows]
    proba = proba.reshape(len(proba), -1)
    proba = proba[:, -1:] if len(labels) == 2 else proba
    with np.errstate(over="ignore"):  # of what is no probability, and is refused later
        rows = np.column_stack([codes, proba]).astype(np.float32)
    rows, counts = np.unique(rows, axis=0, return_counts=True)  # in any order
    if len(rows) < MANY and file.digest is not None:
        return file.digest
    return hashlib.sha256(rows.tobytes() + counts.astype("<i8").tobytes()).hexdigest()


def _read_state(options):
    """The monitor in the state file, or None if there is no file yet."""
    path = options.state
    if not path.exists():
        return None
    if path.resolve() in [one.resolve() for one in options.files]:
        raise ValueError(f"{path.name} cannot be both the samples and the state.")
    from skcalib.monitoring import CalibrationMonitor  # reports do without this import

    try:
        monitor = CalibrationMonitor.from_bytes(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    for option, given, value in (
        ("--alpha", options.alpha, monitor.alpha),
        ("--window", options.window, monitor.window),
        ("--notion", options.notion, monitor.notion),
    ):
        if given is not None and given != value:
            known, other = (one if isinstance(one, str) else f"{one:g}" for one in (value, given))
            raise ValueError(
                f"{option} is {known} in {path.name}, got {other}: leave it out, or start another "
                "state."
            )
    return monitor


def _monitor_for(monitor, read, path, options):
    """The monitor, new if there was none, and the predictions in the order of its classes."""
    if monitor is None:
        from skcalib.monitoring import CalibrationMonitor

        monitor = CalibrationMonitor(
            _classes_of(read),
            notion=NOTION if options.notion is None else options.notion,
            alpha=ALPHA if options.alpha is None else options.alpha,
            window=WINDOW if options.window is None else options.window,
        )
    known = np.asarray(monitor.labels).tolist()
    if read.labels is None:
        return monitor, read
    labels = np.asarray(read.labels).tolist()
    if len(known) == len(labels) == 2:  # a file with one class only may not name the other
        named = [label for label in labels if label in known]
        if len(named) == 1 and f"not {named[0]}" in labels:
            other = known[1 - known.index(named[0])]
            labels = [label if label in known else other for label in labels]
    if sorted(map(str, labels)) != sorted(map(str, known)):
        raise ValueError(
            f"{path.name} has the classes {_listed(labels)}, and {options.state.name} has "
            f"{_listed(known)}."
        )
    if read.event is not None and str(read.event) != str(known[-1]):
        raise ValueError(
            f"--event is {known[-1]} in {options.state.name}, got {read.event}: leave it out, or "
            "start another state."
        )
    return monitor, replace(read, labels=np.array(labels), event=None).in_order_of(known)


def _classes_of(read):
    """Classes of a new monitor, the event last."""
    if read.labels is None:
        return list(range(2 if read.y_proba.ndim == 1 else max(2, read.y_proba.shape[1])))
    labels = np.asarray(read.labels).tolist()
    return labels[::-1] if read.event is not None and read.event == labels[0] else labels


def _listed(labels):
    return " and ".join(map(str, labels))


def _groups(table, columns):
    """One group for each sample: the cells of the columns, as text."""
    if not columns:
        return None
    if hasattr(table, "columns"):  # a data frame of pandas or polars
        cells = [np.asarray(table[name]).tolist() for name in table.columns]
    else:
        cells = np.asarray(table).T.tolist()
    return np.array([" / ".join(map(str, row)) for row in zip(*cells, strict=True)], dtype=object)
