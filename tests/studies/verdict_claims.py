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
_MISSED_GAIN = re.compile(
    rf"(?:gain|reduction|improvement)(?: of the log loss)?(?: of| by)? up to {_NUMBER}( %)?"
    r"(?: of the log loss)? could be missed"
)
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
    kept: dict  # claim of `must` -> whether it was made
    covered: dict  # name of an interval -> whether it holds the truth
    found: dict

    @property
    def wrong(self):
        """The wrong claims."""
        return [claim for claim in self.claims if claim.wrong]

    @property
    def missing(self):
        """The claims that were not made."""
        return [name for name, made in self.kept.items() if not made]


def judge(scenario, seed, draw, found, shown, truth):
    """The claims of a report: `found` is its dictionary, `shown` its texts by name."""
    claims = [*_numbers(draw, found), *_texts(found, shown), *_suspicions(scenario, found)]
    claims += _sentences(found, truth)
    covered = {}
    if truth is not None:
        claims += [*_direction(found, truth), *_places(draw, found), *_groups(found, truth)]
        claims += _recommended(draw, found, truth)
        covered = _coverage(draw, found, truth)
    kept = {key: bool(_is_made(key, found)) for key in scenario.must}
    return Judgement(scenario.name, seed, tuple(claims), kept, covered, found)


def _is_made(key, found):
    """Whether a claim of `must` is made."""
    kind, _, what = key.partition(":")
    if kind == "none":
        return not found["miscalibrated"] and found["direction"] is None
    if kind == "suspicion":
        return what in found["suspicion_kinds"]
    if kind == "cause":
        rules = [group["rule"] for group in found["named_groups"][:1]]
        return any(re.search(rf"\b(?:{what})\b", rule) for rule in rules)
    if kind == "event":
        return found["event"] is not None and str(found["event"]) == what
    return {
        "miscalibrated": found["miscalibrated"],
        "recommended": found["recommended"] is not None,
        "leave": found["recommended"] is None,
        "no group": not found["named_groups"],
    }.get(kind, found["direction"] == kind)


def _direction(found, truth):
    if found["miscalibrated"]:
        yield Claim("miscalibrated", truth.calibrated, found["headline"])
    direction = found["direction"]
    if direction is not None:
        grave = truth.is_gravely_false(direction)
        said = f"{direction}: {found['headline']}"
        yield Claim("direction", grave or truth.is_false(direction), said, grave)


def _places(draw, found):
    """Ranges and classes that are said to be off, on the side where they are."""
    pair = Truth(draw).pair
    labels = draw.options.get("labels")
    names = [str(name) for name in (np.unique(draw.y) if labels is None else labels)]
    for place in found["places"]:
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
    labels = [place["label"] for place in found["places"] if place["kind"] == "scores"]
    if len(set(labels)) < len(labels):
        yield Claim("number", True, f"two ranges have the same label: {labels}")


def _groups(found, truth):
    """Groups that differ at equal scores, on the side where they do."""
    for one in found["named_groups"]:
        claimed = np.sign(one["observed"] - one["expected"])
        mean, error = truth.difference_of(one["rule"])
        wrong = claimed * mean <= max(4 * error, 10 * NIL)
        said = f"{one['rule']}: observed {one['observed']:.3f}, expected {one['expected']:.3f}"
        yield Claim("group", wrong, f"{said}; true difference {mean:+.4f}")


def _recommended(draw, found, truth):
    """The map, fitted to these samples, on a large sample of the world."""
    name = found["recommended"]
    if name is None:
        return
    world, tried = truth.draw, [*default_candidates(draw.n_classes), StackedRecalibrator()]
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of data that a map separates
        fitted = {type(one).__name__: one for one in tried}[name]
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


def _suspicions(scenario, found):
    required = {key.partition(":")[2] for key in scenario.must if key.startswith("suspicion:")}
    for kind in found["suspicion_kinds"]:
        yield Claim("suspicion", kind not in required | scenario.may, f"suspicion {kind}")
    if len(found["suspicions"]) != len(found["suspicion_kinds"]):
        yield Claim("suspicion", True, f"{len(found['suspicions'])} sentences of suspicions")


def _numbers(draw, found):
    """Numbers of the dictionary that are wrong of the data, or outside their range."""
    rate, ratio, error = (
        found[key] for key in ("observed_rate", "observed_expected_ratio", "typical_error")
    )
    score, outcome = _score_and_outcome(draw)
    expected, observed = draw.share @ score, draw.share @ outcome
    checks = {
        f"mean_predicted is {found['mean_predicted']}, not {expected}": _equal(
            found["mean_predicted"], expected
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
        f"the verdict has {texts.n_words(found)} words": texts.n_words(found) <= texts.MOST_WORDS,
    }
    if ratio["estimate"] is not None:
        held = 0 <= ratio["low"] <= ratio["estimate"] <= ratio["high"]
        checks[f"the ratio is outside its range: {ratio}"] = held
    if draw.n_classes == 2 and found["event"] is None:
        checks["two classes, and no event"] = False
    before = found["log_loss"]["before"]
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


def _texts(found, shown):
    for what, text in shown.items():
        if what.startswith("warning"):
            yield Claim("warning", True, text)
        for words in [*texts.forbidden_words(text), *texts.words_around(texts.NEVER, text)]:
            yield Claim("words", True, f"{what}: {words}")
        if what != "page":  # a page has no lines
            for line in texts.impossible_numbers(text):
                yield Claim("number", True, f"{what}: {line}")
    for pair in texts.contradictions(found, shown.get("first screen", "")):
        yield Claim("contradiction", True, pair)


def _verdict(found):
    sentences = [said for said in found["verdict"] if said != found["headline"]]
    return re.sub(r"\s+", " ", " ".join([found["headline"], *sentences]))


def _rounding(text, unit=100.0):
    """Half a unit of the last decimal of a number, as a fraction of `unit`."""
    return 0.5001 * 10.0 ** -len(text.partition(".")[2]) / unit


def _same(text, value):
    """Whether a number of percent, or of points, is this value, rounded."""
    return abs(value_of(text) / 100 - value) <= _rounding(text)


def _sentences(found, truth):
    """Sentences whose words are fixed: whether they stand where they must, and their numbers."""
    said = _verdict(found)
    for name, (needed, pattern, holds) in STATED.items():
        stated = [match.groups() for match in pattern.finditer(said)]
        if not stated and needed(found, said):
            yield Claim("sentence", True, f"not said: {name}: {said}")
        for groups in stated:
            if not holds(found, groups):
                yield Claim("number", True, f"{name}: {groups}: {said}")
    for more in _MORE_SO.finditer(said):
        if found["direction"] not in ("too_high", "too_low"):
            yield Claim("sentence", True, f"more so, of {found['direction']}: {said}")
        elif truth is not None:
            yield Claim("direction", not truth.grows(more[1]), more[0])


def _nothing_found(found, said):
    return not (found["miscalibrated"] or found["suspicions"] or "even large errors" in said)


def _no_group_found(found, said):
    return "No group was found that differs" in said and "too few to find one of 10 %" not in said


def _not_recommended(found, said):
    return "Recalibration is not recommended" in said and "even a large gain" not in said


#: Sentence -> (whether it has to be said, its words, whether its numbers are right).
STATED = {
    "errors of up to X points could be missed": (
        _nothing_found,
        _MISSED_ERROR,
        lambda found, groups: _same(groups[0], found["typical_error"]["high"]),
    ),
    "a group of 10 % would have to differ by about x points": (
        _no_group_found,
        _MISSED_GROUP,
        lambda found, groups: 0 < value_of(groups[0]) <= 100,
    ),
    "a gain of up to X % of the log loss could be missed": (
        _not_recommended,
        _MISSED_GAIN,
        lambda found, groups: 0 < value_of(groups[0]) <= (100 if groups[1] else np.inf),
    ),
    "mean a %, observed b %": (
        lambda found, said: found["direction"] in ("too_high", "too_low"),
        _MEANS,
        lambda found, groups: (
            _same(groups[0], found["mean_predicted"])
            and _same(groups[1], found["observed_rate"]["estimate"])
        ),
    ),
}


def _coverage(draw, found, truth):
    """Which intervals hold the truth of the world."""
    p = truth.pair[1]
    rate = float(truth.draw.share @ p)
    here = Truth(draw).pair[1]
    expected = found["mean_predicted"]
    ratio, error = found["observed_expected_ratio"], found["typical_error"]
    held = {"observed rate": _holds(found["observed_rate"], rate)}
    if ratio["estimate"] is not None:
        held["observed over expected"] = _holds(ratio, float(draw.share @ here) / expected)
    if not found["suspicions"]:
        low = error["low"] or 0.0
        held["typical error"] = bool(low - 1e-9 <= truth.rms <= error["high"] + 1e-9)
    missed = _MISSED_GAIN.search(_verdict(found))
    if missed:
        held["gain that could be missed"] = _gain_is_within(missed, found, truth)
    return held


def _gain_is_within(missed, found, truth):
    """Whether no map, not even the truth, gains more of the log loss than could be missed."""
    world = truth.draw
    posterior = columns(world.truth)
    gain = world.share @ (_log_loss(world.matrix, posterior) - _log_loss(posterior, posterior))
    stated, before = value_of(missed[1]), 1.0
    if missed[2]:  # a share of the loss
        stated, before = stated / 100, found["log_loss"]["before"]
    return bool(gain <= (stated + _rounding(missed[1], 100 if missed[2] else 1)) * before)


def _holds(interval, value):
    return bool(interval["low"] - 1e-9 <= value <= interval["high"] + 1e-9)
