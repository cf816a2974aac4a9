"""The command line: ``skcalib``, or ``python -m skcalib``."""

import argparse
import sys
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from skcalib._version import __version__
from skcalib.reading import read_predictions
from skcalib.report import CalibrationReport


def main(arguments=None):
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        Exit status: 0, or 2 after an error, which is printed as one sentence.
    """
    options = _parser().parse_args(arguments)
    try:
        report = _report_of_file(options) if options.command == "report" else _demonstration()
        page = report.to_html(options.out)
    except (ValueError, OSError) as error:
        print(f"skcalib: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    print(report)
    print(f"\nWritten: {page.resolve()}")
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="skcalib",
        description="Can the probabilities of a classifier be trusted? Without a command: the "
        "report of a random forest on scikit-learn's digits, on held-out images.",
    )
    parser.add_argument("--version", action="version", version=f"skcalib {__version__}")
    _add_out(parser)
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(dest="command", title="commands")
    report = commands.add_parser(
        "report",
        help="report on a file of labels and probabilities",
        description="Report on held-out predictions in a file: .npz (y_true or ground_truth, "
        "y_proba or predictions), .csv or .parquet (a column of labels, one column per class).",
    )
    report.add_argument("file", type=Path, help="the file of predictions")
    _add_out(report)
    report.add_argument("--label-column", metavar="NAME", help="column of labels in a table")
    report.add_argument("--name", help="name of the model; the file's name by default")
    report.add_argument(
        "--confidence-level", type=float, default=0.95, metavar="LEVEL", help="default: 0.95"
    )
    return parser


def _add_out(parser):
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("skcalib-report.html"),
        metavar="PAGE",
        help="page to write; default: skcalib-report.html",
    )


def _report_of_file(options):
    predictions = read_predictions(options.file, label_column=options.label_column)
    return CalibrationReport.from_predictions(
        predictions.y_true,
        predictions.y_proba,
        labels=predictions.labels,
        name=options.name or options.file.stem,
        confidence_level=options.confidence_level,
    )


def _demonstration():
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=0
    )
    forest = RandomForestClassifier(random_state=0).fit(X_train, y_train)
    return CalibrationReport.from_estimator(
        forest, X_test, y_test, name="random forest on held-out digits"
    )


if __name__ == "__main__":
    sys.exit(main())
