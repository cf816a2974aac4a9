"""Which columns of a table are labels, probabilities and features, and which class each column is.

Names decide. The values of the first rows only exclude: labels are no fractions, and a probability
is no percentage. Where names leave no column or two of them, or two classes, a `ChoiceError` asks
for one of them. `Roles.note` states what was taken.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from skcalib._util.validation import is_outside
from skcalib.data.class_columns import (
    FORMAT_NAMES,
    LABEL_NAMES,
    conventional_event,
    forms,
    match_names,
    normalised_name,
    read_name,
    share_a_word,
    states_forecast,
    states_outcome,
)

if TYPE_CHECKING:
    from skcalib._util.types import Label

#: A column of a block of rows: numbers, or texts of which an empty one is missing.
Cells: TypeAlias = np.ndarray | Sequence[str]
#: A function from texts to numbers, or None if some text is not a number.
NumbersOfTexts: TypeAlias = Callable[[Sequence[str]], np.ndarray | None]
#: Rows whose values show what a column is.
SAMPLE = 2000
#: Largest deviation of the sum of a row from 1 that rounding may cause.
ROUNDING = 0.02
#: Names of a first column that numbers the rows, as written by pandas.
_UNNAMED = ("", "Unnamed: 0")
_FEW_ROWS = 50  # below, a column with a different value in each row may be anything
_MOST_CATEGORIES = 50
_FIXED_WIDTH = 32  # characters; arrays of longer labels hold objects, which need less memory
_DESCRIBED = 50  # with more classes, messages do not describe the names of single columns
#: Words in the names of columns that identify rows, however few there are.
_IDENTIFIERS = {"id", "ids", "uuid", "guid", "key", "index"}
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})(\.0+)?")
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
_WHAT_TO_KEEP = (
    "keep the column of labels and one column of probabilities for each class (of two classes, one "
    "is enough); name a single one with --score-column, features with --features, and others with "
    "--ignore"
)


class ChoiceError(ValueError):
    """A table has two meanings or more: a sentence, and the arguments that choose each of them."""

    def __init__(self, sentence: str, choices: list[dict[str, str]]) -> None:
        self.sentence, self.choices = sentence, choices
        passed = [f"{key}={value!r}" for choice in choices for key, value in choice.items()]
        super().__init__(f"{sentence}: pass {' or '.join(passed)}.")


@dataclass(frozen=True)
class Roles:
    """Places of the columns of a table; those of ``text`` are features that are known to be text.

    ``numbers_rows`` is True if the first column numbers the rows. ``reasons`` are those for the
    columns of labels and of probabilities. ``unused`` has the names of columns that are not
    used, with the reason. ``n_derived`` features were not named by the caller.
    """

    label: int
    proba: list[int]
    features: list[int]
    text: list[int]
    numbers_rows: bool
    reasons: tuple[str, str] = ("", "")
    unused: tuple[str, ...] = ()
    n_derived: int = 0

    def note(self, header: list[str], event: Label, *, is_assumed: bool) -> str:
        """What was taken, and why, unless the format and names leave no choice.

        `event` is the class of a single column, which its name does not state if `is_assumed`.
        """
        why_label, why_proba = self.reasons
        is_format = header[self.label].casefold() in FORMAT_NAMES or why_label == REQUESTED
        has_others = bool(self.unused) or self.n_derived > 0
        if is_format and not (has_others or is_assumed):
            return ""
        kind = "probabilities" if event is None else f"probability of {event}"
        parts = [f"labels: {header[self.label]} ({why_label})"]
        parts.append(f"{kind}: {', '.join(header[k] for k in self.proba)} ({why_proba})")
        features = [header[k] for k in self.features]
        parts += [f"features: {', '.join(features)}"] * bool(features)
        parts += [f"not used: {', '.join(self.unused)}"] * bool(self.unused)
        return "; ".join(parts)


class _Column:
    """The first cells of a column: numbers, or None if some cell is text, and distinct texts."""

    def __init__(self, place, name, cells, numbers):
        self.place, self.name, self.n_rows = place, name, len(cells)
        if isinstance(cells, np.ndarray):
            filled = cells[~np.isnan(cells)]
            self.values, self.texts = filled.astype(np.float64), set(map(str, filled.tolist()))
        else:
            texts = [text for cell in cells if (text := cell.strip())]
            self.values, self.texts = numbers(texts), set(texts)

    @cached_property
    def is_share(self):
        """Whether all values lie in [0, 1]."""
        known = self.texts and self.values is not None
        return bool(known) and not is_outside(self.values.min(), self.values.max())

    @cached_property
    def n_values(self):
        """Number of different values; 0, 0.0 and 0.00 are one."""
        return len(self.texts) if self.values is None else len(np.unique(self.values))

    @cached_property
    def has_fractions(self):
        return self.values is not None and bool(np.any(self.values != np.rint(self.values)))

    @cached_property
    def may_hold_labels(self):
        """Whether the values can be those of classes: no fractions, no dates."""
        dates = self.values is None and all(map(_DATE.fullmatch, self.texts))
        return bool(self.texts) and not dates and not self.has_fractions

    @cached_property
    def names_forecast(self):
        """Whether the name is that of forecasts rather than labels; a risk may be either."""
        return states_forecast(re.sub("risk", "", self.name, flags=re.IGNORECASE))

    @cached_property
    def identifies(self):
        """Whether the name is that of identifiers."""
        return not _IDENTIFIERS.isdisjoint(re.findall("[^\\W_]+", self.name.casefold()))

    def states_a_class(self, classes):
        """Whether the name states the probability of one of the classes, or of something."""
        reading = read_name(self.name, classes)
        return reading.kind in ("class", "generic") or bool(reading.mentioned)

    def reason_unused(self):
        """The reason why a column is no feature; empty if it may be one."""
        if not self.texts:
            return "empty"
        enough = self.n_rows >= _FEW_ROWS or self.identifies
        if enough and len(self.texts) == self.n_rows and not self.has_fractions:
            return "another value in each row"
        if self.values is None and len(self.texts) > _MOST_CATEGORIES:
            return f"more than {_MOST_CATEGORIES} different texts"
        return ""


def check_names(
    name: str, header: list[str], cells: Sequence[Cells], numbers: NumbersOfTexts
) -> None:
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
    recur = any(header[k] in map(str.strip, cells[k]) for k in words if header[k])
    fractions = any(value is not None and value[0] % 1 for value in values)
    named = any(states_outcome(header[k]) or states_forecast(header[k]) for k in words)
    if len(words) < len(header) and (recur or (fractions and not named)):
        raise ValueError(
            f"{name} has the values of a row in its first line ({listed}), where names of columns "
            "are expected: add a line of names, such as y_true,y_proba."
        )


def find_roles(
    name: str,
    header: list[str],
    cells: Sequence[Cells],
    numbers: NumbersOfTexts,
    *,
    label_column: str | None = None,
    score_column: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    event: str | None = None,
) -> Roles:
    """`Roles` of the columns `header` of the table `name`, whose first rows have `cells`.

    ``numbers`` turns texts into an array, or None if one is not a number. With ``features=None``
    columns that are left over are features. Raises `ChoiceError` where several columns may be the
    labels or the probability.
    """
    for column, times in Counter(header).items():
        if times > 1:
            raise ValueError(f"{name} has two columns named {column!r}: rename one of them.")
    columns = [
        _Column(place, column, first, numbers)
        for place, (column, first) in enumerate(zip(header, cells, strict=True))
    ]
    ignored = _places(name, header, ignore, "column")
    if label_column is None:
        taken = [_place_of(header, column) for column in (*(features or ()), score_column or "")]
        free = [column for column in columns if column.place not in ignored]
        label = _find_label(name, free, taken, event)
    else:
        (place,) = _places(name, header, (label_column,), "column")
        label = columns[place]
    chosen = _places(name, header, features or (), "feature", label.place)
    used = {label.place, *chosen, *ignored}
    numbers_rows = header[0] in _UNNAMED and 0 not in used
    free = [column for column in columns if column.place not in used][numbers_rows:]
    if score_column is None:
        proba = [column.place for column in _find_probabilities(name, label, free)]
    else:
        proba = _places(name, header, (score_column,), "score", label.place)
    if not proba:
        besides = repr(label.name)
        if chosen:
            listed = ", ".join(header[k] for k in chosen)
            besides += f" and the features {listed}: leave the probability out of --features"
        elif free:
            besides += (
                f": none has a name such as p or score. I{_columns_of(header)[1:]}; name it with "
                "--score-column"
            )
        raise ValueError(f"{name} has no column of probabilities besides {besides}.")
    derived, unused = [], []
    for column in free:
        if column.place not in proba:
            why = column.reason_unused() if features is None else "no feature"
            if why:
                unused.append(f"{column.name} ({why})")
            else:
                derived.append(column.place)
    all_features = [*chosen, *derived]
    text = [k for k in all_features if columns[k].values is None]
    by_name = BY_NAME if len(proba) == 1 else BY_NAMES
    reasons = (
        BY_NAME if label_column is None else REQUESTED,
        by_name if score_column is None else REQUESTED,
    )
    return Roles(
        label.place, proba, all_features, text, numbers_rows, reasons, tuple(unused), len(derived)
    )


def _find_label(name, columns, taken, event):
    """The column of labels, by its name; columns at the places `taken` have another role."""
    named = pool = [c for c in columns if normalised_name(c.name) in LABEL_NAMES]
    if not named:
        outcomes = [c for c in columns if states_outcome(c.name) and not c.names_forecast]
        named = [c for c in outcomes if c.place not in taken] or outcomes
        pool = [c for c in named if c.may_hold_labels]
        most = max(2, sum(c.is_share for c in columns))  # classes
        if not any(c.n_values <= most for c in pool):
            pool += [
                c
                for c in columns
                if c.may_hold_labels
                and c.n_values <= most
                and c.place not in taken
                and not (c.names_forecast or c.identifies or c.name in _UNNAMED)
            ]
        pool = pool or named
    if event is not None and len(pool) > 1:
        spelled = {form.casefold() for form in forms(event)}
        pool = [
            column
            for column in pool
            if any(form.casefold() in spelled for text in column.texts for form in forms(text))
        ] or pool
    if len(pool) == 1 and pool[0] in named:
        return pool[0]
    if pool:
        raise _choice(name, pool, "labels", "label_column")
    raise ValueError(
        f"{name} has no column of labels: none has a name such as y_true, label, target, outcome "
        f"or y. I{_columns_of([c.name for c in columns])[1:]}; name it with --label-column."
    )


def _choice(name, columns, role, argument):
    """The error for columns of which each may have a role."""
    number = "a column" if len(columns) == 1 else f"{len(columns)} columns"
    listed = " or ".join(repr(column.name) for column in columns)
    sentence = f"{name} has {number} that may be its {role}, {listed}"
    return ChoiceError(sentence, [{argument: column.name} for column in columns])


def _sum_to_one(columns):
    """Whether columns are the probabilities of all classes, in the first rows."""
    values = [column.values for column in columns]
    if not values or any(numbers is None or len(numbers) != len(values[0]) for numbers in values):
        return False
    return bool(np.all(np.abs(np.sum(values, axis=0) - 1) <= ROUNDING))


def _find_probabilities(name, label, columns):
    """The columns of probabilities, by their names."""
    _refuse_confidence(name, label, columns)
    classes, names = sorted(label.texts), [column.name for column in columns]
    reading = match_names(names, classes)
    places = zip(columns, reading or (), strict=False)
    named = [column for column, place in places if isinstance(place, int)]
    named = named or [column for column in columns if column.states_a_class(classes)]
    if label.n_values > 2 or _is_list(names, classes, reading):
        beside = [column for column in columns if column.is_share and column not in named]
        if _sum_to_one(named):  # then a class without samples has only 0
            beside = [c for c in beside if states_forecast(c.name) or not c.values.any()]
        return [c for c in columns if c in named or c in beside] or columns
    stated = [
        column
        for column in columns
        if column in named or states_forecast(column.name) or column.states_a_class(classes)
    ]
    fractions = [column for column in columns if column.is_share and column.has_fractions]
    scores = [column for column in stated if column.is_share]
    if scores and (not fractions or any(column in fractions for column in scores)):
        pool = scores
    elif fractions:  # none is named, or a decision, percentages or logits are
        raise _choice(name, [*stated, *fractions], "probability", "score_column")
    else:
        pool = stated
    pool = [column for column in pool if column.has_fractions] or pool
    if len(pool) > 1:
        raise _choice(name, pool, "probability", "score_column")
    return pool


def _is_list(names, classes, reading):
    """Whether names of columns state both classes, or some and others in the same form."""
    if reading is not None:
        others = [place for place in reading if isinstance(place, str)]
        return len(names) - len(others) > 1 or not set(others) <= set(names)
    return len({read_name(name, classes).place for name in names} - {None}) > 1


def _refuse_confidence(name, label, columns):
    """Raise if the only probability is that of the predicted class.

    It has such a name, or there are predictions, and no value is below one over the classes.
    """
    shares = [column for column in columns if column.has_fractions]
    if len(shares) != 1 or len(label.texts) < 2 or not shares[0].is_share:
        return
    (share,) = shares
    is_named = not _CONFIDENCE.isdisjoint(normalised_name(share.name).split("_"))
    predictions = [
        column
        for column in columns
        if column.texts <= label.texts and states_forecast(column.name) and column.n_values > 1
    ]
    lowest = 1 / label.n_values
    if not _RIGHT.isdisjoint(normalised_name(label.name).split("_")) or not (
        is_named or predictions
    ):
        return
    if share.n_rows < _FEW_ROWS or share.values.min() < lowest - ROUNDING:
        return
    end = "."
    if label.n_values == 2:
        end = f". If it is that of one class, pass score_column={share.name!r} (--score-column)."
    raise ValueError(
        f"{name} has one column of probabilities, {share.name!r}, which looks like a confidence, "
        f"the probability of the predicted class: no value is below {lowest:.2g}. Give that of "
        "each class. Or, for the calibration of the confidence, give labels that are 1 where the "
        f"prediction is right, and 0 elsewhere{end}"
    )


# --- Names of columns -----------------------------------------------------------------------------


def _places(name, header, wanted, role, label=None):
    """Places of named columns."""
    places = []
    for column in wanted:
        place = _place_of(header, column)
        if place is None:
            raise ValueError(f"{name} has no column {column!r}; {_columns_of(header)}.")
        if place == label:
            option = "features" if role == "feature" else "score-column"
            raise ValueError(
                f"The {role} {column!r} is the column of labels of {name}: leave it out of "
                f"--{option}, or name the labels with --label-column."
            )
        if place in places:
            raise ValueError(f"The {role} {column!r} is named twice: name it once.")
        places.append(place)
    return places


def _place_of(header, column):
    """Place of a column that the header has once, in any letter case if needed."""
    for key in (str, str.casefold):
        keyed = [key(name) for name in header]
        if keyed.count(key(column)) == 1:
            return keyed.index(key(column))
    return None


def _columns_of(header):
    return f"its columns are {shortened(', '.join(header), 1000)}"


def shortened(text: str, longest: int = 60) -> str:
    """Text for a message."""
    return text if len(text) <= longest else f"{text[:longest]}..."


# --- Classes of the labels ------------------------------------------------------------------------


def stands_for_missing(text: str) -> bool:
    """Whether a cell is a word or number for a missing value."""
    text = str(text).strip().casefold()
    return text in _MISSING or _MISSING_NUMBER.fullmatch(text) is not None


def _class_objection(labels, among=()):
    """What is wrong with some labels that look like no class, or like another one; or "".

    Such a number is a class beside its neighbour, as 9 after 8, among the labels of a file.
    """
    among = set(map(str, among or labels))
    for label in map(str, labels):
        if label.casefold() in _TOTALS:
            return f"{label!r} looks like the row of a total: leave it out"
        is_counted = label.isdecimal() and str(int(label) - 1) in among
        if stands_for_missing(label) and not is_counted:
            return f"{label!r} looks like a missing value: leave out its rows"
    for label in map(str, labels):
        same = sorted(spelling for spelling in among if spelling.casefold() == label.casefold())
        if len(same) > 1:
            spelled = " and ".join(map(repr, same))
            return f"{spelled} differ in letter case only: write each class in one way"
    return ""


def coded_classes(name: str, column: str, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Sorted classes, as text or as whole numbers if all are, and the place of each text."""
    whole = [_whole_number(label) for label in texts]
    if None not in whole:
        return np.unique(whole, return_inverse=True)
    others = [label for label, number in zip(texts, whole, strict=True) if number is None]
    wrong = [label for label in sorted(others) if not re.fullmatch(r"-?\d+(\.0+)?", label)]
    if wrong and all(map(_is_number, texts)):
        why = (
            _class_objection(wrong[:1]) or "labels of classes are expected, words or whole numbers"
        )
        raise ValueError(
            f"{name} has the label {shortened(wrong[0])!r} in the column {column!r}: {why}."
        )
    distinct = sorted(texts)
    places = {label: place for place, label in enumerate(distinct)}
    return as_text(distinct), np.array([places[label] for label in texts])


def _whole_number(label):
    """The number that a label spells as 2, 2.0 or 2.000e+00; None for anything else."""
    if _WHOLE.fullmatch(label):
        return int(label.partition(".")[0])  # floats would round long ones
    if re.fullmatch(r"-?\d\.\d+[eE][+-]\d\d", label):  # as numpy.savetxt writes
        value = float(label)
        return int(value) if value.is_integer() and abs(value) < 2**53 else None
    return None


def _is_number(label):
    try:
        float(label.replace("_", "?"))
    except ValueError:
        return False
    return True


def as_text(labels: Sequence[str]) -> np.ndarray:
    """Texts as an array, of a fixed width unless some are long."""
    return np.array(labels, dtype=str if max(map(len, labels)) <= _FIXED_WIDTH else object)


def find_event(name: str, event: str, classes: Sequence[Label]) -> int:
    """Index of the class named `event`, in any letter case if the match is unique."""
    if len(classes) > 2:
        raise ValueError(
            f"--event is for two classes, but {name} has {len(classes)}: leave it out."
        )
    for key in (str, str.casefold):
        wanted = {key(form) for form in forms(event)}
        places = [k for k, c in enumerate(classes) if wanted & {key(form) for form in forms(c)}]
        if len(places) == 1:
            return places[0]
    raise ValueError(
        f"--event {event} is not a class of {name}: its classes are {_joined(classes)}."
    )


def refuse_probabilities(
    name: str, features: Sequence[str], names: Sequence[str], observed: Sequence[Label]
) -> None:
    """Raise for a feature whose name is that of a probability."""
    for column in features:
        place: int | str | None = read_name(column, observed).place
        if place is None:
            reading = match_names([*names, column], observed)
            place = None if reading is None else reading[-1]
        if isinstance(place, int):
            raise ValueError(
                f"The feature {column!r} of {name} is the probability of the class "
                f"{str(observed[place])!r}: leave it out of --features."
            )


# --- The classes of the columns -------------------------------------------------------------------


def both_classes(
    name: str, column: str, observed: Sequence[Label], event: str | None
) -> Sequence[Label]:
    """The two classes of a single column, the last a plain event; the rows may contain only one."""
    if len(observed) > 2:
        why = f": one column for each class is expected, such as 'p_{observed[0]}'"
        if wrong := _class_objection(observed):
            why = f", and {wrong}"
        raise ValueError(
            f"{name} has {len(observed)} labels ({_joined(observed)}), but one column of "
            f"probabilities, {column!r}{why}."
        )
    if len(observed) == 2:
        same = len({str(label).casefold() for label in observed}) == 1
        if same and event is None and read_name(column, observed).kind != "class":
            raise ValueError(f"{name} has labels of which {_class_objection(observed)}.")
        return observed[::-1] if conventional_event(observed) == 0 else observed
    (only,) = observed
    for pair in ([0, 1], [-1, 1], ["False", "True"], ["false", "true"], ["FALSE", "TRUE"]):
        if only in pair:
            return pair
    if event is not None and not set(forms(event)) & set(forms(only)):
        return sorted([str(only), event])
    if read_name(column, [only]).kind == "class":
        return [f"not {only}", str(only)]
    raise ValueError(
        f"{name} has only the label {str(only)!r}, and its column of probabilities, {column!r}, "
        "is not named after it: name the other class with --event."
    )


def class_of_single(
    name: str,
    column: str,
    classes: Sequence[Label],
    label_column: str,
    wanted: int | None,
    *,
    is_requested: bool,
) -> tuple[int, bool]:
    """Index of the class whose probability a single column holds, and whether no name states it."""
    reading = read_name(column, classes, default=1 if wanted is None else wanted)
    if reading.place is not None:
        return reading.place, False
    first, second = classes
    start = f"{name} has one column of probabilities, {column!r}, which"
    rename = f"rename it 'p_{first}' or 'p_{second}'"
    if reading.kind == "ambiguous" or reading.mentioned - {wanted}:
        raise ValueError(
            f"{start} does not say clearly whether it is the probability of {first} or of "
            f"{second}: {rename}."
        )
    if wanted is not None:
        return wanted, False
    if conventional_event(classes) is not None:
        if reading.kind == "generic" or share_a_word(column, label_column):  # churned, p_churn
            return 1, False
        is_right = not _RIGHT.isdisjoint(normalised_name(label_column).split("_"))
        if is_requested or is_right or normalised_name(label_column) in FORMAT_NAMES:
            return 1, True
    states = "does not name its class" if reading.kind == "generic" else "names no class"
    raise ChoiceError(
        f"{start} {states} (classes of {label_column!r}: {_joined(classes)}): {rename}, or choose "
        "its class",
        [{"event": str(first)}, {"event": str(second)}],
    )


def classes_of_several(
    name: str, names: Sequence[str], observed: Sequence[Label], proba: np.ndarray
) -> list[Label]:
    """Columns are classes: those of the labels, and classes without samples."""
    reading = match_names(names, observed) or _one_by_one(name, names, observed)
    extra = [k for k, place in enumerate(reading) if isinstance(place, str)]
    outside = [k for k in extra if is_outside(proba[:, k].min(), proba[:, k].max())]
    totals = proba.sum(axis=1) if extra else np.ones(1)
    worst = totals[np.abs(totals - 1).argmax()]
    if outside or abs(worst - 1) > ROUNDING:  # those are no classes without samples
        values = " with values outside [0, 1]" if outside else ""
        sums = "" if outside else f", and a row of probabilities that sums to {worst:.3g}"
        unmatched = _unmatched_columns([names[k] for k in outside or extra], values)
        raise ValueError(
            f"{name} has {unmatched} (labels: {_joined(observed)}){sums}: {_WHAT_TO_KEEP}."
        )
    labels: list[Label] = [
        place if isinstance(place, str) else observed[place] for place in reading
    ]
    if not isinstance(observed[0], str) and extra:
        is_whole = all(_WHOLE.fullmatch(str(label)) for label in labels)
        labels = [int(float(str(label))) if is_whole else str(label) for label in labels]
    return labels


def _one_by_one(name, names, observed):
    """Classes of columns with names of different forms; raises if a column names no class."""
    readings = [read_name(column, observed) for column in names[:_DESCRIBED]]
    places = [reading.place for reading in readings]
    if sorted(place for place in places if place is not None) == list(range(len(names))):
        return places
    claims = [{reading.place} - {None} or reading.mentioned for reading in readings]
    others = [column for column, claim in zip(names, claims, strict=False) if len(claim) != 1]
    if len(names) <= _DESCRIBED and 0 < len(others) < len(names):
        raise ValueError(
            f"{name} has {_unmatched_columns(others)} (labels: {_joined(observed)}): "
            f"{_WHAT_TO_KEEP}."
        )
    claimed = Counter(place for claim in claims for place in claim)
    twice = [str(observed[place]) for place, times in claimed.items() if times > 1]
    if twice:
        raise ValueError(
            f"{name} has two columns for the class {twice[0]!r} ({_joined(names)}): keep one of "
            "them, or a file for each model."
        )
    missing = next(label for place, label in enumerate(observed) if place not in claimed)
    wrong = _class_objection([missing], observed)
    raise ValueError(
        f"{name} has the label {str(missing)!r}, but no column of that name, such as "
        f"'p_{missing}' (columns of probabilities: {_joined(names)}){wrong and f'; {wrong}'}."
    )


def _unmatched_columns(names, values=""):
    """Columns that name no class, for a message."""
    quoted = _joined([repr(name) if name else "without a name" for name in names])
    if len(names) == 1:
        return f"the column {quoted}{values}, which is not named after a label"
    return f"the columns {quoted}{values}, which are not named after labels"


def _joined(words, longest=8):
    """Words for a message, abbreviated if there are many."""
    words = [str(word) for word in words]
    if len(words) > longest:
        return f"{', '.join(words[:longest])}, ... ({len(words)} in all)"
    return " and ".join([", ".join(words[:-1])] * (len(words) > 1) + words[-1:])
