"""The command line: ``skcalib``, or ``python -m skcalib``."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory

# The imports make 200,000 objects that stay. By default Python searches them for garbage again and
# again, also when it ends, which would take a fifth of the time of a report. Only the command
# changes that, not an import of this module.
if __name__ == "__main__" or Path(sys.argv[0]).stem == "skcalib":
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
try:
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    from skcalib import __version__
    from skcalib._files import check_writable, write_atomically
    from skcalib._formatting import printable
    from skcalib._monitor_command import (
        add_monitor,
        add_reading,
        columns_of,
        print_line,
        print_note,
        reading,
        run_monitor,
    )
    from skcalib.io import read_predictions
    from skcalib.io._classes import advice, normalize
    from skcalib.io.files import (
        SUFFIXES,
        LateLabelError,
        count_rows,
        name_of,
        read_parts,
        suffix_of,
    )
    from skcalib.report import CalibrationReport, ComparisonReport
    from skcalib.report.findings import stage
    from skcalib.report.rendering import is_page, render_page
    from skcalib.sketch import SKETCH_MARK, ForecastSketch
except KeyboardInterrupt:  # the imports take a second or two
    sys.exit(130)
from collections.abc import Sequence

#: Suffix of files of sketches.
SKETCH = ".sketch"
#: Rows of a table from which it is read into a sketch.
LARGE = 10_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, with the arguments of the process by default.

    Returns the exit status: 0; 1 after an alarm of the command monitor; 2 after an error, which is
    printed as one sentence; 130 after Ctrl-C.
    """
    try:
        return _run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:
        print_line("interrupted.")
        return 130
    except MemoryError as error:
        print_line(f"there is not enough memory ({error})." if str(error) else "no memory is left.")
    except (ValueError, OSError) as error:
        print_line(str(error))
    return 2


def _run(arguments):
    if arguments and _is_predictions(arguments[0]):
        raise ValueError(f"which command? Try: skcalib report {arguments[0]}")
    with _standard_output():  # of --help and --version
        options = _parser().parse_args(arguments)
    if options.command == "monitor":
        output = sys.stdout

        def say(line):
            with redirect_stdout(output), _standard_output():
                print(_encodable(printable(line)))

        with redirect_stdout(sys.stderr):
            return run_monitor(options, say)
    _check_outputs(options)
    # In a terminal the stages are shown, on standard error and not in the report.
    verbose = getattr(sys.stderr, "isatty", bool)() or getattr(options, "verbose", False)
    with redirect_stdout(sys.stderr):
        report = _report(options, verbose)
        with stage("page", verbose, printable(options.out.name)):
            if options.out == _STANDARD:
                data = render_page(report._document()).encode()
            else:
                page = report.to_html(options.out)
    with _standard_output():
        if options.out == _STANDARD:
            sys.stdout.buffer.write(data)
            return 0
        print(_encodable(report.to_text(details=options.details)))
        print(_encodable(f"\nWritten: {printable(str(page.resolve()))}"))
    return 0


def _is_predictions(argument):
    """Whether the command before a file is missing."""
    if argument.startswith("-") or argument in ("report", "monitor"):
        return False
    return suffix_of(Path(argument)) in (*SUFFIXES, SKETCH) or Path(argument).is_file()


# --- What is printed ------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """A parser whose messages have no control characters of the arguments."""

    def error(self, message):
        super().error(printable(message))


@contextmanager
def _standard_output():
    """Write out standard output; what cannot be written is discarded, without a second error."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # the reader, such as head, has seen enough
            raise OSError(f"standard output cannot be written: {error.strerror}.") from error


def _encodable(text):
    """Text for standard output: characters that it cannot encode are escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


# --- What is written ------------------------------------------------------------------------------


_START = 4096  # bytes of a file in which its kind is recognized
_PAGE, _STANDARD = Path("skcalib-report.html"), Path("-")


def _check_outputs(options):
    """Raise for files that cannot be written, or that are not ours, before anything is read."""
    if options.out != _STANDARD and options.out.is_dir():
        options.out /= _PAGE
    outputs = {"--out": options.out, "--save-sketch": getattr(options, "save_sketch", None)}
    outputs = {option: path for option, path in outputs.items() if path not in (None, _STANDARD)}
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
    return is_page(start) if kind == "report" else start.startswith(SKETCH_MARK)


# --- Reports --------------------------------------------------------------------------------------


def _report(options, verbose):
    if options.command == "report":
        with _without_standard_input(options):
            return _report_of_files(options, verbose)
    return _demonstration(verbose)


@contextmanager
def _without_standard_input(options):
    """Replace - among the files by a copy of standard input."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "standard-input.csv"
        if _STANDARD in options.files:
            with copy.open("wb") as file:
                copyfileobj(sys.stdin.buffer, file)
        options.files = [copy if path == _STANDARD else path for path in options.files]
        yield


def _parser():
    parser = _Parser(
        prog="skcalib",
        description="Evaluate the calibration of a classifier. Without a command: the "
        "report of a random forest on scikit-learn's digits, on held-out images.",
    )
    parser.add_argument("--version", action="version", version=f"skcalib {__version__}")
    _add_output(parser, default=True)
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(dest="command", title="commands")
    report = commands.add_parser(
        "report",
        help="report on files of labels and probabilities",
        description="Report on held-out predictions in a file: .npz (y_true or ground_truth, "
        "y_proba or predictions, optionally X), .csv or .parquet (a column of labels, and one "
        "column for each class or a single one, named after the class: p_churn), or in a .sketch "
        "(the bytes of ForecastSketch.to_bytes). Where names do not state what a column is, its "
        "values may, and the first line says what was taken. Text may be compressed (.gz, .bz2, "
        ".xz, .zst). A folder, or a quoted pattern such as 'part-*.csv', is one table. Several "
        "files, one for each model on the same samples, are compared. Tables may be larger than "
        "the memory: see --sketch.",
    )
    report.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="file",
        help="predictions; - is standard input, a .csv table",
    )
    _add_output(report, default=False)
    add_reading(report)
    report.add_argument(
        "--features",
        metavar="NAMES",
        help="columns of a table that are features, separated by commas: age,sex",
    )
    report.add_argument(
        "--by",
        metavar="NAMES",
        help="columns of a table that divide the samples into groups to report on: site,sex",
    )
    report.add_argument(
        "--groups",
        metavar="NAME",
        help="column of the clusters of dependent samples, such as patients: intervals and tests "
        "allow for that",
    )
    decision = report.add_mutually_exclusive_group()
    decision.add_argument(
        "--threshold",
        type=float,
        metavar="T",
        help="threshold of the probability for decisions: the report states what they cost, and "
        "what would reduce the cost",
    )
    decision.add_argument(
        "--costs",
        metavar="ROWS",
        help="instead of a threshold, the cost of each decision, with a row for each class in the "
        "order of the columns: 0,1;5,0",
    )
    report.add_argument(
        "--event",
        metavar="NAME",
        help="the class, of two, whose probability is evaluated; default: the class that a single "
        "column names, or the class of the last column",
    )
    report.add_argument(
        "--sketch",
        action=argparse.BooleanOptionalAction,
        help="read tables block by block into a ForecastSketch, without features, for several "
        f"classes for the top label; default: tables of more than {LARGE:,} rows",
    )
    report.add_argument(
        "--save-sketch",
        type=Path,
        metavar="FILE",
        help="write the sketch of a table, for ForecastSketch.from_bytes or another report",
    )
    report.add_argument(
        "--name",
        action="append",
        help="name of the model, once for each file; the file's name by default",
    )
    report.add_argument(
        "--confidence-level", type=float, default=0.95, metavar="LEVEL", help="default: 0.95"
    )
    report.add_argument(
        "--random-state", type=int, default=0, metavar="SEED", help="seed; default: 0"
    )
    report.add_argument(
        "--n-jobs", type=int, metavar="JOBS", help="number of parallel jobs; default: 1"
    )
    report.add_argument(
        "--verbose",
        action="store_true",
        help="print the stages and their times on standard error; the default in a terminal",
    )
    add_monitor(commands)
    return parser


def _add_output(parser, *, default):
    """Options before or after the command; those before it have defaults."""

    def value(given):
        return given if default else argparse.SUPPRESS

    parser.add_argument(
        "--out",
        type=Path,
        default=value(_PAGE),
        metavar="PAGE",
        help="page to write: a name that ends in .html, a folder, or - for standard output in "
        f"place of the text; default: {_PAGE}",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        default=value(False),
        help="replace an existing .html file that is not a report, or .sketch file that is not a "
        "sketch; no other file is ever replaced",
    )
    parser.add_argument(
        "--details",
        action="store_true",
        default=value(False),
        help="print the full report; by default only its first screen",
    )


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
    reports, labels = {}, None
    run = {name: getattr(options, name) for name in ("confidence_level", "random_state", "n_jobs")}
    run |= {"threshold": options.threshold, "costs": _matrix(options.costs)}
    for name, path in zip(names, options.files, strict=True):
        sketch = _read_sketch(path, options, columns, verbose, labels)
        if sketch is not None:
            labels = sketch.classes_ if labels is None else labels
            reports[name] = CalibrationReport.from_sketch(sketch, name=name, verbose=verbose, **run)
            continue
        read = read_predictions(path, features=columns or None, **reading(options))
        print_note(path.name, read.note)
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
    return sketch


def _stored_sketch(path, options):
    """The sketch in a file that has the bytes of `ForecastSketch.to_bytes`."""
    names = ("label_column", "score_column", "ignore", "sep", "decimal", "features", "by", "groups")
    for name in (*names, "event", "normalize", "sketch", "save_sketch"):
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


if __name__ == "__main__":
    sys.exit(main())
