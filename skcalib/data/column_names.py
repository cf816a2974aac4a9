"""Identify the class that the name of a column of probabilities refers to.

``p_churn``, ``churn``, ``Proba.Churn`` and ``churn_score`` name the class *churn*: the class, in
any letter case, with words for a probability before or after it. ``p``, ``score`` and
``y_pred_proba`` name no class. Any other name is not understood, and the class is never guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skcalib._util.types import Classes, Label

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


def plain_event(classes: Classes) -> int | None:
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


def in_words(name: Label) -> str:
    """A name as lower-case words: GroundTruth and ground-truth are ground_truth."""
    return "_".join(_words(str(name)))


def is_same_label(first: Label, second: Label) -> bool:
    """Whether two names of labels are equal but for letter case, or mean labels of any outcome."""
    first, second = in_words(first), in_words(second)
    return first == second or {first, second} <= set(FORMAT_NAMES)


def is_same_score(first: Label, second: Label, classes: Classes) -> bool:
    """Whether two names of a single score are equal, or each one states a class, or nothing."""
    if in_words(first) == in_words(second):
        return True
    last = len(classes) - 1
    kinds = {read_name(name, classes, default=last).kind for name in (first, second)}
    return kinds <= {"class", "generic"}


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
    for key in (str, str.casefold, in_words):
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
            cores = [_core(name, prefix, suffix) for name in keyed]
            hits = [places[core] for core in cores if core in places]
            if None in cores or sorted(hits) != list(range(len(classes))):
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


def _core(name, prefix, suffix):
    inside = len(name) > len(prefix) + len(suffix)
    if inside and name.startswith(prefix) and name.endswith(suffix):
        return name[len(prefix) : len(name) - len(suffix)]
    return None


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
