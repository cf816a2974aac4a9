"""Write doc/llms.txt: every public name with the first line of its docstring, as in api.rst.

python doc/make_llms.py            # after a public name or its first line changed
python doc/make_llms.py --check    # fails if the file is not current
"""

import inspect
import re
import sys
from operator import attrgetter
from pathlib import Path

import skcalib

HERE = Path(__file__).parent
FILE = HERE / "llms.txt"
HEADER = """# skcalib

> Evaluate and improve the calibration of classifiers, in scikit-learn's style: calibration errors
> of proper scores with intervals, tests, recalibrators, displays and a report.

All functions take `(y_true, y_proba, *, ...)`, where `y_proba` has shape `(n,)`, the probability of
the positive class, or `(n, n_classes)`. Use held-out predictions. Names without a module are
imported from `skcalib` itself, others as in `from skcalib.scores import Brier`. Every docstring has
the formula, its source and a runnable example: `help(skcalib.NAME)`."""


def first_line(name):
    """The summary of a docstring as plain text."""
    text = inspect.getdoc(attrgetter(name)(skcalib)).split("\n\n")[0]
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    return re.sub(r"\s+", " ", text)


def text():
    """The whole file."""
    lines = [HEADER]
    source = (HERE / "api.rst").read_text(encoding="utf-8").splitlines()
    for line, following in zip(source, [*source[1:], ""], strict=True):
        if set(following) == {"="} and line not in ("", "API reference"):
            lines.append(f"\n## {line}\n")
        elif found := re.fullmatch(r"   ([\w.]+)", line):
            lines.append(f"- `{found[1]}`: {first_line(found[1])}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if FILE.read_text(encoding="utf-8") != text():
            sys.exit("doc/llms.txt is not current: run python doc/make_llms.py")
    else:
        FILE.write_text(text(), encoding="utf-8")
