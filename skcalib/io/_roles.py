"""Which columns of a table are labels, probabilities and features: by name, or by their values.

Names decide where they can. Otherwise the first rows do: a column takes part where it can be only
one thing, and `Roles.note` states what was derived from values.
"""

import re
import shlex
from collections import Counter
from dataclasses import dataclass

import numpy as np

from skcalib._column_names import is_plain, match_names, read_name

LABEL_NAMES = ("y_true", "ground_truth", "label", "target", "y")
#: Names of a first column that numbers the rows, as written by pandas.
_UNNAMED = ("", "Unnamed: 0")
#: Rows whose values show what a column is.
SAMPLE = 2000
_FEW_ROWS = 50  # below, a column with a different value in each row may be anything
_MOST_CATEGORIES = 50
#: Words in the names of columns that identify rows, however few there are.
_IDENTIFIERS = {"id", "ids", "uuid", "guid", "key", "index"}


@dataclass(frozen=True)
class Roles:
    """Places of the columns of a table; those of ``text`` are features that are known to be text.

    ``numbers_rows`` is True if the first column numbers the rows. ``derived`` has the name of the
    column of labels, if values show it, the names of the features that values show, and those of
    columns that are not used, with the reason.
    """

    label: int
    proba: list
    features: list
    text: list
    numbers_rows: bool
    derived: tuple = ("", (), ())

    def note(self, header, event):
        """What values show; `event` is the class of a column whose name does not state it."""
        label, features, unused = self.derived
        parts = [f"labels: {label}"] * bool(label)
        if event is not None or any(self.derived):
            of = "probabilities" if event is None else f"probability of {event}"
            parts.append(f"{of}: {', '.join(header[k] for k in self.proba)}")
        parts += [f"features: {', '.join(features)}"] * bool(features)
        parts += [f"not used: {', '.join(unused)}"] * bool(unused)
        return "; ".join(parts)


class _Column:
    """The first cells of a column: numbers, or None if some cell is text, and distinct texts."""

    def __init__(self, cells, numbers):
        if isinstance(cells, np.ndarray):
            filled = cells[~np.isnan(cells)]
            self.values, self.texts = filled.astype(np.float64), set(map(str, filled.tolist()))
        else:
            texts = [text for cell in cells if (text := cell.strip())]
            self.values, self.texts = numbers(texts), set(texts)
        self.n_rows = len(cells)

    def is_share(self):
        """Whether all values lie in [0, 1]."""
        values = self.values
        return bool(self.texts) and values is not None and 0 <= values.min() <= values.max() <= 1

    def has_fractions(self):
        return self.values is not None and bool(np.any(self.values != np.rint(self.values)))

    def why_unused(self, name):
        """The reason why a column is no feature; empty if it may be one."""
        if not self.texts:
            return "empty"
        named = not _IDENTIFIERS.isdisjoint(re.findall("[^\\W_]+", name.casefold()))
        enough = self.n_rows >= _FEW_ROWS or named
        if enough and len(self.texts) == self.n_rows and not self.has_fractions():
            return "another value in each row"
        if self.values is None and len(self.texts) > _MOST_CATEGORIES:
            return f"more than {_MOST_CATEGORIES} different texts"
        return ""


def find_roles(
    name, header, cells, numbers, *, label_column=None, score_column=None, features=None, ignore=()
):
    """`Roles` of the columns `header` of the table `name`, whose first rows have `cells`.

    ``numbers`` turns texts into an array, or None if one is not a number. With ``features=None``
    columns that are left over are features.
    """
    for column, times in Counter(header).items():
        if times > 1:
            raise ValueError(f"{name} has two columns named {column!r}: rename one of them.")
    columns = [_Column(one, numbers) for one in cells]
    ignored = _places(name, header, ignore, "column")
    label, is_derived = _label(name, header, columns, label_column, ignored)
    given = _places(name, header, features or (), "feature", label)
    numbered = header[0] in _UNNAMED and label != 0 and 0 not in (*given, *ignored)
    rest = [k for k in range(len(header)) if k not in (label, *given, *ignored)][numbered:]
    if score_column is None:
        proba = _probabilities(header, columns, label, rest)
    else:
        proba = _places(name, header, (score_column,), "score", label)
    if not proba:
        besides = repr(header[label])
        if given:
            chosen = ", ".join(header[k] for k in given)
            besides += f" and the features {chosen}: leave the probability out of --features"
        raise ValueError(f"{name} has no column of probabilities besides {besides}.")
    found, unused = [], []
    for k in rest:
        if k not in proba:
            why = "" if features is None else "no feature"
            why = why or (columns[k].why_unused(header[k]) if columns else "")
            (unused if why else found).append(f"{header[k]} ({why})" if why else k)
    names = tuple(header[k] for k in found)
    derived = (header[label] if is_derived else "", names, tuple(unused))
    features = [*given, *found]
    text = [k for k in features if columns and columns[k].values is None]
    return Roles(label, proba, features, text, numbered, derived)


def command(name, **options):
    """The command that reads a table with these options, for a message."""
    words = [f"--{key.replace('_', '-')} {shlex.quote(value)}" for key, value in options.items()]
    return " ".join([f"skcalib report {shlex.quote(name)}", *words])


def _label(name, header, columns, label_column, ignored):
    """Place of the labels, and whether only values show it."""
    place = _place_of(header, LABEL_NAMES if label_column is None else (label_column,))
    if place is not None:
        return place, False
    if label_column is not None:
        raise ValueError(f"{name} has no column {label_column!r}; {_columns_of(header)}.")
    free = [k for k in range(len(header)) if k not in ignored and columns]
    found = [k for k in free if _names_columns(header, columns, k)]
    found = found or [k for k in free if len(columns[k].texts) == 2 and is_plain(columns[k].texts)]
    if len(found) == 1:
        return found[0], True
    example = ""
    if found:
        names = " or ".join(repr(header[k]) for k in found)
        example = f" It may be {names}: {command(name, label_column=header[found[0]])}."
    raise ValueError(
        f"{name} has no column of labels ({', '.join(LABEL_NAMES)}); name it with --label-column. "
        f"I{_columns_of(header)[1:]}.{example}"
    )


def _names_columns(header, columns, place):
    """Whether the texts of a column are the classes that at least two other columns name."""
    column = columns[place]
    others = [one for k, one in enumerate(header) if k != place and columns[k].is_share()]
    if column.values is not None or not 2 <= len(column.texts) <= len(others):
        return False
    return match_names(others, sorted(column.texts)) is not None


def _probabilities(header, columns, label, rest):
    """Places of the columns that can be probabilities; names of classes need no values."""
    if not columns:
        return rest
    classes = sorted(columns[label].texts)
    reading = match_names([header[k] for k in rest], classes)
    if reading is None:
        named = [k for k in rest if _is_named(header[k], classes)]
    else:
        named = [k for k, place in zip(rest, reading, strict=True) if isinstance(place, int)]
    kept = [k for k in rest if k in named or columns[k].is_share()]
    if len(classes) <= 2 and len(named) < 2:
        fractions = [k for k in kept if k in named or columns[k].has_fractions()]
        kept = fractions if len(fractions) == 1 else kept
    return kept or rest


def _is_named(name, classes):
    reading = read_name(name, classes)
    return reading.kind != "unknown" or bool(reading.mentioned)


def _places(name, header, wanted, what, label=None):
    """Places of named columns."""
    places = []
    for column in wanted:
        place = _place_of(header, (column,))
        if place is None:
            raise ValueError(f"{name} has no column {column!r}; {_columns_of(header)}.")
        if place == label:
            raise ValueError(
                f"The {what} {column!r} is the column of labels of {name}: leave it out of "
                f"--{'features' if what == 'feature' else 'score-column'}, or name the labels with "
                "--label-column."
            )
        if place in places:
            raise ValueError(f"The {what} {column!r} is named twice: name it once.")
        places.append(place)
    return places


def _place_of(header, wanted):
    """Place of the first wanted name that the header has once, in any letter case if needed."""
    for key in (str, str.casefold):
        keyed = [key(column) for column in header]
        found = [one for one in wanted if keyed.count(key(one)) == 1]
        if found:
            return keyed.index(key(found[0]))
    return None


def _columns_of(header):
    return f"its columns are {shortened(', '.join(header), 1000)}"


def shortened(text, most=60):
    """Text for a message."""
    return text if len(text) <= most else f"{text[:most]}..."
