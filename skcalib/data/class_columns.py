"""The class of each column of forecasts, from the arguments and the names of the columns.

``p_churn``, ``churn``, ``Proba.Churn`` and ``churn_score`` name the class *churn*: the class, in
any letter case, with words for a probability before or after it. ``p``, ``score`` and
``y_pred_proba`` name no class. Any other name is not understood, and the class is never guessed.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import refuse_frames_to_fetch
from skcalib.data.clusters import outside_level
from skcalib.data.labels import check_classes, listed, unique_labels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skcalib._util.types import Classes, Label

_READ_ONE_BY_ONE = 20  # up to this number, column names are also read one by one
#: The form of `ColumnNames` in JSON.
NAMES_FORM = {"label": (None, str), "score": (None, str)}


@dataclass(frozen=True)
class ColumnNames:
    """Names of the labels and of the single column of scores of some samples; None if unknown."""

    label: str | None = None
    score: str | None = None

    @classmethod
    def of(cls, y_true: ArrayLike, y_proba: ArrayLike) -> Self:
        """The names of Series, or of frames of one column; numbers are no names."""
        label, score = _name_of_single(y_true), _name_of_single(y_proba)
        return cls(
            None if isinstance(label, int) else label, None if isinstance(score, int) else score
        )

    @classmethod
    def known_of(cls, estimator: object) -> Self:
        """The names that a sketch, a test or a monitor has stored."""
        return cls(getattr(estimator, "label_name_", None), getattr(estimator, "score_name_", None))

    def store(self, estimator: object) -> None:
        """Store the names as the attributes `label_name_` and `score_name_`."""
        vars(estimator).update(label_name_=self.label, score_name_=self.score)

    def difference(self, other: ColumnNames, classes: ArrayLike) -> tuple[str, str, str] | None:
        """What differs, "labels" or "scores", and both names; None if nothing differs."""
        before, new = self.label, other.label
        if before is not None and new is not None and not is_same_label(before, new):
            return "labels", before, new
        before, new = self.score, other.score
        if before is None or new is None or normalised_name(before) == normalised_name(new):
            return None
        names = np.asarray(classes).tolist()
        kinds = {read_name(name, names, default=len(names) - 1).kind for name in (before, new)}
        if kinds <= {"class", "generic"}:  # each one states a class, or nothing
            return None
        return "scores", before, new

    def joined(self, other: ColumnNames, classes: np.ndarray, *, merged: bool = False) -> Self:
        """The names of these samples and of others; raises if they differ.

        With `merged` the samples are those of two sketches, and otherwise new ones that are added.
        """
        difference = self.difference(other, classes)
        if difference is None:
            return type(self)(self.label or other.label, self.score or other.score)
        column, before, new = difference
        if merged:
            said = f"The {column} of the two sketches are named {before!r} and {new!r}"
            remedy = f"set {column[:-1]}_name_ of both sketches to one name"
        else:
            argument = "y_true" if column == "labels" else "y_proba"
            said = f"{argument} is named {new!r}, and the {column} of the samples before {before!r}"
            remedy = "pass an array, which has no name"
        raise ValueError(f"{said}: if these are the same {column}, {remedy}.")


def classes_of_columns(
    y: np.ndarray,
    y_proba: ArrayLike | None,
    n_columns: int,
    *,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    name: str = "y_proba",
    remedy: Literal["pos_label", "labels"] | None = "pos_label",
    categories: tuple[Any, ...] | None = None,
) -> np.ndarray:
    """The class of each column, from the arguments and the names of the columns.

    A single column that names a class holds its probability. `labels` and `pos_label` decide
    where the name does not, and must not contradict it. Names of several columns must not
    contradict the order of `labels` or of the sorted classes, and may name classes that `y` lacks.
    Ordered `categories` in another order give a warning, unless an argument or a name decides.
    """
    column = _name_of_single(y_proba) if n_columns == 1 else None
    if column is None:
        from_names = _classes_from_names(y, y_proba, n_columns) if labels is None else None
        known = labels if from_names is None else from_names
        classes = check_classes(y, n_columns, labels=known, pos_label=pos_label, name=name)
        if (
            n_columns == 1
            and labels is None
            and pos_label is None
            and conventional_event(classes) == 0
        ):
            raise _unclear("has no name", classes, name, remedy)  # "YES" sorts before "no"
        if labels is None and n_columns > 1:
            check_order(y_proba, classes, name)
            _check_numbers(y_proba, classes, name)
        elif n_columns > 1 and not _are_default_names(y_proba):
            check_order(y_proba, classes, name, remedy="array")
        if categories is None or labels is not None or pos_label is not None:
            return classes
        names = classes.tolist()
        ordered_names = [category for category in categories if category in names]
        if names != ordered_names and _are_default_names(y_proba):
            warnings.warn(
                f"y_true has the ordered categories {listed(ordered_names)}, but {name} has no "
                f"names of columns, so its columns are read as those of {listed(names)}, the "
                "sorted classes, as in scikit-learn: pass labels= with the class of each column.",
                UserWarning,
                stacklevel=outside_level(),
            )
        return classes
    by_argument = labels is not None or pos_label is not None
    if not by_argument:
        only = unique_labels(y)
        if len(only) == 1 and not isinstance(column, int):
            named = isinstance(only[0], (str, bytes)) and read_name(column, only).kind == "class"
            pos_label = only.tolist()[0] if named else None
    classes = check_classes(y, 1, labels=labels, pos_label=pos_label, name=name)
    return _classes_by_name(column, classes, name, by_argument=by_argument, remedy=remedy)


def check_column_names(y_proba: ArrayLike, classes: np.ndarray, name: str) -> None:
    """Raise if names of columns contradict the known classes."""
    refuse_frames_to_fetch(y_proba, name)
    columns = getattr(y_proba, "columns", None)
    column = _name_of_single(y_proba) if columns is None or len(columns) == 1 else None
    if column is None:
        check_order(y_proba, classes, name, remedy=None)
    elif len(classes) == 2:
        _classes_by_name(column, classes, name, by_argument=True, remedy=None)


def _classes_by_name(column, classes, name, *, by_argument, remedy):
    """Two classes; the class of a single column of probabilities comes last.

    `by_argument`: the order of `classes` comes from arguments, not from sorted labels.
    """
    if isinstance(column, int):  # the column of another frame, or the number of the only column
        if by_argument or column != classes[0]:
            return classes
        raise _unclear(f"is number {column}", classes, name, remedy)
    reading = read_name(column, classes, default=1)
    if reading.kind == "class":
        if by_argument and reading.place == 0:
            named, last = classes.tolist()
            advice = {
                None: f"pass the probabilities of {last!r}",
                "labels": f"pass labels={[last, named]!r}",
                "pos_label": f"pass pos_label={named!r} (and no labels=)",
            }[remedy]
            raise ValueError(
                f"The column of {name} is named {column!r}, so it is the probability of "
                f"{named!r}, but it would be read as that of {last!r}: {advice}, or an array, "
                "which has no names."
            )
        return classes[::-1] if reading.place == 0 else classes
    if 0 in reading.mentioned or (reading.kind == "ambiguous" and reading.mentioned):
        raise _unclear(f"is named {column!r}", classes, name, None)
    if by_argument or (conventional_event(classes) == 1 and reading.kind in ("generic", "unknown")):
        return classes
    raise _unclear(f"is named {column!r}", classes, name, remedy)


def _unclear(reason, classes, name, remedy):
    """The error for a single column whose class is unknown."""
    first, second = classes.tolist()
    advice = {
        None: f"rename it after one of them, such as 'p_{second}'",
        "labels": f"pass labels={[first, second]!r} or labels={[second, first]!r}, with its class "
        "last",
        "pos_label": f"pass pos_label={first!r} or pos_label={second!r}",
    }[remedy]
    return ValueError(
        f"The column of {name} {reason}, which does not say whether it is the probability of "
        f"{first!r} or of {second!r}: {advice}."
    )


def _name_of_single(y_proba):
    """The name of a Series or of the only column of a frame, or None.

    Default names of libraries are ignored: the column numbers of a pandas frame, ``column_0`` of
    polars. The number of a Series is kept as a whole number: it may be one of several columns.
    """
    columns = getattr(y_proba, "columns", None)
    if columns is not None:
        name = columns[0] if len(columns) == 1 else None
        name = None if isinstance(name, (int, np.integer)) else name
    else:
        name = getattr(y_proba, "name", None) if hasattr(y_proba, "to_frame") else None
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
        return int(name)
    text = "" if name is None else str(name).strip()
    return None if not text or re.fullmatch(r"column_\d+", text) else text


def check_order(
    y_proba: ArrayLike | None,
    classes: np.ndarray,
    name: str,
    *,
    remedy: Literal["labels", "array"] | None = "labels",
) -> None:
    """Raise if the columns of a data frame are named after the classes in another order."""
    columns = list(getattr(y_proba, "columns", ()))
    expected = classes.tolist()
    if len(columns) != len(expected) or columns == expected:
        return
    places = match_names(columns, expected)
    if places is None:
        if is_numbering(columns) or len(columns) > _READ_ONE_BY_ONE:
            return
        readings = [read_name(column, expected) for column in columns]
        places = [reading.place for reading in readings]
    if any(place is not None and place != k for k, place in enumerate(places)):
        follow, advice = {
            "labels": (
                "columns follow the sorted classes",
                "pass labels= with the class of each column, or reorder them",
            ),
            "array": (
                "labels is",
                "list the classes in the order of the columns, or pass an array, "
                "which has no names",
            ),
            None: ("columns follow the classes", "reorder them"),
        }[remedy]
        raise ValueError(
            f"The columns of {name} are named {listed(columns)}, but {follow} {listed(expected)}: "
            f"{advice}."
        )


def _check_numbers(y_proba, classes, name):
    """Raise if the columns of a data frame are numbered, and classes have other numbers."""
    columns = list(getattr(y_proba, "columns", ()))
    expected = classes.tolist()
    if (
        len(columns) != len(expected)
        or classes.dtype.kind not in "iuf"
        or not is_numbering(columns)
    ):
        return
    first = int(re.search(r"\d+$", str(columns[0]).strip())[0])
    counted = list(range(first, first + len(columns)))
    if expected[0] == first and expected != counted:
        raise ValueError(
            f"The columns of {name} are named {listed(columns)}, but y_true has the classes "
            f"{listed(expected)}: pass labels= with the class of each column."
        )


def _classes_from_names(y, y_proba, n_columns):
    """Classes of named columns, sorted, where some have no sample; None if names do not decide."""
    columns = getattr(y_proba, "columns", None)
    if columns is None or n_columns < 2 or _are_default_names(y_proba):
        return None
    known = unique_labels(y)
    if len(known) >= n_columns:
        return None
    reading = match_names(list(columns), known.tolist())
    if reading is None:
        return None
    missing = [place for place in reading if isinstance(place, str)]
    if known.dtype.kind == "b":
        return np.array([False, True])
    if known.dtype.kind in "iuf":
        if not all(re.fullmatch(r"-?\d{1,18}(\.0)?", name) for name in missing):
            return None
        missing = [int(float(name)) for name in missing]
    elif not all(isinstance(label, str) for label in known.tolist()):
        return None
    return np.unique(np.array([*known.tolist(), *missing], dtype=known.dtype.type))


def _are_default_names(y_proba):
    """Whether the columns of a data frame have the names that a library gives by itself."""
    columns = getattr(y_proba, "columns", ())
    if type(columns).__name__ == "RangeIndex":  # of pandas; a list of numbers is no such index
        return list(columns) == list(range(len(columns)))
    return list(columns) == [f"column_{k}" for k in range(len(columns))]


# --- Names of columns -----------------------------------------------------------------------------


#: Names of the column of labels, which mean nothing else.
LABEL_NAMES = ("y_true", "ground_truth")
#: Names of labels of any outcome.
FORMAT_NAMES = (*LABEL_NAMES, "label", "target", "y")
#: Words for a probability. A number after one of them is a class: ``p0`` is that of class 0.
_PROBABILITY = frozenset(("p", "pr", "prob", "probs", "proba", "probas", "probability"))
#: Words for a forecast. A number after one of them may also count models or folds.
_FORECAST = frozenset(
    ("score", "scores", "pred", "preds", "predict", "predicted", "prediction", "predictions")
    + ("forecast", "forecasts", "yhat", "hat", "risk", "probabilities", "logit", "logits")
)
_LINKS = frozenset(("y", "x", "of", "class", "label", "the", "model"))
_NUMBERED = _PROBABILITY | {"class", "label"}
#: Words that may stand before or after a class.
_KNOWN = _PROBABILITY | _FORECAST | _LINKS | {"pos", "positive", "event"}
_NEGATIONS = frozenset(
    ("not", "no", "non", "without", "neg", "negative", "minus", "inverse", "complement")
)
#: Words for an outcome: a name of these is that of labels.
_OUTCOMES = frozenset(
    ("y", "label", "labels", "target", "outcome", "class", "event", "response", "actual", "truth")
    + ("churn", "churned", "attrition", "exited", "death", "dead", "died", "deceased", "mortality")
    + ("survived", "survival", "alive", "default", "defaulted", "repaid", "retained", "fraud")
    + ("converted", "conversion", "clicked", "readmitted", "relapse", "malignant", "benign", "spam")
)
#: Words that do not change which outcome a name states: is_churned, death_30_days.
_BESIDE_OUTCOME = frozenset(
    ("is", "has", "was", "did", "will", "flag", "indicator", "status", "true", "observed", "in")
    + ("within", "at", "after", "next", "d", "day", "days", "month", "months", "year", "payment")
)
#: Pairs of labels with an obvious positive class, which comes last.
_PLAIN = tuple(
    pair.split()
    for pair in ("0 1", "-1 1", "false true", "no yes", "n y", "neg pos", "negative positive")
)


@dataclass(frozen=True)
class Reading:
    """Interpretation of the name of a single column, given two classes or more.

    ``kind`` is "class" (with its ``place``), "generic" (words for a probability only), "unknown"
    (some other word) or "ambiguous" (two readings, or a negation). ``mentioned`` are the places of
    the classes that a name contains besides other words.
    """

    kind: str
    place: int | None = None
    mentioned: frozenset[int] = frozenset()


def forms(label: Label) -> tuple[str, ...]:
    """Spellings of a class: 1, 1.0 and True are all "1"."""
    if label is None:
        return ()
    if isinstance(label, bytes):
        return (label.decode("utf-8", "replace"),)
    if isinstance(label, bool) or type(label).__name__ in ("bool_", "bool"):
        return str(bool(label)), str(int(bool(label)))
    text = str(label)
    number = re.fullmatch(r"([+-]?\d+)(\.0+)?", text.strip())
    if number:
        return tuple(dict.fromkeys((text, number[1], f"{number[1]}.0")))
    return (text,) if text.strip() else ()


def conventional_event(classes: Classes) -> int | None:
    """Place of the positive class of 0/1, -1/1, False/True, no/yes and so on; None of others.

    Letter case does not count: the positive class of "YES" and "no" is "YES", which sorts first.
    """
    spelled = [{form.casefold() for form in forms(label)} for label in classes]
    if len(spelled) != 2:
        return None
    for negative, positive in _PLAIN:
        for place in (1, 0):
            if negative in spelled[1 - place] and positive in spelled[place]:
                return place
    return None


def states_outcome(name: Label) -> bool:
    """Whether a name is that of labels: a word for an outcome, and at most words beside it."""
    words = {word for word in _words(str(name)) if word.isalpha()}
    return not words.isdisjoint(_OUTCOMES) and words <= _OUTCOMES | _BESIDE_OUTCOME


def states_forecast(name: Label) -> bool:
    """Whether a name has a word for a probability or a forecast: p_churn, model_score."""
    return not (_PROBABILITY | _FORECAST).isdisjoint(_words(str(name)))


def share_a_word(first: Label, second: Label) -> bool:
    """Whether two names have a word in common, or its beginning: churned and p_churn."""
    return any(
        word.startswith(other) or other.startswith(word)
        for word in set(_words(str(first))) - _KNOWN - _BESIDE_OUTCOME
        for other in set(_words(str(second))) - _KNOWN - _BESIDE_OUTCOME
    )


def normalised_name(name: Label) -> str:
    """A name as lower-case words: GroundTruth and ground-truth are ground_truth."""
    return "_".join(_words(str(name)))


def is_same_label(first: Label, second: Label) -> bool:
    """Whether two names of labels are equal but for letter case, or mean labels of any outcome."""
    first, second = normalised_name(first), normalised_name(second)
    return first == second or {first, second} <= set(FORMAT_NAMES)


def read_name(name: Label, classes: Classes, default: int | None = None) -> Reading:
    """Name of a column and the classes -> `Reading`.

    ``default`` is the place of the class that a column without a name would be of: a name that
    may name this class or nothing is no ambiguity.
    """
    text = str(name).strip()
    words = _words(text)
    spelled = [{tuple(_words(form)) for form in forms(label)} - {()} for label in classes]
    parts = _slices(words, len(words), 0)
    mentioned = frozenset(place for place, spellings in enumerate(spelled) if spellings & parts)
    if re.match(r"\W*1\s*-\s*\D", text):  # 1 - p
        return Reading("ambiguous", mentioned=mentioned)
    unknown = [k for k, word in enumerate(words) if word not in _KNOWN]
    first, last = (unknown[0], unknown[-1] + 1) if unknown else (len(words), 0)
    cores = _slices(words, first, last)
    places = [place for place, spellings in enumerate(spelled) if spellings & cores]
    if len(places) != 1:  # signs and letter case tell <=50K from >50K, and A from a
        places = [place for place, label in enumerate(classes) if _is_exact(text, label)] or places
    if len(places) == 1:
        (place,) = places
        is_class = place == default or not _is_weak(words, spelled[place])
        return Reading("class", place) if is_class else Reading("ambiguous")
    if places:
        return Reading("ambiguous")
    unknown_words = [words[k] for k in unknown]
    if not unknown_words and not (words and _LINKS.issuperset(words)):
        return Reading("generic")
    numbers = {
        place
        for place in mentioned
        if any(all(map(_is_number, spelling)) for spelling in spelled[place] & parts)
    }
    only_numbers = (
        unknown_words and all(map(_is_number, unknown_words)) and _FORECAST.isdisjoint(words)
    )
    is_clear = not only_numbers and numbers <= {default} and _NEGATIONS.isdisjoint(words)
    return Reading("unknown" if is_clear else "ambiguous", mentioned=mentioned - numbers)


def _words(text):
    """Lower-case words and numbers; "probChurn" and "p1" hold two."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return re.findall(r"[^\W\d_]+|-?\d+(?:\.\d+)?", text.casefold())


def _is_number(word):
    return word.lstrip("-").replace(".", "", 1).isdecimal()


def _slices(words, first, last):
    """All parts of a list that begin at `first` at the latest and end at `last` at the earliest."""
    return {
        tuple(words[start:stop])
        for start in range(first + 1)
        for stop in range(max(last, start + 1), len(words) + 1)
    }


def _is_exact(text, label):
    """Whether a name is a class as it is written, with words for a probability around it."""
    for form in forms(label):
        for match in re.finditer(rf"(?<![^\s_(\[=]){re.escape(form)}(?![^\s_)\]])", text):
            if _KNOWN.issuperset(_words(f"{text[: match.start()]} {text[match.end() :]}")):
                return True
    return False


def _is_weak(words, spellings):
    """Whether the name of a class may mean something else: a running number, a word such as "p"."""
    if any(_KNOWN.issuperset(spelling) for spelling in spellings):
        return True
    is_number = any(all(map(str.isdecimal, spelling)) for spelling in spellings)
    return is_number and _NUMBERED.isdisjoint(words)


# --- Names of several columns ---------------------------------------------------------------------


def match_names(names: Iterable[Label], classes: Classes) -> list[int | str] | None:
    """Names of columns, and classes that must be among them -> the class of each column.

    Names match as they are, or between a common prefix and a common suffix, in the letter case of
    the classes if that is possible. A list with the place of a class or, for a column that names
    none of them, the name without prefix and suffix; None if there is no such reading, or more than
    one.
    """
    stripped = [str(name).strip() for name in names]
    for key in (str, str.casefold, normalised_name):
        spelled = [{key(form) for form in forms(label)} for label in classes]
        times = Counter(chain(*spelled))
        places = {
            form: place
            for place, spellings in enumerate(spelled)
            for form in spellings
            if times[form] == 1
        }
        keyed = [key(name) for name in stripped]
        readings = []
        for prefix, suffix in _affixes(keyed, spelled[0]):
            around = len(prefix) + len(suffix)
            cores = [
                name[len(prefix) : len(name) - len(suffix)]
                for name in keyed
                if len(name) > around and name.startswith(prefix) and name.endswith(suffix)
            ]
            hits = [places[core] for core in cores if core in places]
            if len(cores) < len(keyed) or sorted(hits) != list(range(len(classes))):
                continue
            reading = [places.get(core, core) for core in cores]
            if not prefix and not suffix:
                return reading
            if reading not in readings:
                readings.append(reading)
        if readings:
            return readings[0] if len(readings) == 1 else None
    return None


def _affixes(names, first):
    """Prefixes and suffixes that some name has around the first class; none at all first."""
    pairs = {("", ""): None}
    for name in names:
        for form in first:
            start = name.find(form)
            while form and start >= 0:
                pairs[name[:start], name[start + len(form) :]] = None
                start = name.find(form, start + 1)
    return pairs


def is_numbering(names: Iterable[Label]) -> bool:
    """Whether columns are only numbered, from 0 or 1: such names are not classes."""
    starts, numbers = set(), []
    for name in names:
        parts = re.fullmatch(r"(.*?)(\d+)", str(name).strip())
        if parts is None:
            return False
        starts.add(parts[1])
        numbers.append(int(parts[2]))
    counted = list(range(len(numbers))), list(range(1, len(numbers) + 1))
    return len(starts) <= 1 and numbers in counted
