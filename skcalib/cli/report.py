"""The command ``skcalib report``, and the report of a demonstration without a command."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from skcalib._util.files import STANDARD, check_writable, without_standard_input, write_atomically
from skcalib._util.formatting import printable
from skcalib._util.packing import is_packed
from skcalib._util.progress import print_line, show_progress, stage
from skcalib.cli.parser import LARGE, PAGE, columns_of, print_note, reading
from skcalib.data.class_columns import ColumnNames
from skcalib.data.column_names import states_other_outcome
from skcalib.io import read_predictions
from skcalib.io._classes import advice, normalize
from skcalib.io.files import SUFFIXES, LateLabelError, count_rows, name_of, read_parts, suffix_of
from skcalib.report import CalibrationReport, ComparisonReport
from skcalib.report.rendering import is_page, render_page
from skcalib.sketches.sketch import ForecastSketch

if TYPE_CHECKING:
    import argparse

SKETCH = ".sketch"  # suffix of files of sketches


def is_predictions(argument: str) -> bool:
    """Whether an argument in the place of a command is a file."""
    return suffix_of(Path(argument)) in (*SUFFIXES, SKETCH) or Path(argument).is_file()


def run_report(options: argparse.Namespace) -> tuple[str, bytes]:
    """Write the page and files; the text to print, or the bytes of the page for standard output."""
    _check_outputs(options)
    # In a terminal the stages are shown, on standard error and not in the report.
    verbose = getattr(sys.stderr, "isatty", bool)() or getattr(options, "verbose", False)
    with show_progress() if verbose else nullcontext():
        report = _report(options, verbose)
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
        if any(_is_same(path, given) for given in getattr(options, "files", [])):
            raise ValueError(
                f"{option} {path} is a file of predictions, which is not overwritten: choose "
                "another name."
            )
        kind = "report" if option == "--out" else "sketch"
        if options.force or not (path.is_symlink() or path.is_file()) or _is_ours(path, kind):
            continue
        what = (
            "is a symbolic link" if path.is_symlink() else f"exists and is not a {kind} of skcalib"
        )
        raise ValueError(f"{path} {what}: choose another name, or replace it with --force.")


def _is_same(first, second):
    try:
        return first.samefile(second)
    except OSError:  # one of them does not exist
        return first.resolve() == second.resolve()


def _is_ours(path, kind):
    """Whether a file is a report or a sketch."""
    if path.is_symlink():
        return False
    with path.open("rb") as file:
        start = file.read(_START)
    return is_page(start) if kind == "report" else is_packed(start, "ForecastSketch")


# --- Reports --------------------------------------------------------------------------------------


def _report(options, verbose):
    if options.command == "report":
        with without_standard_input(options.files) as options.files:
            return _report_of_files(options, verbose)
    return _demonstration(verbose)


def _report_of_files(options, verbose):
    names = options.name or [name_of(path) for path in options.files]
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
    features, by = (columns_of(given) for given in (options.features, options.by))
    clusters = columns_of(options.groups)
    columns = list(dict.fromkeys([*features, *by, *clusters]))
    reports, labels, columns_of_files = {}, None, []
    run = {name: getattr(options, name) for name in ("confidence_level", "random_state", "n_jobs")}
    run |= {"threshold": options.threshold, "costs": _matrix(options.costs)}
    for name, path in zip(names, options.files, strict=True):
        sketch = _read_sketch(path, options, columns, verbose, labels)
        if sketch is not None:
            labels = sketch.classes_ if labels is None else labels
            _check_outcome(path, ColumnNames.known_of(sketch), columns_of_files)
            reports[name] = CalibrationReport.from_sketch(sketch, name=name, verbose=verbose, **run)
            continue
        read = read_predictions(path, features=columns or None, **reading(options))
        print_note(path.name, read.note)
        _check_outcome(path, ColumnNames(read.label_column), columns_of_files)
        predictions = read.in_order_of(labels)
        proba = predictions.y_proba
        if options.normalize:
            proba = normalize(proba, path.name)
        with advice(proba):
            reports[name] = CalibrationReport.from_predictions(
                predictions.y_true,
                proba,
                _columns(predictions.features, columns, features),
                by=_columns(predictions.features, columns, by) if by else None,
                intersections=options.intersections,
                groups=_column(predictions.features, columns, clusters),
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


def _check_outcome(path, names, before):
    """Raise for labels of another outcome than those of the files before, which are extended."""
    for earlier, known in before:
        if None not in (names.label, known.label) and states_other_outcome(
            names.label, known.label
        ):
            raise ValueError(
                f"{path.name} has the labels {names.label!r}, and {earlier} has {known.label!r}, "
                "which are different outcomes: compare models of one outcome."
            )
    before.append((path.name, names))


def _matrix(given):
    """Costs from text: rows separated by semicolons, numbers by commas."""
    if given is None:
        return None
    try:
        rows = [[float(cell) for cell in row.split(",")] for row in given.split(";")]
    except ValueError:
        rows = [[], []]
    if len({len(row) for row in rows}) > 1 or not rows[0]:
        raise ValueError(
            f"--costs must be rows of numbers of equal length, such as 0,1;5,0, got {given!r}."
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


def _column(table, names, chosen):
    """The column of the clusters, or None."""
    if not chosen:
        return None
    if len(chosen) > 1:
        raise ValueError(f"--groups takes one column, got {', '.join(chosen)}.")
    return np.asarray(_columns(table, names, chosen))[:, 0]


def _read_sketch(path, options, features, verbose, labels):
    """The sketch in a file, or of a large table; None for files that are read into memory.

    Classes of a table are in the order of `labels` if they are the same.
    """
    if path.suffix.lower() == SKETCH:
        return _stored_sketch(path, options)
    n_rows, wanted = count_rows(path), options.sketch
    if wanted is None and options.save_sketch is not None:
        wanted = True
    if wanted is None and n_rows > LARGE and not features:
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
            except LateLabelError as error:  # start again, with all labels of the table
                (known,) = error.args
    if options.save_sketch is not None:
        write_atomically(options.save_sketch, sketch.to_bytes())
    return sketch


def _sketch_of_table(path, options, labels, known):
    """The sketch of a table, read part by part."""
    sketch = None
    parts = read_parts(path, known=known, **reading(options))
    for predictions in parts:
        if sketch is None:
            print_note(path.name, predictions.note)
            names = ColumnNames(predictions.label_column, predictions.score_column)
        part = predictions.in_order_of(labels)
        proba, classes = part.y_proba, part.labels
        if options.normalize:
            proba = normalize(proba, path.name)
        if part.event is not None and part.event == classes[0]:  # that of a sketch is the last
            proba, classes = proba[:, ::-1], classes[::-1]
        sketch = ForecastSketch(classes) if sketch is None else sketch
        n_before = getattr(sketch, "n_samples_seen_", 0)
        try:
            with advice(proba):
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
