"""The parser of the command line, and what both commands print and read of their options.

Nothing here imports NumPy or scikit-learn, so that ``--help`` is fast.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from skcalib import __version__
from skcalib._util.progress import print_line
from skcalib._util.sizes import SIZES

#: Defaults of the command monitor.
ALPHA, WINDOW, NOTION = 1e-5, 1000, "auto"
#: The page of a report.
PAGE = Path("skcalib-report.html")


class _Parser(argparse.ArgumentParser):
    """A parser whose messages have no control characters of the arguments."""

    def error(self, message):
        from skcalib._util.formatting import printable  # imports NumPy

        super().error(printable(message))


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
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
        "(the bytes of ForecastSketch.to_bytes). Names such as label, churned, outcome, p_churn "
        "or score decide what a column is, and otherwise values; the first line says what was "
        "taken, and why. Where two columns are left, the message has the command for each. "
        "Text may be compressed (.gz, .bz2, .xz). A folder, or a quoted pattern such as "
        "'part-*.csv', is one table. Several files, one for each model on the same samples, are "
        "compared. Tables may be larger than the memory: see --sketch.",
    )
    report.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="file",
        help="predictions; - is standard input, a .csv table",
    )
    _add_output(report, default=False)
    _add_reading(report)
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
        "--intersections",
        action="store_true",
        help="report on the intersections of the columns of --by, such as sex and age together",
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
        f"classes for the top label; default: tables of more than {SIZES.sketched_rows:,} rows",
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
    _add_monitor(commands)
    return parser


def _add_output(parser, *, default):
    """Options before or after the command; those before it have defaults."""

    def value(default_value):
        return default_value if default else argparse.SUPPRESS

    parser.add_argument(
        "--out",
        type=Path,
        default=value(PAGE),
        metavar="PAGE",
        help="page to write: a name that ends in .html, a folder, or - for standard output in "
        f"place of the text; default: {PAGE}",
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


def _add_monitor(commands):
    parser = commands.add_parser(
        "monitor",
        help="add files to a monitor of calibration, and say whether there is an alarm",
        description="Add labels and the probabilities that were forecast for them to a monitor, "
        "in the order of the rows, and print one line. The exit status is 1 if they cause an "
        "alarm, 0 if they do not, and 2 after an error, which leaves the state as it was. The line "
        "is printed before the state is replaced. Calls with the same state wait for each other. "
        "Files are .npz, .csv and .parquet, as of the command report; files of several names, a "
        "folder or a quoted pattern such as 'week-*.csv' are added in the order of their names. "
        "They have new samples only: a file with the same rows as an earlier one is refused, "
        "under any name, and with 20 different rows or more in any format or compression. Whole "
        "files are compared, so that a part of an earlier file, or several of them in one, is "
        "added again. The state has the names of the columns of labels and of a single score. "
        "Other names, but for letter case, are refused unless --label-column or --score-column "
        "names them. A state that was made from arrays has no names: those of the next file are "
        "stored, as a line says.",
    )
    parser.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="file",
        help="labels and probabilities; - is standard input, a .csv table",
    )
    parser.add_argument(
        "--state",
        type=Path,
        required=True,
        metavar="FILE",
        help="state of the monitor; made by the first call, and read and replaced by later ones; "
        "symbolic links are followed",
    )
    parser.add_argument(
        "--alpha",
        type=float,
        metavar="RATE",
        help="one over the least mean number of samples between false alarms, in the first call; "
        f"default: {ALPHA:g}",
    )
    parser.add_argument(
        "--window",
        type=int,
        metavar="N",
        help=f"number of samples of a window, in the first call; default: {WINDOW}",
    )
    parser.add_argument(
        "--notion",
        metavar="NAME",
        help="what is monitored of several classes, in the first call: top_label, classwise, "
        f"cumulative (ordered classes) or canonical; default: {NOTION}, the event of two classes, "
        "and otherwise the top label",
    )
    _add_reading(parser)
    parser.add_argument(
        "--by",
        metavar="NAMES",
        help="columns of a table that divide the samples into groups: an alarm names those that "
        "differ",
    )
    parser.add_argument("--event", metavar="NAME", help="the class, of two, that is monitored")


def _add_reading(parser):
    """Add the options of both commands that say how a file is read."""
    parser.add_argument("--label-column", metavar="NAME", help="column of labels in a table")
    parser.add_argument(
        "--score-column", metavar="NAME", help="the only column of probabilities in a table"
    )
    parser.add_argument(
        "--ignore",
        metavar="NAMES",
        type=columns_of,
        default=[],
        help="columns of a table that are not used, separated by commas: customer_id,date",
    )
    parser.add_argument(
        "--sep",
        type=lambda text: {"tab": "\t", "\\t": "\t"}.get(text, text),
        metavar="CHAR",
        help="what separates the cells of a .csv file: ';' or tab; default: a comma",
    )
    parser.add_argument(
        "--decimal", metavar="CHAR", help="decimal mark of a .csv file: , or a point, the default"
    )
    parser.add_argument(
        "--normalize",
        action="store_true",
        help="divide each row of rounded probabilities by its sum",
    )


def columns_of(text: str | None) -> list[str]:
    """Names of columns, from text."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def reading(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `read_predictions` that say how a file is read."""
    names = ("label_column", "score_column", "event", "ignore", "sep", "decimal")
    return {name: getattr(options, name) for name in names}


def print_note(name: str, note: str) -> None:
    """Print what the values of a table show about its columns."""
    if note:
        print_line(f"{name}: {note}.")
