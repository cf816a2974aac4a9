"""What a report claims, held to the truth of its world."""

import re
import warnings
from dataclasses import dataclass

import numpy as np
import verdict_texts as texts
from verdict_texts import value_of
from verdict_truth import NIL, Truth, rows_of_place
from verdict_worlds import columns

from skcalib.recalibration import StackedRecalibrator
from skcalib.recalibration.held_out import default_candidates

#: Standard errors by which a recommended map must be worse to be a wrong advice.
_NOISE = 4.0
#: Share of the Brier score that an infinite log loss which becomes finite outweighs.
_OUTWEIGHED = 0.01

_NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
_MISSED_ERROR = re.compile(rf"errors?[^.]* of up to {_NUMBER} points? could be missed")
_MISSED_GROUP = re.compile(rf"a group of 10 % would have to differ by about {_NUMBER} points?")
_MISSED_GAIN = re.compile(rf"a gain of up to {_NUMBER} % of the log loss could be missed")
_MEANS = re.compile(rf"mean {_NUMBER} %, observed {_NUMBER} %")
_MORE_SO = re.compile(r"and more so the (higher|lower) they are")


@dataclass(frozen=True)
class Claim:
    """One claim: its kind, whether it is wrong, and in which words."""

    kind: str
    wrong: bool
    said: str
    grave: bool = False


@dataclass(frozen=True)
class Judgement:
    """Claims of a report, what is missing, and which intervals hold the truth."""

    scenario: str
    seed: int
    claims: tuple
    made: dict  # claim of `must` -> whether it was made
    covered: dict  # name of an interval -> whether it holds the truth
    record: dict  # of the report, as `to_dict` gives it

    @property
    def wrong(self):
        """The wrong claims."""
        return [claim for claim in self.claims if claim.wrong]

    @property
    def missing(self):
        """The claims that were not made."""
        return [name for name, is_made in self.made.items() if not is_made]


def judge(scenario, seed, draw, record, shown, truth):
    """The claims of a report: `record` is its dictionary, `shown` its texts by name."""
    claims = [*_numbers(draw, record), *_texts(record, shown), *_suspicions(scenario, record)]
    claims += _sentences(record, truth)
    covered = {}
    if truth is not None:
        claims += [*_direction(record, truth), *_places(draw, record), *_groups(record, truth)]
        claims += _recommended(draw, record, truth)
        covered = _coverage(draw, record, truth)
    made = {key: bool(_is_made(key, record)) for key in scenario.must}
    return Judgement(scenario.name, seed, tuple(claims), made, covered, record)


def _is_made(key, record):
    """Whether a claim of `must` is made."""
    kind, _, word = key.partition(":")
    if kind == "none":
        return not record["miscalibrated"] and record["direction"] is None
    if kind == "suspicion":
        return word in record["suspicion_kinds"]
    if kind == "cause":
        rules = [group["rule"] for group in record["named_groups"][:1]]
        return any(re.search(rf"\b(?:{word})\b", rule) for rule in rules)
    if kind == "event":
        return record["event"] is not None and str(record["event"]) == word
    return {
        "miscalibrated": record["miscalibrated"],
        "recommended": record["recommended"] is not None,
        "leave": record["recommended"] is None,
        "no group": not record["named_groups"],
    }.get(kind, record["direction"] == kind)


def _direction(record, truth):
    if record["miscalibrated"]:
        yield Claim("miscalibrated", truth.calibrated, record["headline"])
    direction = record["direction"]
    if direction is not None:
        grave = truth.is_gravely_false(direction)
        said = f"{direction}: {record['headline']}"
        yield Claim("direction", grave or truth.is_false(direction), said, grave)


def _places(draw, record):
    """Ranges and classes that are said to be off, on the side where they are."""
    pair = Truth(draw).pair
    labels = draw.options.get("labels")
    names = [str(name) for name in (np.unique(draw.y) if labels is None else labels)]
    for place in record["places"]:
        if not place["detected"]:
            continue
        rows, (score, truth) = np.arange(len(draw.y)), pair
        if place["kind"] == "scores":
            rows = rows_of_place(draw, place)
            score, truth = score[rows], truth[rows]
        elif draw.n_classes > 2:
            k = names.index(place["label"])
            score, truth = draw.score[:, k], draw.truth[:, k]
        share = draw.share[rows] / draw.share[rows].sum()
        gap = share @ (score - truth)
        claimed = np.sign(place["mean_score"] - place["mean_outcome"])
        said = f"{place['label']}: {place['mean_score']:.4f}, {place['mean_outcome']:.4f} observed"
        yield Claim("place", gap * claimed < NIL / 10, f"{said}; true gap {gap:+.5f}")
    labels = [place["label"] for place in record["places"] if place["kind"] == "scores"]
    if len(set(labels)) < len(labels):
        yield Claim("number", True, f"two ranges have the same label: {labels}")


def _groups(record, truth):
    """Groups that differ at equal scores, on the side where they do."""
    for group in record["named_groups"]:
        claimed = np.sign(group["observed"] - group["expected"])
        mean, error = truth.difference_of(group["rule"])
        wrong = claimed * mean <= max(4 * error, 10 * NIL)
        said = (
            f"{group['rule']}: observed {group['observed']:.3f}, expected {group['expected']:.3f}"
        )
        yield Claim("group", wrong, f"{said}; true difference {mean:+.4f}")


def _recommended(draw, record, truth):
    """The map, fitted to these samples, on a large sample of the world."""
    name = record["recommended"]
    if name is None:
        return
    world, tried = truth.draw, [*default_candidates(draw.n_classes), StackedRecalibrator()]
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of data that a map separates
        fitted = {type(recalibrator).__name__: recalibrator for recalibrator in tried}[name]
        fitted.fit(draw.matrix, draw.code, sample_weight=draw.weight)
        after = np.asarray(fitted.predict_proba(world.matrix))
    posterior = columns(world.truth)
    bad, told, allowed = False, [], 1e-7
    for loss in (_log_loss, _brier):
        before, then = loss(world.matrix, posterior), loss(after, posterior)
        if not np.isfinite(before).all():  # it was infinite: nothing is worse
            allowed = _OUTWEIGHED * world.share @ _brier(world.matrix, posterior)
            continue
        change = then - before
        mean = world.share @ change
        told.append(f"{mean:+.6f}")
        if np.isfinite(mean):
            error = np.sqrt(world.share**2 @ (change - mean) ** 2)
            bad |= mean > _NOISE * error and mean > allowed
        else:
            bad = True
    yield Claim("recommended", bool(bad), f"{name}: true change of the losses {told}")


def _log_loss(forecast, posterior):
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.where(posterior > 0, posterior * np.log(forecast), 0.0).sum(axis=1)


def _brier(forecast, posterior):
    return (forecast**2 - 2 * forecast * posterior + posterior).sum(axis=1)


def _suspicions(scenario, record):
    required = {key.partition(":")[2] for key in scenario.must if key.startswith("suspicion:")}
    for kind in record["suspicion_kinds"]:
        yield Claim("suspicion", kind not in required | scenario.may, f"suspicion {kind}")
    if len(record["suspicions"]) != len(record["suspicion_kinds"]):
        yield Claim("suspicion", True, f"{len(record['suspicions'])} sentences of suspicions")


def _numbers(draw, record):
    """Numbers of the dictionary that are wrong of the data, or outside their range."""
    rate, ratio, error = (
        record[key] for key in ("observed_rate", "observed_expected_ratio", "typical_error")
    )
    score, outcome = _score_and_outcome(draw)
    expected, observed = draw.share @ score, draw.share @ outcome
    checks = {
        f"mean_predicted is {record['mean_predicted']}, not {expected}": _equal(
            record["mean_predicted"], expected
        ),
        f"the observed rate is {rate['estimate']}, not {observed}": _equal(
            rate["estimate"], observed
        ),
        f"the observed rate is outside its range: {rate}": (
            0 <= rate["low"] <= rate["estimate"] <= rate["high"] <= 1
        ),
        f"the typical error is outside its range: {error}": (
            0 <= (error["low"] or 0) <= (error["estimate"] or 0) <= error["high"] <= 1
        ),
        f"the verdict has {texts.n_words(record)} words": texts.n_words(record) <= texts.MOST_WORDS,
    }
    if ratio["estimate"] is not None:
        held = 0 <= ratio["low"] <= ratio["estimate"] <= ratio["high"]
        checks[f"the ratio is outside its range: {ratio}"] = held
    if draw.n_classes == 2 and record["event"] is None:
        checks["two classes, and no event"] = False
    before = record["log_loss"]["before"]
    with np.errstate(divide="ignore"):
        loss = draw.share @ -np.log(draw.matrix[np.arange(len(draw.y)), draw.code])
    checks[f"the log loss is {before}, not {loss}"] = _equal(before, loss) or (
        not np.isfinite(loss) and not np.isfinite(before)
    )
    for said, holds in checks.items():
        if not holds:
            yield Claim("number", True, said)


def _score_and_outcome(draw):
    if draw.n_classes == 2:
        return draw.score, draw.code
    top = draw.score.argmax(axis=1)
    return draw.score.max(axis=1), draw.code == top


def _equal(value, wanted):
    return bool(np.isclose(value, wanted, rtol=1e-6, atol=1e-9))


def _texts(record, shown):
    for text_name, text in shown.items():
        if text_name.startswith("warning"):
            yield Claim("warning", True, text)
        for words in [*texts.forbidden_words(text), *texts.words_around(texts.NEVER, text)]:
            yield Claim("words", True, f"{text_name}: {words}")
        if text_name != "page":  # a page has no lines
            for line in texts.impossible_numbers(text):
                yield Claim("number", True, f"{text_name}: {line}")
    for pair in texts.contradictions(record, shown.get("first screen", "")):
        yield Claim("contradiction", True, pair)


def _verdict(record):
    sentences = [said for said in record["verdict"] if said != record["headline"]]
    return re.sub(r"\s+", " ", " ".join([record["headline"], *sentences]))


def _rounding(text):
    """Half a unit of the last decimal of a number of percent, as a fraction."""
    return 0.005001 * 10.0 ** -len(text.partition(".")[2])


def _same(text, value):
    """Whether a number of percent, or of points, is this value, rounded."""
    return abs(value_of(text) / 100 - value) <= _rounding(text)


def _sentences(record, truth):
    """Sentences whose words are fixed: whether they stand where they must, and their numbers."""
    said = _verdict(record)
    for name, (needed, pattern, holds) in STATED.items():
        stated = [match.groups() for match in pattern.finditer(said)]
        if not stated and needed(record, said):
            yield Claim("sentence", True, f"not said: {name}: {said}")
        for groups in stated:
            if not holds(record, groups):
                yield Claim("number", True, f"{name}: {groups}: {said}")
    for clause in _MORE_SO.finditer(said):
        if record["direction"] not in ("too_high", "too_low"):
            yield Claim("sentence", True, f"more so, of {record['direction']}: {said}")
        elif truth is not None:
            yield Claim("direction", not truth.grows(clause[1]), clause[0])


def _nothing_found(record, said):
    return not (record["miscalibrated"] or record["suspicions"] or "even large errors" in said)


def _no_group_found(record, said):
    return "No group was found that differs" in said and "too few to find one of 10 %" not in said


def _not_recommended(record, said):
    return "Recalibration is not recommended" in said and "even a large gain" not in said


#: Sentence -> (whether it has to be said, its words, whether its numbers are right).
STATED = {
    "errors of up to X points could be missed": (
        _nothing_found,
        _MISSED_ERROR,
        lambda record, groups: _same(groups[0], record["typical_error"]["high"]),
    ),
    "a group of 10 % would have to differ by about x points": (
        _no_group_found,
        _MISSED_GROUP,
        lambda record, groups: 0 < value_of(groups[0]) <= 100,
    ),
    "a gain of up to X % of the log loss could be missed": (
        _not_recommended,
        _MISSED_GAIN,
        lambda record, groups: 0 < value_of(groups[0]) <= 100,
    ),
    "mean a %, observed b %": (
        lambda record, said: record["direction"] in ("too_high", "too_low"),
        _MEANS,
        lambda record, groups: (
            _same(groups[0], record["mean_predicted"])
            and _same(groups[1], record["observed_rate"]["estimate"])
        ),
    ),
}


def _coverage(draw, record, truth):
    """Which intervals hold the truth of the world."""
    p = truth.pair[1]
    rate = float(truth.draw.share @ p)
    here = Truth(draw).pair[1]
    expected = record["mean_predicted"]
    ratio, error = record["observed_expected_ratio"], record["typical_error"]
    held = {"observed rate": _holds(record["observed_rate"], rate)}
    if ratio["estimate"] is not None:
        held["observed over expected"] = _holds(ratio, float(draw.share @ here) / expected)
    if not record["suspicions"]:
        low = error["low"] or 0.0
        held["typical error"] = bool(low - 1e-9 <= truth.rms <= error["high"] + 1e-9)
    missed = _MISSED_GAIN.search(_verdict(record))
    if missed:
        held["gain that could be missed"] = _gain_is_within(missed, record, truth)
    return held


def _gain_is_within(missed, record, truth):
    """Whether no map, not even the truth, gains more of the log loss than could be missed."""
    world = truth.draw
    posterior = columns(world.truth)
    gain = world.share @ (_log_loss(world.matrix, posterior) - _log_loss(posterior, posterior))
    stated = value_of(missed[1]) / 100 + _rounding(missed[1])
    return bool(gain <= stated * record["log_loss"]["before"])


def _holds(interval, value):
    return bool(interval["low"] - 1e-9 <= value <= interval["high"] + 1e-9)
