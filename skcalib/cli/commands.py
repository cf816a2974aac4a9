"""The commands ``skcalib report`` and ``skcalib monitor``, and a demonstration without one."""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from skcalib._util.files import (
    STANDARD,
    check_writable,
    exclusive,
    replace_file,
    without_standard_input,
    write_atomically,
)
from skcalib._util.formatting import printable
from skcalib._util.packing import is_packed
from skcalib._util.progress import print_line, show_progress, stage
from skcalib._util.sizes import SIZES
from skcalib.cli.parser import ALPHA, NOTION, PAGE, WINDOW, columns_of, print_note, reading
from skcalib.data.class_columns import ColumnNames, is_same_label, normalised_name
from skcalib.io import files, read_predictions
from skcalib.io.roles import ROUNDING, ChoiceError
from skcalib.monitoring import CalibrationMonitor
from skcalib.report import CalibrationReport, ComparisonReport
from skcalib.report.rendering import is_page, render_page
from skcalib.sketches.sketch import ForecastSketch

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_MANY = 20  # different rows of labels and probabilities, which no other samples have by chance
SKETCH = ".sketch"  # suffix of files of sketches


def is_predictions(argument: str) -> bool:
    """Whether an argument in the place of a command is a file."""
    suffixes = (*files.SUFFIXES, SKETCH)
    return files.suffix_of(Path(argument)) in suffixes or Path(argument).is_file()


@contextmanager
def _advice(proba):
    """Name the option for rows that sum to 1 up to rounding."""
    try:
        yield
    except ValueError as error:
        is_sum = "must sum to 1" in str(error) and proba.ndim == 2
        if not is_sum or np.abs(proba.sum(axis=1) - 1).max() > ROUNDING:
            raise
        raise ValueError(f"{error} On the command line: --normalize.") from error


def _normalized(proba, name, options):
    """Rows that sum to 1 up to rounding, normalized on request; raise for others of a file."""
    if not options.normalize or proba.ndim == 1 or proba.shape[1] == 1:
        return proba
    totals = proba.sum(axis=1, keepdims=True)
    off = totals[np.abs(totals - 1) > ROUNDING]
    if len(off):
        raise ValueError(
            f"{name} has a row of probabilities that sums to {off[0]:.3g}: --normalize is for "
            f"rounding, up to {ROUNDING:g}."
        )
    return proba / totals


def run_report(options: argparse.Namespace) -> tuple[str, bytes]:
    """Write the page and files; the text to print, or the bytes of the page for standard output."""
    _check_outputs(options)
    # In a terminal the stages are shown, on standard error and not in the report.
    verbose = getattr(sys.stderr, "isatty", bool)() or getattr(options, "verbose", False)
    with show_progress() if verbose else nullcontext():
        if options.command == "report":
            with without_standard_input(options.files) as options.files:
                report = report_of_files(options, verbose)
        else:
            report = _demonstration(verbose)
    with stage("page", verbose, printable(options.out.name)):
        if options.out == STANDARD:
            return "", render_page(report._document()).encode()
        page = report.to_html(options.out)
    written = f"\n\nWritten: {printable(str(page.resolve()))}"
    return report.to_text(details=options.details) + written, b""


# --- What is written ------------------------------------------------------------------------------


_START = 4096  # bytes of a file in which its kind is recognized


def _check_outputs(options):
    """Raise for files that cannot be written, or that are not ours, before anything is read."""
    if options.out != STANDARD and options.out.is_dir():
        options.out /= PAGE
    outputs = {"--out": options.out, "--save-sketch": getattr(options, "save_sketch", None)}
    outputs = {option: path for option, path in outputs.items() if path not in (None, STANDARD)}
    for option, path in outputs.items():
        if option == "--out" and path.suffix.lower() != ".html":
            raise ValueError(
                f"--out must be a name that ends in .html, a folder or -, got {path}: no other "
                "file is replaced by a page."
            )
        check_writable(path)
        if any(_is_same(path, file) for file in getattr(options, "files", [])):
            raise ValueError(
                f"{option} {path} is a file of predictions, which is not overwritten: choose "
                "another name."
            )
        if options.force or not (path.is_symlink() or path.is_file()):
            continue
        reason, kind = "is a symbolic link", "report" if option == "--out" else "sketch"
        if not path.is_symlink():
            with path.open("rb") as file:
                start = file.read(_START)
            if is_page(start) if kind == "report" else is_packed(start, "ForecastSketch"):
                continue
            reason = f"exists and is not a {kind} of skcalib"
        raise ValueError(f"{path} {reason}: choose another name, or replace it with --force.")


def _is_same(first, second):
    try:
        return first.samefile(second)
    except OSError:  # one of them does not exist
        return first.resolve() == second.resolve()


# --- Reports --------------------------------------------------------------------------------------


def report_of_files(
    options: argparse.Namespace, verbose: bool
) -> CalibrationReport | ComparisonReport:
    """The report of the files, or the comparison of several."""
    names = options.name or [files.name_of(path) for path in options.files]
    if len(names) != len(options.files):
        raise ValueError(
            f"There are {len(options.files)} files, but {len(names)} names: give --name once for "
            "each file, in their order."
        )
    saved = options.save_sketch
    if saved is not None and (len(options.files) > 1 or saved.suffix.lower() != SKETCH):
        raise ValueError(f"--save-sketch is for one table, and a file that ends in {SKETCH}.")
    if len(set(names)) < len(names):
        raise ValueError("Two files have the same name: name each model with --name.")
    features, by = columns_of(options.features), columns_of(options.by)
    clusters = columns_of(options.groups)
    if len(clusters) > 1:
        raise ValueError(f"--groups takes one column, got {', '.join(clusters)}.")
    columns = list(dict.fromkeys([*features, *by, *clusters]))
    reports, labels, label_names = {}, None, {}
    run = {name: getattr(options, name) for name in ("confidence_level", "random_state", "n_jobs")}
    run |= {"threshold": options.threshold, "costs": _matrix(options.costs)}
    for name, path in zip(names, options.files, strict=True):
        sketch = _read_sketch(path, options, columns, verbose, labels)
        if sketch is not None:
            labels = sketch.classes_ if labels is None else labels
            label = ColumnNames.known_of(sketch).label
            for earlier, known in label_names.items():  # a sketch has no samples to compare
                if None not in (label, known) and not is_same_label(label, known):
                    raise ValueError(
                        f"{path.name} has the labels {label!r}, and {earlier} has {known!r}: "
                        "compare models of one outcome, or set label_name_ of the sketches to one "
                        "name."
                    )
            label_names[path.name] = label
            reports[name] = CalibrationReport.from_sketch(sketch, name=name, verbose=verbose, **run)
            continue
        read = read_predictions(path, features=columns or None, **reading(options))
        print_note(path.name, read.note)
        predictions = read.in_order_of(labels)
        proba = _normalized(predictions.y_proba, path.name, options)
        groups = None
        if clusters:
            groups = np.asarray(_columns(predictions.features, columns, clusters))[:, 0]
        with _advice(proba):
            reports[name] = CalibrationReport.from_predictions(
                predictions.y_true,
                proba,
                _columns(predictions.features, columns, features),
                by=_columns(predictions.features, columns, by) if by else None,
                intersections=options.intersections,
                groups=groups,
                labels=predictions.labels,
                pos_label=predictions.event,
                name=name,
                verbose=verbose,
                **run,
            )
        labels = reports[name].problem.classes if labels is None else labels
    if len(reports) == 1:
        return reports[name]
    with stage("differences of the models", verbose, ", ".join(names)):
        return ComparisonReport(reports, n_jobs=options.n_jobs)


def _matrix(text):
    """Costs from text: rows separated by semicolons, numbers by commas."""
    if text is None:
        return None
    try:
        rows = [[float(cell) for cell in row.split(",")] for row in text.split(";")]
    except ValueError:
        rows = [[], []]
    if len({len(row) for row in rows}) > 1 or not rows[0]:
        raise ValueError(
            f"--costs must be rows of numbers of equal length, such as 0,1;5,0, got {text!r}."
        )
    return np.array(rows)


def _columns(table, names, chosen):
    """Some of the named columns of the features, or all that a file without names has."""
    if not names:
        return table
    if not chosen:
        return None
    places = [names.index(name) for name in chosen]  # in any letter case
    return table.iloc[:, places] if hasattr(table, "iloc") else table[:, places]


def _read_sketch(path, options, features, verbose, labels):
    """The sketch in a file, or of a large table; None for files that are read into memory.

    Classes of a table are in the order of `labels` if they are the same.
    """
    if path.suffix.lower() == SKETCH:
        return _stored_sketch(path, options)
    n_rows, wanted = files.count_table_rows(path), options.sketch
    if wanted is None and options.save_sketch is not None:
        wanted = True
    if wanted is None and n_rows > SIZES.sketched_rows and not features:
        print_line(
            f"{path.name} has about {n_rows:,} rows: their sums are taken block by block "
            "(--no-sketch reads the rows into memory)."
        )
    elif not wanted:
        if options.save_sketch is not None:
            raise ValueError("There is no sketch to save: leave out --no-sketch.")
        return None
    if features:
        raise ValueError(
            "A sketch has no features: leave out --features, --by, --groups or --sketch."
        )
    if not n_rows:
        raise ValueError(f"--sketch is for tables, and {path.name} is not one: leave it out.")
    with stage("sums over cells", verbose, path.name):
        known = None
        while True:
            try:
                sketch = _sketch_of_table(path, options, labels, known)
                break
            except files.LateLabelError as error:  # start again, with all labels of the table
                (known,) = error.args
    if options.save_sketch is not None:
        write_atomically(options.save_sketch, sketch.to_bytes())
    return sketch


def _sketch_of_table(path, options, labels, known):
    """The sketch of a table, read part by part."""
    sketch = None
    for predictions in files.read_parts(path, known=known, **reading(options)):
        if sketch is None:
            print_note(path.name, predictions.note)
            names = ColumnNames(predictions.label_column, predictions.score_column)
        part = predictions.in_order_of(labels)
        proba, classes = _normalized(part.y_proba, path.name, options), part.labels
        if part.event is not None and part.event == classes[0]:  # that of a sketch is the last
            proba, classes = proba[:, ::-1], classes[::-1]
        sketch = ForecastSketch(classes) if sketch is None else sketch
        n_before = getattr(sketch, "n_samples_seen_", 0)
        try:
            with _advice(proba):
                sketch.partial_fit(part.y_true, proba)
        except ValueError as error:
            raise ValueError(f"{path.name}, rows from {n_before + 1:,}: {error}") from error
    names.store(sketch)
    return sketch


def _stored_sketch(path, options):
    """The sketch in a file that has the bytes of `ForecastSketch.to_bytes`."""
    names = ("label_column", "score_column", "ignore", "sep", "decimal", "features", "by", "groups")
    for name in (*names, "intersections", "event", "normalize", "sketch", "save_sketch"):
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} is for samples, but {path.name} is a sketch: leave it out.")
    if not path.is_file():
        raise ValueError(f"{path} is not a file.")
    try:
        return ForecastSketch.from_bytes(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error


def _demonstration(verbose):
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=0
    )
    forest = RandomForestClassifier(random_state=0).fit(X_train, y_train)
    return CalibrationReport.from_estimator(
        forest, X_test, y_test, name="random forest on held-out digits", verbose=verbose
    )


# --- The command monitor --------------------------------------------------------------------------


def run_monitor(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Pass the line to `say`, then replace the state; return the exit status.

    Raises ValueError and OSError, also those of `say`, and then the state is as it was.
    """
    if options.state.is_symlink():
        options.state = Path(os.path.realpath(options.state))
    if options.state.exists() and not (options.state.is_file() or options.state.is_dir()):
        raise ValueError(f"--state must be a regular file, got {options.state}.")
    with without_standard_input(options.files) as options.files, exclusive(options.state):
        monitor = _read_state(options)
        n_alarms, names = 0 if monitor is None else -monitor.n_alarms_, {}
        for path in options.files:
            monitor = _add_file(path, monitor, options, names)
        state = monitor.to_bytes()
        n_alarms += monitor.n_alarms_
        alarms = {0: "no alarm", 1: "an alarm"}.get(n_alarms, f"{n_alarms} alarms")
        listed = ", ".join(names.values()) if len(names) < 4 else f"{len(names)} files"
        say(printable(f"{listed}: {alarms}. All: {monitor.summary()}"))
        replace_file(options.state, state)
        return int(n_alarms > 0)


def _add_file(path, monitor, options, names):
    """The monitor with the samples of a file, or of the files of a folder or a pattern.

    `names` are those of the files of this call, by what identifies their rows.
    """
    if files.suffix_of(path) == SKETCH:
        raise ValueError(
            f"{path.name} is a sketch, whose samples have no order: pass the table that it was "
            "made of."
        )
    columns = columns_of(options.by)
    read, rows_of_files = _read(path, monitor, options, columns)
    print_note(path.name, read.note)
    read = replace(read, y_proba=_normalized(read.y_proba, path.name, options))
    monitor, read = _monitor_for(monitor, read, path, options)
    columns_read = _joined_names(monitor, read, path, options)
    sources = getattr(monitor, "sources_", [])
    by, y_proba = _groups(read.features, columns), read.y_proba
    for file in rows_of_files:
        source = _source(read, monitor.labels, file)
        if source in names:
            raise ValueError(
                f"{file.path.name} has the same rows as {names[source]}: files must have new "
                "samples only."
            )
        if source in sources:
            raise ValueError(
                f"{file.path.name} has been added to {options.state.name} before as a whole, under "
                "this or another name: files must have new samples only."
            )
        names[source] = file.path.name
        groups = None if by is None else by[file.rows]
        try:
            with _advice(y_proba):
                monitor.partial_fit(
                    read.y_true[file.rows], y_proba[file.rows], by=groups, source=source
                )
        except ValueError as error:
            raise ValueError(f"{file.path.name} cannot be added: {error}") from error
    columns_read.store(monitor)
    return monitor


def _read(path, monitor, options, columns):
    """The samples of a file, and its rows; of several columns with one role, that of the state."""
    roles, stored = reading(options), ColumnNames.known_of(monitor)
    known = {"label_column": stored.label, "score_column": stored.score}
    while True:
        try:
            return files.read_files(path, features=columns, **roles)
        except ChoiceError as error:
            same = {
                argument: column
                for choice in error.choices
                for argument, column in choice.items()
                if normalised_name(known.get(argument) or "") == normalised_name(column)
            }
            if not same:
                raise
            roles |= same
            print_note(path.name, f"{', '.join(same.values())} is taken, as in the state")


def _joined_names(monitor, read, path, options):
    """Names of the columns of the state and of a file; a column of another name is refused.

    One that the call names is taken.
    """
    stored = ColumnNames.known_of(monitor)
    names = ColumnNames(read.label_column, read.score_column)
    state = printable(options.state.name)
    if hasattr(monitor, "classes_") and stored == ColumnNames() != names:
        listed = ", ".join(name for name in (names.label, names.score) if name is not None)
        print_line(f"{state} has no names of columns; from now on they are {listed}.")
    derived = ColumnNames(
        None if options.label_column else names.label, None if options.score_column else names.score
    )
    difference = stored.difference(derived, monitor.labels)
    if difference is not None:
        column, before, new = difference
        option = "label_column" if column == "labels" else "score_column"
        raise ChoiceError(
            f"{path.name} has the {column} {new!r}, and {state} has {before!r}: start another "
            f"state or, if these are the same {column}, name the column",
            [{option: new}],
        )
    return ColumnNames(stored.label or names.label, stored.score or names.score)


def _source(read, labels, file):
    """What identifies the rows of a file: labels and probabilities if they are many, or all."""
    places = {str(label): place for place, label in enumerate(labels)}
    codes = [places.get(label, -1) for label in map(str, read.y_true[file.rows].tolist())]
    proba = read.y_proba[file.rows]
    proba = proba.reshape(len(proba), -1)
    proba = proba[:, -1:] if len(labels) == 2 else proba
    with np.errstate(over="ignore"):  # of what is no probability, and is refused later
        rows = np.column_stack([codes, proba]).astype(np.float32)
    rows, counts = np.unique(rows, axis=0, return_counts=True)  # in any order
    if len(rows) < _MANY:
        return hashlib.sha256(file.path.read_bytes()).hexdigest()
    return hashlib.sha256(rows.tobytes() + counts.astype("<i8").tobytes()).hexdigest()


def _read_state(options):
    """The monitor in the state file, or None if there is no file yet."""
    path = options.state
    if not path.exists():
        return None
    if path.resolve() in [file.resolve() for file in options.files]:
        raise ValueError(f"{path.name} cannot be both the samples and the state.")
    try:
        monitor = CalibrationMonitor.from_bytes(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    for option in ("alpha", "window", "notion"):
        requested, stored = getattr(options, option), getattr(monitor, option)
        if requested is not None and requested != stored:
            form = "" if isinstance(stored, str) else "g"
            raise ValueError(
                f"--{option} is {stored:{form}} in {path.name}, got {requested:{form}}: leave it "
                "out, or start another state."
            )
    return monitor


def _monitor_for(monitor, read, path, options):
    """The monitor, new if there was none, and the predictions in the order of its classes."""
    event = read.event
    if read.labels is None:
        labels = list(range(2 if read.y_proba.ndim == 1 else max(2, read.y_proba.shape[1])))
    else:
        labels = np.asarray(read.labels).tolist()
    if monitor is None:
        monitor = CalibrationMonitor(
            labels[::-1] if event is not None and event == labels[0] else labels,
            notion=NOTION if options.notion is None else options.notion,
            alpha=ALPHA if options.alpha is None else options.alpha,
            window=WINDOW if options.window is None else options.window,
        )
    if read.labels is None:
        return monitor, read
    known = np.asarray(monitor.labels).tolist()
    if len(known) == len(labels) == 2:  # a file with one class only may not name the other
        named = [label for label in labels if label in known]
        if len(named) == 1 and f"not {named[0]}" in labels:
            missing = known[1 - known.index(named[0])]
            labels = [label if label in known else missing for label in labels]
    if sorted(map(str, labels)) != sorted(map(str, known)):
        raise ValueError(
            f"{path.name} has the classes {' and '.join(map(str, labels))}, and "
            f"{options.state.name} has {' and '.join(map(str, known))}."
        )
    if event is not None and str(event) != str(known[-1]):
        raise ValueError(
            f"--event is {known[-1]} in {options.state.name}, got {event}: leave it out, or "
            "start another state."
        )
    return monitor, replace(read, labels=np.array(labels), event=None).in_order_of(known)


def _groups(table, columns):
    """One group for each sample: the cells of the columns, as text."""
    if not columns:
        return None
    if hasattr(table, "columns"):  # a data frame of pandas or polars
        cells = [np.asarray(table[name]).tolist() for name in table.columns]
    else:
        cells = np.asarray(table).T.tolist()
    return np.array([" / ".join(map(str, row)) for row in zip(*cells, strict=True)], dtype=object)
