"""Which columns of a table are labels, probabilities and features: by name, or by their values.

Names decide where they can. Otherwise the first rows do: a column takes part where it can be only
one thing, and `Roles.note` states what was derived from values.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skcalib._util.validation import is_outside
from skcalib.data.column_names import (
    FORMAT_NAMES,
    LABEL_NAMES,
    forms,
    in_words,
    is_plain,
    match_names,
    read_name,
    states_forecast,
    states_outcome,
)

#: Names of a first column that numbers the rows, as written by pandas.
_UNNAMED = ("", "Unnamed: 0")
#: Largest deviation of the sum of a row from 1 that rounding may cause.
ROUNDING = 0.02
#: Rows whose values show what a column is.
SAMPLE = 2000
_FEW_ROWS = 50  # below, a column with a different value in each row may be anything
_MOST_CATEGORIES = 50
#: Words in the names of columns that identify rows, however few there are.
_IDENTIFIERS = {"id", "ids", "uuid", "guid", "key", "index"}
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")
_OPPOSITES = ("0", "1", "False", "True", "no", "yes")
#: Why a column was taken.
BY_NAME, BY_NAMES, REQUESTED = "by its name", "by their names", "as requested"


#: Words for a missing value, and numbers that stand for one: 9, -99, 999, ...
_MISSING = {"na", "n/a", "#n/a", "nan", "null", "none", "missing", "unknown", "unlabeled"}
_MISSING |= {"unlabelled", "-", "--", ".", "?"}
_MISSING_NUMBER = re.compile(r"-(\d)\1+|-?9+|-1")
_TOTALS = {"total", "totals", "subtotal", "grand total", "sum", "all", "overall", "average", "mean"}
#: Words for a probability of the predicted class, and for labels that say whether it is right.
_CONFIDENCE = {"confidence", "confidences", "conf"}
_RIGHT = {"correct", "right", "hit", "accurate", "match", "matches"}


class ChoiceError(ValueError):
    """A table has two meanings or more: a sentence, and the arguments that choose each of them."""

    def __init__(self, sentence, choices):
        self.sentence, self.choices = sentence, choices
        passed = [f"{key}={value!r}" for one in choices for key, value in one.items()]
        super().__init__(f"{sentence}: pass {' or '.join(passed)}.")


@dataclass(frozen=True)
class Roles:
    """Places of the columns of a table; those of ``text`` are features that are known to be text.

    ``numbers_rows`` is True if the first column numbers the rows. ``reasons`` are those for the
    columns of labels and of probabilities. ``unused`` has the names of columns that are not
    used, with the reason. ``n_derived`` features were not named by the caller.
    """

    label: int
    proba: list
    features: list
    text: list
    numbers_rows: bool
    reasons: tuple = ("", "")
    unused: tuple = ()
    n_derived: int = 0

    def note(self, header, event, *, is_assumed):
        """What was taken, and why, unless the format and names leave no choice.

        `event` is the class of a single column, which its name may not state: then `is_assumed` is
        True, or the reason why it was taken.
        """
        why_label, why_proba = self.reasons
        is_format = header[self.label].casefold() in FORMAT_NAMES or why_label == REQUESTED
        others = bool(self.unused) or self.n_derived > 0
        if is_format and why_proba in (BY_NAME, BY_NAMES, REQUESTED) and not (others or is_assumed):
            return ""
        of = "probabilities" if event is None else f"probability of {event}"
        of += f" ({is_assumed})" if isinstance(is_assumed, str) else ""
        parts = [f"labels: {header[self.label]} ({why_label})"]
        parts.append(f"{of}: {', '.join(header[k] for k in self.proba)} ({why_proba})")
        features = [header[k] for k in self.features]
        parts += [f"features: {', '.join(features)}"] * bool(features)
        parts += [f"not used: {', '.join(self.unused)}"] * bool(self.unused)
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

    @cached_property
    def is_share(self):
        """Whether all values lie in [0, 1]."""
        values = self.values
        if not self.texts or values is None:
            return False
        return not is_outside(values.min(), values.max())

    def is_zero(self):
        """Whether all values are the number 0."""
        return self.values is not None and not self.values.any()

    def n_values(self):
        """Number of different values; 0, 0.0 and 0.00 are one."""
        return len(self.texts) if self.values is None else len(np.unique(self.values))

    def may_hold_labels(self):
        """Whether the values can be those of classes: no fractions, no dates."""
        dates = self.values is None and all(map(_DATE.fullmatch, self.texts))
        return bool(self.texts) and not dates and not self.has_fractions()

    def may_have_two_values(self):
        """Whether there are two values, or one that has an opposite and may be followed by it."""
        if self.n_values() == 1 and self.n_rows >= SAMPLE:
            (text,) = sorted(self.texts)[:1]
            return any(is_plain([text, other]) for other in _OPPOSITES)
        return self.n_values() == 2

    def has_fractions(self):
        return self.values is not None and bool(np.any(self.values != np.rint(self.values)))

    def why_unused(self, name):
        """The reason why a column is no feature; empty if it may be one."""
        if not self.texts:
            return "empty"
        enough = self.n_rows >= _FEW_ROWS or _identifies(name)
        if enough and len(self.texts) == self.n_rows and not self.has_fractions():
            return "another value in each row"
        if self.values is None and len(self.texts) > _MOST_CATEGORIES:
            return f"more than {_MOST_CATEGORIES} different texts"
        return ""


def check_names(name, header, cells, numbers):
    """Raise if the first line of a file holds a row of data, or if another one repeats the names.

    A name that is a number is one of a class, beside others that are words: label, 0.0, 1.0.
    """
    values = [numbers([column]) if column else None for column in header]
    listed = shortened(", ".join(header))
    if all(value is not None for value in values):
        raise ValueError(
            f"{name} has numbers in its first line ({listed}), where names of columns are "
            "expected: add a line of names, such as y_true,y_proba. If these are names, pass that "
            f"of the labels, such as label_column={header[0]!r} (--label-column {header[0]})."
        )
    words = [k for k, value in enumerate(values) if value is None]
    recur = any(header[k] in map(str.strip, cells[k]) for k in words if header[k] and cells)
    parts = any(value is not None and value[0] % 1 for value in values)
    named = any(states_outcome(header[k]) or states_forecast(header[k]) for k in words)
    if len(words) < len(header) and (recur or (parts and not named)):
        raise ValueError(
            f"{name} has the values of a row in its first line ({listed}), where names of columns "
            "are expected: add a line of names, such as y_true,y_proba."
        )


def stands_for_missing(text):
    """Whether a cell is a word or number for a missing value."""
    text = str(text).strip().casefold()
    return text in _MISSING or _MISSING_NUMBER.fullmatch(text) is not None


def why_no_class(labels, among=()):
    """What is wrong with some labels that look like no class, or like another one; or "".

    Such a number is a class beside its neighbour, as 9 after 8, among the labels of a file.
    """
    among = set(map(str, among or labels))
    for one in map(str, labels):
        if one.casefold() in _TOTALS:
            return f"{one!r} looks like the row of a total: leave it out"
        is_counted = one.isdecimal() and str(int(one) - 1) in among
        if stands_for_missing(one) and not is_counted:
            return f"{one!r} looks like a missing value: leave out its rows"
    for one in map(str, labels):
        same = sorted(other for other in among if other.casefold() == one.casefold())
        if len(same) > 1:
            spelled = " and ".join(map(repr, same))
            return f"{spelled} differ in letter case only: write each class in one way"
    return ""


def find_roles(
    name,
    header,
    cells,
    numbers,
    *,
    label_column=None,
    score_column=None,
    features=None,
    ignore=(),
    event=None,
):
    """`Roles` of the columns `header` of the table `name`, whose first rows have `cells`.

    ``numbers`` turns texts into an array, or None if one is not a number. With ``features=None``
    columns that are left over are features. Raises `ChoiceError` where several columns may be the
    labels or the probability.
    """
    for column, times in Counter(header).items():
        if times > 1:
            raise ValueError(f"{name} has two columns named {column!r}: rename one of them.")
    columns = [_Column(one, numbers) for one in cells]
    ignored = _places(name, header, ignore, "column")
    if label_column is None:
        others = [_place_of(header, (one,)) for one in (*(features or ()), score_column or "")]
        label, why_label = _label(name, header, columns, ignored, others, event)
    else:
        (label,) = _places(name, header, (label_column,), "column")
        why_label = REQUESTED
    given = _places(name, header, features or (), "feature", label)
    numbered = header[0] in _UNNAMED and label != 0 and 0 not in (*given, *ignored)
    rest = [k for k in range(len(header)) if k not in (label, *given, *ignored)][numbered:]
    if score_column is None:
        proba, why_proba = _probabilities(name, header, columns, label, rest)
    else:
        proba, why_proba = _places(name, header, (score_column,), "score", label), REQUESTED
    if not proba:
        besides = repr(header[label])
        if given:
            chosen = ", ".join(header[k] for k in given)
            besides += f" and the features {chosen}: leave the probability out of --features"
        elif len(rest) > 1:
            besides += (
                f": no column has only values in [0, 1] that are not all whole numbers, or a name "
                f"such as p or score. I{_columns_of(header)[1:]}; name it with --score-column"
            )
        raise ValueError(f"{name} has no column of probabilities besides {besides}.")
    left, unused = [], []
    for k in rest:
        if k not in proba:
            why = "" if features is None else "no feature"
            why = why or (columns[k].why_unused(header[k]) if columns else "")
            (unused if why else left).append(f"{header[k]} ({why})" if why else k)
    features = [*given, *left]
    text = [k for k in features if columns and columns[k].values is None]
    reasons = why_label, why_proba
    return Roles(label, proba, features, text, numbered, reasons, tuple(unused), len(left))


# --- Labels ---------------------------------------------------------------------------------------


def _label(name, header, columns, ignored, others, event):
    """Place of the labels, and why; `others` are columns that have another role."""

    def only(pool, why):
        """The one column of the pool, or None if it is empty; more of them are refused."""
        if event is not None and len(pool) > 1 and columns:
            pool = _those(pool, lambda k: _has_class(columns[k], event))
            why = why if len(pool) > 1 else f"it has the class {event}"
        if len(pool) > 1:
            raise _choice(name, header, pool, "labels", "label_column")
        return (pool[0], why) if pool else None

    def fitting(pool):
        """Columns whose values are names of columns or, where there are none, two; and why."""
        if matching := [k for k in pool if _states_classes(header, columns, shares, k)]:
            return matching, "its values are names of columns"
        two = [k for k in pool if columns[k].may_have_two_values()]
        numbers = [k for k in pool if _numbers_classes(header, columns, shares, k)]
        why = "its values are names of columns" if numbers else "the only column with two values"
        return sorted([*two, *numbers]), why

    free = [k for k in range(len(header)) if k not in ignored]
    certain = named = [k for k in free if in_words(header[k]) in LABEL_NAMES]
    if not certain:
        named = [k for k in free if states_outcome(header[k]) and not _names_forecast(header[k])]
        named = _those(named, lambda k: k not in others)
    if not columns or certain:
        return only(named, BY_NAME) or _refuse_labels(name, header)
    shares = [k for k, column in enumerate(columns) if column.is_share]
    possible = [k for k in named if columns[k].may_hold_labels()]
    found, _ = fitting(possible)
    if found := found or [k for k in possible if columns[k].n_values() == 1]:
        return only(found, BY_NAME)
    first = [0] if header[0] in _UNNAMED else []
    free = [k for k in free if k not in (*others, *first) and columns[k].may_hold_labels()]
    free = _those(free, lambda k: not (_names_forecast(header[k]) or _identifies(header[k])))
    found, why = fitting(free)
    if not found:
        return only(possible or named, BY_NAME) or _refuse_labels(name, header)
    if any(_states_classes(header, columns, shares, k) for k in found):
        return only(found, why)
    return only([*possible, *found], why)


def _refuse_labels(name, header):
    raise ValueError(
        f"{name} has no column of labels: none has two values, or a name such as y_true, label, "
        f"target, outcome or y. I{_columns_of(header)[1:]}; name it with --label-column."
    )


def _choice(name, header, places, what, argument):
    """The error for columns of which each may have a role."""
    columns = " or ".join(repr(header[k]) for k in places)
    sentence = f"{name} has {len(places)} columns that may be its {what}, {columns}"
    return ChoiceError(sentence, [{argument: header[k]} for k in places])


def _those(places, condition):
    """The places that meet a condition, or all of them if none does."""
    return [k for k in places if condition(k)] or places


def _has_class(column, event):
    spelled = {form.casefold() for form in forms(event)}
    return any(spelled & {form.casefold() for form in forms(text)} for text in column.texts)


def _identifies(name):
    """Whether a name is that of identifiers."""
    return not _IDENTIFIERS.isdisjoint(re.findall("[^\\W_]+", name.casefold()))


def _names_forecast(name):
    """Whether a name is that of forecasts rather than labels; a risk may be either."""
    return states_forecast(re.sub("risk", "", name, flags=re.IGNORECASE))


def _states_classes(header, columns, shares, place):
    """Whether the values of a column are classes that the names of other columns state.

    All of them where they are text; one of two, as in p_churn, where they have an event. `shares`
    are the places of columns of values in [0, 1].
    """
    column = columns[place]
    if column.values is not None and not is_plain(column.texts):
        return False
    others, classes = [header[k] for k in shares if k != place], sorted(column.texts)
    if column.n_values() == 2 and any(
        read_name(one, classes).kind == "class" for one in others if states_forecast(one)
    ):
        return True
    if column.values is not None or not 2 <= len(classes) <= len(others):
        return False
    return match_names(others, classes) is not None


def _numbers_classes(header, columns, shares, place):
    """Whether the values of a column are numbers of classes whose probabilities sum to one."""
    classes, others = sorted(columns[place].texts), [k for k in shares if k != place]
    if columns[place].values is None or not 3 <= len(classes) <= len(others):
        return False
    reading = match_names([header[k] for k in others], classes)
    named = [k for k, one in zip(others, reading or (), strict=False) if isinstance(one, int)]
    return _sum_to_one([columns[k] for k in named])


# --- Probabilities --------------------------------------------------------------------------------


def _probabilities(name, header, columns, label, rest):
    """Places of the columns that can be probabilities, and why; names of classes need no values."""
    if not columns:
        return rest, BY_NAME
    classes = sorted(columns[label].texts)
    shares = [k for k in rest if columns[k].is_share]
    _refuse_confidence(name, header, columns, label, rest)
    names = [header[k] for k in rest]
    reading = match_names(names, classes)
    named = [k for k, place in zip(rest, reading or (), strict=False) if isinstance(place, int)]
    named = named or [k for k in rest if _is_named(header[k], classes)]
    if columns[label].n_values() > 2 or _is_list(names, classes, reading):
        others = [k for k in shares if k not in named]
        if _sum_to_one([columns[k] for k in named]):  # then a class without samples has only 0
            others = [k for k in others if states_forecast(header[k]) or columns[k].is_zero()]
        kept = [k for k in rest if k in named or k in others] or rest
        return kept, BY_NAMES if len(kept) > 1 else BY_NAME

    def only(pool, why):
        """The one column of the pool; of several, the one whose values are not all whole."""
        if len(pool) > 1:
            pool = _those(pool, lambda k: columns[k].has_fractions())
        if len(pool) > 1:
            raise _choice(name, header, pool, "probability", "score_column")
        return pool, why

    stated = [
        k for k in rest if k in named or states_forecast(header[k]) or _is_named(header[k], classes)
    ]
    fractions = [k for k in shares if columns[k].has_fractions()]
    scores = [k for k in stated if k in shares]
    if any(k in fractions for k in scores) or (scores and not fractions):
        return only(scores, BY_NAME)
    if stated and not fractions:
        return only(stated, BY_NAME)
    if stated and fractions:  # a decision, percentages or logits beside a share
        raise _choice(name, header, [*stated, *fractions], "probability", "score_column")
    if fractions:
        return only(fractions, "the only column of values in [0, 1]")
    return (rest, "the only column left") if len(rest) == 1 else ([], "")


def _refuse_confidence(name, header, columns, label, rest):
    """Raise if the only probability is that of the predicted class.

    It has such a name, or there are predictions, and no value is below one over the classes.
    """
    classes, shares = columns[label].texts, [k for k in rest if columns[k].has_fractions()]
    if len(shares) != 1 or len(classes) < 2 or not columns[shares[0]].is_share:
        return
    (place,) = shares
    predicted = [k for k in rest if columns[k].texts <= classes and states_forecast(header[k])]
    words = set(in_words(header[place]).split("_"))
    is_named = not _CONFIDENCE.isdisjoint(words)
    least = 1 / columns[label].n_values()
    right = set(in_words(header[label]).split("_"))
    if not (is_named or any(columns[k].n_values() > 1 for k in predicted)) or _RIGHT & right:
        return
    if columns[place].n_rows < _FEW_ROWS or columns[place].values.min() < least - ROUNDING:
        return
    column, end = header[place], "."
    if columns[label].n_values() == 2:
        end = f". If it is that of one class, pass score_column={column!r} (--score-column)."
    raise ValueError(
        f"{name} has one column of probabilities, {column!r}, which looks like a confidence, the "
        f"probability of the predicted class: no value is below {least:.2g}. Give that of each "
        "class. Or, for the calibration of the confidence, give labels that are 1 where the "
        f"prediction is right, and 0 elsewhere{end}"
    )


def _sum_to_one(columns):
    """Whether columns are the probabilities of all classes, in the first rows."""
    values = [one.values for one in columns]
    if not values or any(one is None or len(one) != len(values[0]) for one in values):
        return False
    return bool(np.all(np.abs(np.sum(values, axis=0) - 1) <= ROUNDING))


def _is_list(names, classes, reading):
    """Whether names of columns state both classes, or some and others in the same form."""
    if reading is not None:
        others = [one for one, name in zip(reading, names, strict=True) if isinstance(one, str)]
        return len(names) - len(others) > 1 or not set(others) <= set(names)
    places = {read_name(name, classes).place for name in names} - {None}
    return len(places) > 1


def _is_named(name, classes):
    """Whether a name states the probability of one of the classes, or of something."""
    reading = read_name(name, classes)
    return reading.kind in ("class", "generic") or bool(reading.mentioned)


# --- Names ----------------------------------------------------------------------------------------


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
