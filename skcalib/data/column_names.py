"""Identify the class that the name of a column of probabilities refers to.

``p_churn``, ``churn``, ``Proba.Churn``, ``P(Y=churn)`` and ``churn_score`` name the class *churn*:
the class, in any letter case, besides words for a probability. ``p``, ``score`` and
``y_pred_proba`` name no class. A name with two readings is ambiguous; the class is never guessed.
"""

import re
from dataclasses import dataclass

#: Names of the column of labels in the format; those of `LABEL_NAMES` mean nothing else.
LABEL_NAMES = ("y_true", "ground_truth")
FORMAT_NAMES = (*LABEL_NAMES, "label", "target", "y")
#: Words for a probability. A number after one of them is a class: ``p0`` is that of class 0.
PROBABILITY = frozenset(("p", "pr", "prob", "probs", "proba", "probas", "probability"))
#: Words for a forecast. A number after one of them may also count models or folds.
FORECAST = frozenset(
    ("score", "scores", "pred", "preds", "predict", "predicted", "prediction", "predictions")
    + ("forecast", "forecasts", "yhat", "hat", "risk", "probabilities", "logit", "logits")
)
#: Words for the positive class, independent of its label.
POSITIVE = frozenset(("pos", "positive", "event"))
_LINKS = frozenset(("y", "x", "of", "class", "label", "the"))
_NEGATIONS = frozenset(
    ("not", "no", "non", "without", "neg", "negative", "nonevent", "minus", "inverse", "complement")
)
_NUMBERED = PROBABILITY | {"class", "label"}
_KNOWN = PROBABILITY | FORECAST | POSITIVE | _LINKS
#: Words for an outcome, in groups of one meaning; those of the first group have any meaning.
_OUTCOMES = (
    ("y", "label", "labels", "target", "outcome", "class", "event", "response")
    + ("actual", "actuals", "truth"),
    ("churn", "churned", "churner", "attrition", "attrited", "exited"),
    ("death", "dead", "died", "deceased", "mortality"),
    ("survived", "survival", "survive", "survivor", "alive"),
    ("default", "defaulted", "defaulter", "delinquent", "delinquency"),
    ("repaid", "repayment"),
    ("retained", "retention", "stay", "stayed"),
    ("fraud", "fraudulent"),
    ("conversion", "converted"),
    ("clicked",),
    ("readmission", "readmitted"),
    ("relapse", "relapsed", "recurrence"),
    ("malignant", "malignancy"),
    ("benign",),
    ("spam",),
)
_OUTCOME = {word: place for place, words in enumerate(_OUTCOMES) for word in words}
#: Words of a meaning besides those above, which tell outcomes apart but find no column of labels.
_OTHER_OUTCOMES = {
    "death": ("die", "dies"),
    "default": ("bad", "defaults"),
    "repaid": ("good", "repay", "repays", "paid"),
    "retained": ("retain",),
    "fraud": ("frauds",),
    "legit": ("legit", "legitimate", "genuine"),
    "conversion": ("buy", "bought", "purchase", "purchased", "convert"),
    "clicked": ("click", "clicks", "ctr"),
    "readmission": ("readmit",),
    "relapse": ("relapses", "recurred"),
    "remission": ("remission", "recover", "recovered", "recovery"),
    "spam": ("spams",),
    "ham": ("ham",),
    "pass": ("pass", "passed", "passes", "success", "successful", "succeeded"),
    "fail": ("fail", "failed", "fails", "failure"),
    "win": ("win", "wins", "won"),
    "lose": ("lose", "loses", "lost", "loss"),
    "healthy": ("healthy",),
    "sick": ("sick", "ill", "illness", "disease", "diseased"),
    "approved": ("approve", "approved", "approval", "accepted", "acceptance"),
    "rejected": ("reject", "rejected", "rejection", "denied", "denial"),
}
_MEANING = {word: words[0] for words in _OUTCOMES[1:] for word in words}
_MEANING |= {
    word: _MEANING.get(meaning, meaning)
    for meaning, words in _OTHER_OUTCOMES.items()
    for word in words
}
#: Meanings of events, and those of their absence.
_EVENTS = {
    "death": "survived",
    "churn": "retained",
    "default": "repaid",
    "fraud": "legit",
    "malignant": "benign",
    "spam": "ham",
    "relapse": "remission",
}
#: Words that do not change which outcome a name states: is_churned, death_30_days.
_BESIDE_OUTCOME = frozenset(
    ("is", "has", "had", "was", "did", "will", "flag", "ind", "indicator", "binary", "bool")
    + ("status", "true", "observed", "final", "by", "in", "within", "at", "after", "next")
    + ("d", "day", "days", "week", "weeks", "m", "month", "months", "year", "years", "payment")
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
    (some other word), "ambiguous" (two readings) or "negated" (the complement of something).
    ``mentioned`` are the places of the classes that an unknown name contains besides other words.
    """

    kind: str
    place: int | None = None
    mentioned: frozenset = frozenset()


def forms(label):
    """Spellings of a class: 1, 1.0 and True are all "1"."""
    if label is None:
        return ()
    if isinstance(label, bytes):
        return (label.decode("utf-8", "replace"),)
    if isinstance(label, bool) or type(label).__name__ in ("bool_", "bool"):
        return str(bool(label)), str(int(label))
    text = str(label)
    number = re.fullmatch(r"([+-]?\d+)(\.0+)?", text.strip())
    if number:
        return tuple(dict.fromkeys((text, number[1], f"{number[1]}.0")))
    return (text,) if text.strip() else ()


def is_plain(classes):
    """Whether two classes have an obvious positive class, such as 0/1 or no/yes."""
    return plain_event(classes) is not None


def plain_event(classes):
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


def states_outcome(name):
    """Whether a name is that of labels: a word for an outcome, and at most words beside it."""
    words = [word for word in _words(str(name)) if not word.isdigit()]
    return any(word in _OUTCOME for word in words) and all(
        word in _OUTCOME or word in _BESIDE_OUTCOME for word in words
    )


def in_words(name):
    """A name as lower-case words: GroundTruth and ground-truth are ground_truth."""
    return "_".join(_words(str(name)))


def states_forecast(name):
    """Whether a name has a word for a probability or a forecast: p_churn, model_score."""
    return not (PROBABILITY | FORECAST).isdisjoint(_words(str(name)))


def states_other_outcome(name, label_column):
    """Whether a name has a word for another outcome than that of the column of labels."""
    one, other = (
        {_MEANING[word] for word in _words(str(text)) if word in _MEANING}
        for text in (name, label_column)
    )
    return bool(one and other and not one & other)


def event_by_meaning(classes, label_column, score_column):
    """Place of the event of two classes that are words for outcomes, and why; None if unclear.

    The names of the columns decide: the class that means the same, as churn in churned. Without
    such a name the classes do, if they are an event and its absence, as died and alive. Names with
    different meanings, and a risk of the absence of an event, are unclear.
    """
    meanings = [_meanings(label) for label in classes]
    found = {}
    for name in (label_column, score_column):
        places = [k for k in (0, 1) if _meanings(name) & meanings[k]]
        if len(places) == 1:
            found.setdefault(places[0], f"as {name!r} says")
        elif places or _meanings(name):
            return None
    events = [k for k in (0, 1) if any(
        {event, absence} == meanings[k] | meanings[1 - k] and event in meanings[k]
        for event, absence in _EVENTS.items()
    )]  # fmt: skip
    if not found and len(events) == 1:
        return events[0], f"{classes[events[0]]} is the event, {classes[1 - events[0]]} its absence"
    if len(found) != 1:
        return None
    ((place, why),) = found.items()
    if events and events[0] != place and "risk" in _words(str(score_column)):
        return None
    return place, why


def _meanings(name):
    """Meanings of the words of a name; none of one with a negation."""
    words = _words(str(name))
    if not _NEGATIONS.isdisjoint(words):
        return set()
    return {_MEANING[word] for word in words if word in _MEANING}


def is_same_label(one, other):
    """Whether two names of labels are equal but for letter case, or mean labels of any outcome."""
    one, other = in_words(one), in_words(other)
    return one == other or {one, other} <= set(FORMAT_NAMES)


def is_same_score(one, other, classes):
    """Whether two names of a single score are equal, or each one states a class, or nothing."""
    if in_words(one) == in_words(other):
        return True
    last = len(classes) - 1
    kinds = {read_name(name, classes, default=last).kind for name in (one, other)}
    return kinds <= {"class", "generic"}


def read_name(name, classes, default=None):
    """Name of a column and the classes -> `Reading`.

    ``default`` is the place of the class that a column without a name would be of: a name that
    may name this class or nothing is no ambiguity.
    """
    name = str(name).strip()
    if re.match(r"^\W*(1|one)\s*-\s*\D", name, re.IGNORECASE):  # 1 - p
        return Reading("negated")
    matches = _matches(name, classes)
    named = [(span, place) for span, place in matches if _only_words(name, span)]
    places = {place for _, place in named}
    words = _words(name)
    if len(places) == 1:
        (place,) = places
        if place == default or not any(_is_weak(name, span) for span, _ in named):
            return Reading("class", place)
        return Reading("ambiguous")
    if places:
        return Reading("ambiguous")
    if _is_generic(words):
        return Reading("generic")
    mentioned = frozenset(place for span, place in matches if not name[slice(*span)].isdigit())
    if set(words) & _NEGATIONS:
        sure = mentioned or {w for w in words if not w.isdigit()} <= _KNOWN | _NEGATIONS | {"one"}
        return Reading("negated" if sure else "ambiguous")
    if _is_foreign_number(words) or {place for _, place in matches} - mentioned - {default}:
        return Reading("ambiguous")
    return Reading("unknown", mentioned=mentioned)


def _matches(name, classes):
    """Spans of the classes in a name, without those inside a longer one."""
    found = []
    for place, label in enumerate(classes):
        for form in forms(label):
            for pattern in _patterns(form):
                for hit in re.finditer(f"(?={pattern})", name, re.IGNORECASE):
                    span = (hit.start(), hit.start() + len(hit[1]))
                    if _is_whole(name, *span):
                        found.append((span, place, name[slice(*span)] == form))
    spans = {span for span, _, _ in found}
    kept = [
        (span, place, exact)
        for span, place, exact in found
        if not any(_inside(span, other) for other in spans)
    ]
    sure = {span for span, _, exact in kept if exact}  # letter case decides between "A" and "a"
    return {(span, place) for span, place, exact in kept if exact or span not in sure}


def _patterns(form):
    """A class as it is, and with any separators between its words."""
    yield f"({re.escape(form)})"
    words = re.findall(r"[^\W_]+", form)
    if words and form != words[0] and not re.fullmatch(r"[+-]?\d+(\.\d+)?", form):
        yield "(" + r"[\W_]+".join(map(re.escape, words)) + ")"


def _inside(span, other):
    return span != other and other[0] <= span[0] and span[1] <= other[1]


def _is_whole(name, start, end):
    """Whether a piece of a name is a whole word or number, not a part of one."""
    piece = name[start:end]
    before, after = name[start - 1 : start], name[end : end + 1]
    if not any(map(str.isalnum, piece)):  # classes such as "+": between other separators only
        return not (before.strip("_ (=") or after.strip("_ )|"))
    if (before and _joined(before, piece[0])) or (after and _joined(piece[-1], after)):
        return False
    if piece[0].isdigit() and before in ("-", "."):  # the 1 of -1 and of 0.1
        stands = name[: start - 1]
        return bool(stands) and stands[-1].isalpha()
    return True


def _joined(left, right):
    """Whether two neighbours belong to one word or number; "probChurn" holds two words."""
    if left.isdigit() or right.isdigit():
        return left.isdigit() and right.isdigit()
    return left.isalpha() and right.isalpha() and not (left.islower() and right.isupper())


def _words(text):
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return re.findall(r"[^\W\d_]+|\d+", text.casefold())


def _only_words(name, span):
    """Whether the rest of a name is words for a probability."""
    rest = [*_words(name[: span[0]]), *_words(name[span[1] :])]
    return _KNOWN.issuperset(rest)


def _is_weak(name, span):
    """Whether the name of a class may mean something else: a running number, a word such as "p"."""
    piece = _words(name[slice(*span)])
    rest = [*_words(name[: span[0]]), *_words(name[span[1] :])]
    if piece and all(word.isdigit() for word in piece):
        if name[span[0]] in "+-":  # p-1: a sign, or a dash
            return name[: span[0]][-1:].isalpha()
        return not set(rest) & _NUMBERED
    return bool(piece) and set(piece) <= PROBABILITY | FORECAST | _LINKS and piece != ["risk"]


def _is_generic(words):
    if not words:
        return True
    return _KNOWN.issuperset(words) and not _LINKS.issuperset(words)


def _is_foreign_number(words):
    """Whether a name is that of a class with a number which is none of the classes."""
    numbers = [word for word in words if word.isdigit()]
    rest = [word for word in words if not word.isdigit()]
    return len(numbers) == 1 and (not rest or set(rest) <= _NUMBERED | _LINKS)


def match_names(names, classes):
    """Names of columns, and classes that must be among them -> the class of each column.

    Names match as they are, or between a common prefix and a common suffix, in the
    letter case of the classes if that is possible. A list with the place of a class or, for a
    column that names none of them, the name without prefix and suffix; None if there is no such
    reading, or more than one.
    """
    names = [str(name).strip() for name in names]
    for key in (str, str.casefold, _separated):
        places = {}
        for place, label in enumerate(classes):
            for form in forms(label):
                places.setdefault(key(form), set()).add(place)
        first = [key(form) for form in forms(classes[0])]
        keyed = [key(name) for name in names]
        found = []
        for prefix, suffix in _affixes(keyed, first):
            cores = [_core(name, prefix, suffix) for name in keyed]
            if None in cores:
                continue
            reading = [_only(places.get(core), core) for core in cores]
            hits = [place for place in reading if isinstance(place, int)]
            if sorted(hits) != list(range(len(classes))):
                continue
            if not prefix and not suffix:
                return reading
            if reading not in found:
                found.append(reading)
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _only(places, core):
    """The place of the one class of this name; otherwise the name."""
    return next(iter(places)) if places is not None and len(places) == 1 else core


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


def _separated(name):
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_")


def is_numbering(names):
    """Whether columns are only numbered, from 0 or 1: such names are not classes."""
    ends = [re.fullmatch(r"(.*?)(\d+)", str(name).strip()) for name in names]
    if not all(ends) or len({end[1] for end in ends}) > 1:
        return False
    counted = [int(end[2]) for end in ends]
    return counted in (list(range(len(ends))), list(range(1, len(ends) + 1)))
