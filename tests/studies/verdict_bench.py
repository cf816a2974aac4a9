"""The bench of verdicts: reports of scenarios whose truth is known, claim by claim."""

import tempfile
import warnings
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import binom
from verdict_claims import judge
from verdict_scenarios import SCENARIOS, built_in_directions
from verdict_texts import text_of_page
from verdict_truth import LARGE, Truth
from verdict_worlds import Decisions

from skcalib import CalibrationReport
from skcalib.cli.commands import report_of_files
from skcalib.cli.parser import make_parser
from skcalib.links.logits import LogitScale

#: Of all claims, this share may be wrong; of the verdicts of a scenario, this share.
MOST_WRONG = 0.01
MOST_FALSE_VERDICTS = 0.05
#: All scenarios by name, those of the forty directions included.
EVERY = {**SCENARIOS, **built_in_directions()}


@cache
def truth_of(name):
    """The truth of a world, by a large draw; None where there is none."""
    draw = EVERY[name].draw(LARGE, np.random.default_rng(10_000))
    return None if draw.truth is None else Truth(draw)


def draw_of(name, seed):
    """The data set of a scenario and a seed, whatever other scenarios there are."""
    scenario = EVERY[name]
    rng = np.random.default_rng([seed, *name.encode()])
    draw = scenario.draw(scenario.n_samples, rng)
    if scenario.by != "decision values":
        return draw
    # In the unit of decision values, which is then 1: the report leaves these as they are.
    margins = logit(draw.p)[:, None] / 2 * [-1, 1]
    score = expit(np.diff(LogitScale.of(margins).logits(margins))[:, 0])
    return replace(draw, p=score, score=score)


def report_of(name, draw):
    """The report of a data set, made as its scenario says."""
    by = EVERY[name].by
    options = {"name": "model", **draw.options}
    if by == "predictions":
        return CalibrationReport.from_predictions(
            draw.y, draw.p, draw.X, sample_weight=draw.weight, **options
        )
    if by == "decision values":
        values = logit(draw.p)[:, None]
        model = Decisions().fit(values, draw.y)
        return CalibrationReport.from_estimator(model, values, draw.y, name="model")
    if by.startswith("frame:"):
        frame = pd.DataFrame({by.removeprefix("frame:"): draw.p})
        return CalibrationReport.from_predictions(draw.y, frame, name="model")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.csv"
        pd.DataFrame({"label": draw.y, by: draw.p}).to_csv(file, index=False)
        return report_of_files(make_parser().parse_args(["report", str(file)]), False)


def texts_of(report, page=False):
    """All that a user reads of a report."""
    shown = {
        "first screen": str(report),
        "details": report.to_text(details=True),
        "repr": repr(report),
    }
    if page:
        with tempfile.TemporaryDirectory() as folder:
            path = report.to_html(Path(folder) / "page.html")
            shown["page"] = text_of_page(Path(path).read_text(encoding="utf-8"))
    return shown


def run(name, seed, page=False):
    """A scenario and a seed -> `Judgement`."""
    draw = draw_of(name, seed)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        report = report_of(name, draw)
        record, shown = report.to_dict(), texts_of(report, page)
    shown |= {f"warning {k}": str(warning.message) for k, warning in enumerate(warned)}
    return judge(EVERY[name], seed, draw, record, shown, truth_of(name))


def run_all(names, seeds, page=False):
    """Every scenario with every seed."""
    return [run(name, seed, page) for name in names for seed in seeds]


def wrong_rate(judgements):
    """Wrong claims, and claims; a verdict without any counts as one: that nothing was found."""
    wrong = sum(len(judgement.wrong) for judgement in judgements)
    return wrong, sum(max(1, len(judgement.claims)) for judgement in judgements)


def accused(judgement):
    """Whether a verdict has a wrong claim about the forecasts, its groups or its advice.

    Sentences that are not as they must be, or numbers outside their range, accuse nobody.
    """
    kinds = ("miscalibrated", "direction", "place", "group", "recommended", "suspicion")
    return any(claim.kind in kinds for claim in judgement.wrong)


def _beyond_chance(counts, level):
    """Of name -> (k, n, share), those of which chance does not explain k of n by that share."""
    return [
        f"{name}: {k} of {n}, at most {share:.1%} expected"
        for name, (k, n, share) in counts.items()
        if k and binom.sf(k - 1, n, share) < level
    ]


def too_often_false(judgements, level=1e-3):
    """Whether more claims, or more verdicts of a scenario, are false than may be, beyond chance.

    At most `MOST_WRONG` of all claims; in each scenario, at most `MOST_FALSE_VERDICTS` of the
    verdicts may have one, and at most so many of all verdicts.
    """
    false = Counter(judgement.scenario for judgement in judgements if accused(judgement))
    verdicts = Counter(judgement.scenario for judgement in judgements)
    counts = {name: (false[name], n, MOST_FALSE_VERDICTS) for name, n in verdicts.items()}
    counts["all claims"] = *wrong_rate(judgements), MOST_WRONG
    counts["all verdicts"] = false.total(), verdicts.total(), MOST_FALSE_VERDICTS
    return _beyond_chance(counts, level)


def too_often_missing(judgements, level=1e-3):
    """Claims that were made less often than they must, beyond chance, and all of them together."""
    made = {}
    for judgement in judgements:
        for key, answers in judgement.made.items():
            made.setdefault((judgement.scenario, key), []).append(answers)
    counts = {
        f"{name}: {key} missing": (answers.count(False), len(answers), 1 - EVERY[name].must[key])
        for (name, key), answers in made.items()
    }
    missed, total = (sum(count[k] for count in counts.values()) for k in (0, 1))
    expected = sum(n * share for _, n, share in counts.values())
    counts["all claims missing"] = missed, total, expected / max(total, 1)
    return _beyond_chance(counts, level)


def coverage(judgements):
    """{interval: (data sets whose truth it holds, data sets)}."""
    held = {}
    for judgement in judgements:
        for name, holds in judgement.covered.items():
            held.setdefault(name, []).append(holds)
    return {name: (sum(values), len(values)) for name, values in held.items()}


def details(judgements):
    """Each wrong and each missing claim with its scenario and seed."""
    lines = []
    for judgement in judgements:
        where, record = f"[{judgement.scenario}, seed {judgement.seed}]", judgement.record
        for claim in judgement.wrong:
            kind = "GRAVELY WRONG" if claim.grave else "wrong"
            lines.append(f"{where} {kind} {claim.kind}: {claim.said}")
        for key in judgement.missing:
            made = f"direction {record['direction']}, recommended {record['recommended']}"
            lines.append(f"{where} missing {key}: {made}, {record['headline']}")
        for name in (name for name, holds in judgement.covered.items() if not holds):
            truth = truth_of(judgement.scenario).rms
            error = f"typical error {record['typical_error']}, truth {truth:.4f}"
            lines.append(f"{where} not covered: {name}, {error}")
    return lines
