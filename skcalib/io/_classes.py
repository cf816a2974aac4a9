"""Translation of a `Table` into labels and probabilities: names of columns denote classes."""

import re
from contextlib import contextmanager

import numpy as np

from skcalib._util.validation import is_outside
from skcalib.data.column_names import (
    event_by_meaning,
    forms,
    is_plain,
    match_names,
    plain_event,
    read_name,
    states_other_outcome,
)
from skcalib.io._roles import ROUNDING, ChoiceError, shortened, why_no_class

_FIXED_WIDTH = 32  # characters; arrays of longer labels hold objects, which need less memory


def read_table(table, *, event=None):
    """`Table` -> labels, probabilities, class of each column, event, and what was taken.

    A single column of probabilities is returned with shape (n,), as the probability of the last
    class, which is the event if one is given. For several columns the event is the class itself.
    The last is the note of `Roles`.
    """
    name, label_column = table.name, table.header[table.label]
    names, proba = table.probabilities()
    texts, codes = table.labels()
    observed, which = _classes_of(name, label_column, texts)
    _check_features(table, names, observed.tolist())
    if len(names) == 1:
        proba, labels, wanted, of_column, is_assumed = _single(
            name, names[0], observed.tolist(), proba[:, 0], label_column, event
        )
    else:
        of_column, is_assumed = None, False
        labels, wanted = _several(name, names, observed.tolist(), proba, event)
    if labels.dtype.kind != observed.dtype.kind:  # numbers are text beside a class that is none
        observed = _as_text(observed.astype(str).tolist())
    note = table.roles.note(table.header, of_column, is_assumed=is_assumed)
    return observed[which][codes], proba, labels, wanted, note


def find_event(name, event, classes):
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
    raise ValueError(f"--event {event} is not a class of {name}: its classes are {_and(classes)}.")


# --- Parts of a table -----------------------------------------------------------------------------


def _classes_of(name, column, texts):
    """Sorted classes, as text or as whole numbers if all are, and the place of each text."""
    distinct = sorted(texts)
    whole = [_whole_number(label) for label in texts]
    if None not in whole:
        return np.unique(whole, return_inverse=True)
    others = [label for label, number in zip(texts, whole, strict=True) if number is None]
    wrong = [label for label in sorted(others) if not re.fullmatch(r"-?\d+(\.0+)?", label)]
    if not wrong or not all(map(_is_number, distinct)):
        places = {label: place for place, label in enumerate(distinct)}
        return _as_text(distinct), np.array([places[label] for label in texts])
    why = why_no_class(wrong[:1]) or "labels of classes are expected, words or whole numbers"
    raise ValueError(
        f"{name} has the label {shortened(wrong[0])!r} in the column {column!r}: {why}."
    )


def _whole_number(label):
    """The number that a label spells as 2, 2.0 or 2.000e+00; None for anything else."""
    if re.fullmatch(r"-?(0|[1-9]\d{0,17})(\.0+)?", label):
        return int(label.partition(".")[0])  # floats would round long ones
    if re.fullmatch(r"-?\d\.\d+[eE][+-]\d\d", label):  # as numpy.savetxt writes
        value = float(label)
        return int(value) if value.is_integer() and abs(value) < 2**53 else None
    return None


def _as_text(labels):
    longest = max(map(len, labels))
    return np.array(labels, dtype=str if longest <= _FIXED_WIDTH else object)


def _is_number(label):
    try:
        float(label.replace("_", "?"))
    except ValueError:
        return False
    return True


def _check_features(table, names, observed):
    """Raise for a feature whose name is that of a probability."""
    for k in table.features:
        column = table.header[k]
        place = read_name(column, observed).place
        if place is None:
            *_, place = match_names([*names, column], observed) or [None]
        if isinstance(place, int):
            raise ValueError(
                f"The feature {column!r} of {table.name} is the probability of the class "
                f"{str(observed[place])!r}: leave it out of --features."
            )


# --- One column of probabilities ------------------------------------------------------------------


def _single(name, column, observed, proba, label_column, event):
    """A single column is the probability of the class that it names."""
    classes = _both(name, column, observed, event)
    wanted = None if event is None else find_event(name, event, classes)
    place, is_assumed = _class_of_single(name, column, classes, label_column, wanted)
    of_column = classes[place]
    if wanted is not None and wanted != place:
        place = wanted
        if not is_outside(proba.min(), proba.max()):  # other values raise an error later
            proba = 1 - proba
    labels = np.array([classes[1 - place], classes[place]])
    return proba, labels, None if wanted is None else labels[1], of_column, is_assumed


def _both(name, column, observed, event):
    """The two classes of a single column, the last a plain event; the rows may contain only one."""
    if len(observed) > 2:
        why = f": one column for each class is expected, such as 'p_{observed[0]}'"
        if wrong := why_no_class(observed):
            why = f", and {wrong}"
        raise ValueError(
            f"{name} has {len(observed)} labels ({_and(observed)}), but one column of "
            f"probabilities, {column!r}{why}."
        )
    if len(observed) == 2:
        same = len({str(label).casefold() for label in observed}) == 1
        if same and event is None and read_name(column, observed).kind != "class":
            raise ValueError(f"{name} has labels of which {why_no_class(observed)}.")
        return observed[::-1] if plain_event(observed) == 0 else observed
    (only,) = observed
    for pair in ([0, 1], [-1, 1], ["False", "True"], ["false", "true"], ["FALSE", "TRUE"]):
        if only in pair:
            return pair
    if event is not None and not set(forms(event)) & set(forms(only)):
        return sorted([str(only), event])
    if read_name(column, [only]).kind == "class":
        return [f"not {only}", only] if isinstance(only, str) else [f"not {only}", str(only)]
    raise ValueError(
        f"{name} has only the label {str(only)!r}, and its column of probabilities, {column!r}, "
        "is not named after it: name the other class with --event."
    )


def _class_of_single(name, column, classes, label_column, wanted):
    """Index of the class whose probability a single column holds, and whether no name states it.

    Instead of True, the reason why a class that the name does not state is taken.
    """
    reading = read_name(column, classes, default=1 if wanted is None else wanted)
    if reading.kind == "class":
        return reading.place, False
    first, second = classes
    start = f"{name} has one column of probabilities, {column!r}, which"
    rename = f"rename it 'p_{first}' or 'p_{second}'"
    if reading.kind == "negated":
        raise ValueError(
            f"{start} is named after the opposite of a class: give the probability of one class, "
            f"under a name such as 'p_{second}'."
        )
    if reading.kind == "ambiguous" or reading.mentioned - {wanted}:
        raise ValueError(
            f"{start} does not say clearly whether it is the probability of {first} or of "
            f"{second}: {rename}."
        )
    if wanted is not None:
        return wanted, False
    if is_plain(classes) and not states_other_outcome(column, label_column):
        after_labels = read_name(column, [label_column]).kind == "class"  # churn, p_churn
        return 1, not (reading.kind == "generic" or after_labels)
    if not is_plain(classes) and not reading.mentioned:
        found = event_by_meaning(classes, label_column, column)
        if found is not None:
            return found
    if is_plain(classes):
        states = "names another outcome"
    else:
        states = "does not name its class" if reading.kind == "generic" else "names no class"
    raise ChoiceError(
        f"{start} {states} (classes of {label_column!r}: {_and(classes)}): {rename}, or choose its "
        "class",
        [{"event": str(first)}, {"event": str(second)}],
    )


# --- One column for each class --------------------------------------------------------------------


_DESCRIBED = 50  # with more classes, messages do not describe the names of single columns
_WHAT_TO_KEEP = (
    "keep the column of labels and one column of probabilities for each class (of two classes, one "
    "is enough); name a single one with --score-column, features with --features, and others with "
    "--ignore"
)


def _several(name, names, observed, proba, event):
    """Columns are classes: those of the labels, and classes without samples."""
    reading = match_names(names, observed) or _one_by_one(name, names, observed)
    extra = [k for k, place in enumerate(reading) if isinstance(place, str)]
    _check_extra(name, names, observed, proba, extra)
    labels = [place if isinstance(place, str) else observed[place] for place in reading]
    if not isinstance(observed[0], str) and extra:
        if all(re.fullmatch(r"-?(0|[1-9]\d{0,17})", str(label)) for label in labels):
            labels = [int(label) for label in labels]
        else:
            labels = [str(label) for label in labels]
    wanted = None if event is None else labels[find_event(name, event, labels)]
    return np.array(labels), wanted


def _one_by_one(name, names, observed):
    """Classes of columns with names of different forms; raises if a column names no class."""
    missing = observed[0]
    if max(len(names), len(observed)) <= _DESCRIBED:
        readings = [read_name(column, observed) for column in names]
        places = [reading.place for reading in readings]
        if sorted(p for p in places if p is not None) == list(range(len(names))):
            return places
        claims = [
            {reading.place} - {None} or (reading.mentioned if reading.kind == "unknown" else set())
            for reading in readings
        ]
        others = [
            column
            for column, reading, claim in zip(names, readings, claims, strict=True)
            if reading.kind != "ambiguous" and len(claim) != 1
        ]
        claimed = [place for claim in claims for place in claim]
        if 0 < len(others) < len(names):
            raise ValueError(
                f"{name} has {_strangers(others)} (labels: {_and(observed)}): {_WHAT_TO_KEEP}."
            )
        twice = [k for k in range(len(observed)) if claimed.count(k) > 1]
        if twice:
            both = [names[k] for k, claim in enumerate(claims) if twice[0] in claim]
            raise ValueError(
                f"{name} has {len(both)} columns for the class {str(observed[twice[0]])!r}, "
                f"{_and(both)}: keep one of them, or a file for each model."
            )
        missing = next((c for k, c in enumerate(observed) if k not in claimed), missing)
    wrong = why_no_class([missing], observed)
    raise ValueError(
        f"{name} has the label {str(missing)!r}, but no column of that name, such as "
        f"'p_{missing}' (columns of probabilities: {_and(names)}){wrong and f'; {wrong}'}."
    )


def _check_extra(name, names, observed, proba, extra):
    """Raise for additional columns unless they can be probabilities of classes without samples."""
    outside = [k for k in extra if is_outside(proba[:, k].min(), proba[:, k].max())]
    totals = proba.sum(axis=1) if extra else np.ones(1)
    worst = totals[np.abs(totals - 1).argmax()]
    if outside:
        found, so = _strangers([names[k] for k in outside], " with values outside [0, 1]"), ""
    elif abs(worst - 1) > ROUNDING:
        found = _strangers([names[k] for k in extra])
        so = f", and a row of probabilities that sums to {worst:.3g}"
    else:
        return
    raise ValueError(f"{name} has {found} (labels: {_and(observed)}){so}: {_WHAT_TO_KEEP}.")


def _strangers(names, what=""):
    """Columns that name no class, for a message."""
    quoted = _and([repr(name) if name else "without a name" for name in names])
    if len(names) == 1:
        return f"the column {quoted}{what}, which is not named after a label"
    return f"the columns {quoted}{what}, which are not named after labels"


def _and(words, limit=8):
    """Words for a message, abbreviated if there are many."""
    words = [str(word) for word in words]
    if len(words) > limit:
        return f"{', '.join(words[:limit])}, ... ({len(words)} in all)"
    return " and ".join([", ".join(words[:-1])] * (len(words) > 1) + words[-1:])


# --- Rows that sum to 1 up to rounding ------------------------------------------------------------


def normalize(proba, name):
    """Normalize rows that sum to 1 up to rounding; raise for other rows of the file `name`."""
    if proba.ndim == 1 or proba.shape[1] == 1:
        return proba
    totals = proba.sum(axis=1, keepdims=True)
    off = totals[np.abs(totals - 1) > ROUNDING]
    if len(off):
        raise ValueError(
            f"{name} has a row of probabilities that sums to {off[0]:.3g}: --normalize is for "
            f"rounding, up to {ROUNDING:g}."
        )
    return proba / totals


@contextmanager
def advice(proba):
    """Name the option for rows that sum to 1 up to rounding."""
    try:
        yield
    except ValueError as error:
        if "must sum to 1" not in str(error) or proba.ndim != 2:
            raise
        if np.abs(proba.sum(axis=1) - 1).max() > ROUNDING:
            raise
        raise ValueError(f"{error} On the command line: --normalize.") from error
