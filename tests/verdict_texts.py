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
    missing = re.search(r".{0,40}\b(?:nan|NaN|None)\b.{0,40}", text)
    sentences = [f"nan or None: {missing[0]}"] if missing else []
    for line in _logical_lines(text):
        in_points, in_percent = (
            [value_of(v) for match in pattern.finditer(line) for v in match.groups() if v]
            for pattern in (_POINTS, _PERCENT)
        )
        outside = any(not 0 <= value <= 100 for value in in_percent)
        faults = [
            ("more than 100 points", any(abs(value) > 100 for value in in_points)),
            ("less than 0 % or more than 100 %", outside and not _SIGNED.search(line)),
            ("an improvement of 100 %", _COMPLETE.search(line)),
        ]
        for match in _INTERVAL.finditer(line):
            low, high = value_of(match[2]), value_of(match[3])
            before = line[: match.start()]  # what the interval is of: a row, or the words before
            may_be_any = _SIGNED.search(before) or "%" in before[-3:]
            squared = not may_be_any and _SQUARED.search(before)
            rate = not may_be_any and not squared and _RATE.search(before)
            faults += [
                ("an interval the wrong way round", low > high),
                ("a squared error outside [0, 2]", squared and (low < 0 or high > 2)),
                ("a rate outside [0, 1]", rate and (low < 0 or high > 1)),
            ]
        sentences += [f"{fault}: {line}" for fault, is_there in faults if is_there]
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
    headline, direction = report["headline"], report["direction"]
    miscalibrated = report["miscalibrated"]
    verdict, suspicions = " ".join([headline, *report["verdict"]]), report["suspicions"]
    checked = headline.startswith("Check ") and _NOT_READ & set(report["suspicion_kinds"])
    said = {name for name, pattern in _SAYS.items() if pattern.search(headline)}
    expected, opposite = {direction} & _SAYS.keys(), _OPPOSITE.get(direction)
    off = [place["label"] for place in report["places"] if place["detected"]]
    faults = {
        f"the input is suspect, the direction {direction}": checked and direction is not None,
        f"miscalibrated is {miscalibrated}, the direction {direction}": (
            not checked and miscalibrated != (direction is not None)
        ),
        "miscalibrated, and no evidence of it": (
            miscalibrated and _NOTHING_FOUND.search(verdict + text)
        ),
        f"the direction is {direction}, the headline: {headline}": (
            said - expected or (expected - said and not suspicions)
        ),
        f"the direction is {direction}, and the verdict says {opposite}": (
            opposite and _SAYS[opposite].search(verdict)
        ),
        f"a suspicion is not told first: {report['verdict'][:1]}": (
            suspicions and report["verdict"][0] != suspicions[0]
        ),
        f"no evidence of miscalibration, and {', '.join(off)} significantly off": (
            off and not miscalibrated
        ),
        **_of_advice(report, verdict),
        **_of_errors(report, verdict),
        **_of_groups(report, verdict),
    }
    return [fault for fault, is_there in faults.items() if is_there]


def _of_advice(report, verdict):
    recommended, advice = report["recommended"], report["advice"]
    losses = {name: report[name] for name in ("log_loss", "brier_score")}
    faults = {
        "the advice is not in the verdict": (
            advice not in report["verdict"] and advice not in verdict
        )
    }
    if recommended is None:
        code = r"\brecalibrated (?:forecasts|predictions)|\brecalibrate (?:with|by)\b"
        said = re.search(rf"{code}|RecalibratedClassifierCV", verdict, re.I)
        after = {name: loss["after"] for name, loss in losses.items()}
        return {
            **faults,
            f"nothing is recommended: {advice}": said,
            f"nothing is recommended, and after it: {after}": any(
                value is not None for value in after.values()
            ),
        }
    return {
        **faults,
        f"{recommended} is recommended: {advice}": (
            recommended not in verdict and not re.search(r"recalibrate", verdict, re.I)
        ),
        f"{recommended} is recommended, and not: {advice}": re.search(
            r"does not help|leave (?:it|them)|not recommended", verdict, re.I
        ),
        f"{recommended} is recommended: {losses}": any(
            loss["after"] is None or not loss["after"] <= loss["before"] for loss in losses.values()
        ),
    }


def _of_errors(report, verdict):
    error = report["typical_error"]["estimate"]
    expected, observed = report["mean_predicted"], report["observed_rate"]["estimate"]
    ratio = report["observed_expected_ratio"]["estimate"]
    side = {"too_high": 1, "too_low": -1}.get(report["direction"], 0)
    contradicting = "none" if error else r"\d"
    return {
        f"the typical error is {error}, and the verdict says another": re.search(
            rf"typical error:? {contradicting}", verdict, re.I
        ),
        f"the ratio {ratio} is not {observed} over {expected}": (
            ratio is not None and expected > 0 and abs(ratio - observed / expected) > 1e-6 * ratio
        ),
        f"{report['direction']}, and {observed} is observed, {expected} predicted": (
            side * (observed - expected) > 0
        ),
    }


def _of_groups(report, verdict):
    named = report["named_groups"]
    rules = [group["rule"] for group in named]
    differ = (
        r"(?:groups|people|samples) with equal scores differ|differs? between groups with equal"
    )
    faults = {
        **{f"said: {words}": True for words in NEVER.findall(verdict)},
        f"{rules} are named, and no group differs": (
            named and re.search(r"no group was found that differs", verdict, re.I)
        ),
        "groups differ, and none is named": not named and re.search(differ, verdict, re.I),
        "groups are not sorted by harm": any(
            a["harm"] < b["harm"] - 1e-12 for a, b in pairwise(named)
        ),
    }
    for group in named:
        low, estimate, high = group["low"], group["estimate"], group["high"]
        faults |= {
            f"{group['rule']}: difference {estimate} has the wrong sign": (
                (estimate > 0) != (group["observed"] > group["expected"])
            ),
            f"{group['rule']} is named, and its interval holds zero": (
                low <= 0 <= high and low < high and low <= estimate <= high
            ),
        }
    return faults
