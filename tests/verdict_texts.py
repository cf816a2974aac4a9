"""What no text of a report may hold: certain words, impossible numbers, contradictions."""

import html
import re
from itertools import pairwise

#: A verdict is read on one screen.
MOST_WORDS = 110

#: Words that are not used, with their inflections.
FORBIDDEN = (
    r"promis(?:e[sd]?|ing)",
    r"c[ao]mes? true",
    r"(?:told|tell|tells|telling) (?:\w+ ){0,3}apart",
    r"(?:a|other|second|several|many|both|these|those) looks?",
    r"(?:a|the|this|that|no|of|its|each|one) finding",
    r"sp(?:eaks?|oke|oken|eaking) of",
    r"at the most",
    r"(?:off|wrong|right|well) beyond chance",
    r"samples (?:that )?\w+ (?:\w+ )?(?:has|have|had) not seen",
    r"seems? to tell (?:\w+ )?groups?",
    r"treat(?:s|ed)? \w+ differently",
    r"treats? differently",
)
#: What no text says: that nothing is there where nothing was found, and limits below zero.
NEVER = re.compile(
    r"\b(?:would|does|will|did) not help\b|\bNo group differs\b|\bat (?:least|most) [-\u2212]\.?\d",
    re.IGNORECASE,
)
_FORBIDDEN = re.compile(r"\b(?:" + "|".join(FORBIDDEN) + r")\b", re.IGNORECASE)


def forbidden_words(text):
    """The forbidden words of a text, each with what is around it."""
    return words_around(_FORBIDDEN, re.sub(r"\s+", " ", text))


def words_around(pattern, text):
    """What a pattern finds in a text, each with what is around it."""
    return [text[max(0, m.start() - 30) : m.end() + 30] for m in pattern.finditer(text)]


def text_of_page(page):
    """The words of a page of HTML, those of alternative texts and titles included."""
    page = re.sub(r"(?s)<(script|style)\b.*?</\1>|<!--.*?-->", " ", page)
    said = re.findall(r"""(?:alt|title|aria-label)=(?:"([^"]*)"|'([^']*)')""", page)
    shown = re.sub(r"<[^>]+>", " ", page)
    return html.unescape(" ".join([shown, *("".join(pair) for pair in said)]))


def n_words(report):
    """Words of the headline and the sentences of a verdict."""
    sentences = [s for s in report["verdict"] if s != report["headline"]]
    return len(" ".join([report["headline"], *sentences]).split())


_NUMBER = r"[-−]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
_POINTS = re.compile(rf"({_NUMBER})(?: (?:to|and) ({_NUMBER}))? (?:percentage )?points\b")
_PERCENT = re.compile(rf"({_NUMBER})(?: (?:to|and) ({_NUMBER}))? ?%")
_INTERVAL = re.compile(rf"({_NUMBER}) ?(?:\[|\((?:95 % CI )?)({_NUMBER})(?:,| to) ({_NUMBER})[\])]")
#: Rows of numbers that may be negative, or beyond one, and of those that are shares of a whole.
_SIGNED = re.compile(
    r"intercept|slope|in the large|skill|scaled Brier|O/E|observed/expected|\bratio|log loss|gain|"
    r"difference|shift|bias|change|gap",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"observed|accuracy|frequency|rate\b|happened|mean confidence|predicted|score", re.IGNORECASE
)
_SQUARED = re.compile(r"calibration (?:error|loss)|grouping|squared|^calibration\b|Brier", re.I)
_COMPLETE = re.compile(
    r"(?:lower|reduc|remov|gain|improv|saves?|explain|better|less)\D{0,40}\b100(?:\.0)? %|"
    r"\b100(?:\.0)? %\)? (?:lower|less|better|of the (?:loss|error))|"
    r"(?<!up )(?:to|->|\u2192) 0\.0+(?![\d.]*[1-9])",
    re.IGNORECASE,
)


def value_of(text):
    return float(text.replace("−", "-").replace(",", ""))


def impossible_numbers(text):
    """Numbers outside their range, line by line, in text as a terminal shows it."""
    sentences = []
    if missing := re.search(r".{0,40}\b(?:nan|NaN|None)\b.{0,40}", text):
        sentences.append(f"nan or None: {missing[0]}")
    for line in _logical_lines(text):
        for match in _POINTS.finditer(line):
            values = [value_of(v) for v in match.groups() if v]
            if max(map(abs, values)) > 100:
                sentences.append(f"more than 100 points: {line}")
        for match in _PERCENT.finditer(line):
            values = [value_of(v) for v in match.groups() if v]
            if not 0 <= min(values) <= max(values) <= 100 and not _SIGNED.search(line):
                sentences.append(f"less than 0 % or more than 100 %: {line}")
        for match in _INTERVAL.finditer(line):
            low, high = value_of(match[2]), value_of(match[3])
            if low > high:
                sentences.append(f"an interval the wrong way round: {line}")
            before = line[: match.start()]  # what the interval is of: a row, or the words before
            if _SIGNED.search(before) or "%" in before[-3:]:
                continue
            if _SQUARED.search(before):
                if low < 0 or high > 2:
                    sentences.append(f"a squared error outside [0, 2]: {line}")
            elif _RATE.search(before) and (low < 0 or high > 1):
                sentences.append(f"a rate outside [0, 1]: {line}")
        if _COMPLETE.search(line):
            sentences.append(f"an improvement of 100 %: {line}")
    return list(dict.fromkeys(sentences))


def _logical_lines(text):
    """Lines, those that are indented deeper joined to what they continue."""
    lines = []
    for line in text.splitlines():
        if lines and re.match(r"^ {4,}\S", line):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.strip())
    return lines


_SAYS = {
    "too_high": re.compile(r"predictions are too high", re.I),
    "too_low": re.compile(r"predictions are too low", re.I),
    "too_extreme": re.compile(r"over-?confident|too extreme", re.I),
    "too_moderate": re.compile(r"under-?confident|not extreme enough", re.I),
    "class_shift": re.compile(r"classes? (?:is|are) predicted too (?:often|rarely|seldom)", re.I),
    "uneven": re.compile(r"uneven|no single range", re.I),
}
_OPPOSITE = {
    "too_high": "too_low",
    "too_low": "too_high",
    "too_extreme": "too_moderate",
    "too_moderate": "too_extreme",
}
#: Suspicions with which the direction of the forecasts as they are has no meaning.
_NOT_READ = {"other_class", "column_order", "percent_scale", "label_order", "absent_class",
             "repeated_rows"}  # fmt: skip
_NOTHING_FOUND = re.compile(r"no evidence of miscalibration", re.I)


def contradictions(report, text=""):
    """Pairs of statements of one report that cannot both hold; `report` is its dictionary."""
    told = []
    headline, direction = report["headline"], report["direction"]
    verdict = " ".join([headline, *report["verdict"]])
    checked = headline.startswith("Check ") and _NOT_READ & set(report["suspicion_kinds"])
    if checked and direction is not None:
        told.append(f"the input is suspect, the direction {direction}")
    if not checked and report["miscalibrated"] != (direction is not None):
        told.append(f"miscalibrated is {report['miscalibrated']}, the direction {direction}")
    if report["miscalibrated"] and _NOTHING_FOUND.search(verdict + text):
        told.append("miscalibrated, and no evidence of it")
    for name, pattern in _SAYS.items():
        if name == direction and not pattern.search(headline) and not report["suspicions"]:
            told.append(f"the direction is {name}, the headline: {headline}")
        if name != direction and pattern.search(headline):
            told.append(f"the direction is {direction}, the headline: {headline}")
    if direction in _OPPOSITE and _SAYS[_OPPOSITE[direction]].search(verdict):
        told.append(f"the direction is {direction}, and the verdict says {_OPPOSITE[direction]}")
    if report["suspicions"] and report["verdict"][0] != report["suspicions"][0]:
        told.append(f"a suspicion is not told first: {report['verdict'][0]}")
    off = [place["label"] for place in report["places"] if place["detected"]]
    if off and not report["miscalibrated"]:
        told.append(f"no evidence of miscalibration, and {', '.join(off)} significantly off")
    told += _of_advice(report, verdict) + _of_errors(report, verdict) + _of_groups(report, verdict)
    return told


def _of_advice(report, verdict):
    told = []
    losses = [(name, report[name]["before"], report[name]["after"]) for name in ("log_loss",
              "brier_score")]  # fmt: skip
    if report["advice"] not in report["verdict"] and report["advice"] not in verdict:
        told.append("the advice is not in the verdict")
    if report["recommended"] is None:
        told += [f"nothing is recommended, {n} after {a}" for n, _, a in losses if a is not None]
        if re.search(r"\brecalibrated (?:forecasts|predictions)|\brecalibrate (?:with|by)\b|"
                     r"RecalibratedClassifierCV", verdict, re.I):  # fmt: skip
            told.append(f"nothing is recommended: {report['advice']}")
        return told
    if report["recommended"] not in verdict and not re.search(r"recalibrate", verdict, re.I):
        told.append(f"{report['recommended']} is recommended: {report['advice']}")
    if re.search(r"does not help|leave (?:it|them)|not recommended", verdict, re.I):
        told.append(f"{report['recommended']} is recommended, and not: {report['advice']}")
    for name, before, after in losses:
        if after is None or not after <= before:
            told.append(f"{report['recommended']} is recommended: {name} {before} -> {after}")
    return told


def _of_errors(report, verdict):
    told = []
    error = report["typical_error"]
    contradicting = "none" if error["estimate"] else r"\d"
    if re.search(rf"typical error:? {contradicting}", verdict, re.I):
        told.append(f"the typical error is {error['estimate']}, and the verdict says another")
    expected, observed = report["mean_predicted"], report["observed_rate"]["estimate"]
    ratio = report["observed_expected_ratio"]["estimate"]
    if ratio is not None and expected > 0 and abs(ratio - observed / expected) > 1e-6 * ratio:
        told.append(f"the ratio {ratio} is not {observed} over {expected}")
    side = {"too_high": 1, "too_low": -1}.get(report["direction"], 0)
    if side * (observed - expected) > 0:
        told.append(f"{report['direction']}, and {observed} is observed, {expected} predicted")
    return told


def _of_groups(report, verdict):
    told = [f"said: {words}" for words in NEVER.findall(verdict)]
    named = report["named_groups"]
    none = re.search(r"no group was found that differs", verdict, re.I)
    if named and none:
        told.append(f"{named[0]['rule']} is named, and no group differs")
    if not named and re.search(r"(?:groups|people|samples) with equal scores differ|"
                               r"differs? between groups with equal", verdict, re.I):  # fmt: skip
        told.append("groups differ, and none is named")
    if any(a["harm"] < b["harm"] - 1e-12 for a, b in pairwise(named)):
        told.append("groups are not sorted by harm")
    for group in named:
        low, estimate, high = group["low"], group["estimate"], group["high"]
        if (estimate > 0) != (group["observed"] > group["expected"]):
            told.append(f"{group['rule']}: difference {estimate} has the wrong sign")
        if low <= 0 <= high and low < high and low <= estimate <= high:
            told.append(f"{group['rule']} is named, and its interval holds zero")
    return told
