"""Every sentence of a comparison: which models are better, and by how much."""

from __future__ import annotations

import numpy as np

from skcalib._util.formatting import interval
from skcalib.report.advice import ties_of
from skcalib.report.findings import HIGHER_IS_BETTER, ROUNDING, Compared
from skcalib.report.wording import short_verdict
from skcalib.stats.means import MeanInterval

QUANTITIES = {
    "log": "Log loss",
    "brier": "Brier score",
    "calibration": "Brier calibration error",
    "refinement": "Brier score after recalibration",
    "errors": "Error rate",
    "kernel": "Squared kernel calibration error",
}
#: The same for decisions at a threshold, or with costs.
OF_DECISIONS = {
    "net_benefit": "Net benefit",
    "cost": "Mean cost of a decision",
    "regret": "Mean cost that recalibration would save",
}


def headline(comparison: Compared) -> str:
    """Which models are best, in one line."""
    predicts, tied, higher = _standing(comparison, "brier")
    calibrated, _, worse = _standing(comparison, "calibration")
    alone = len(higher) == len(comparison.reports) - 1
    best_calibrated = len(worse) == len(comparison.reports) - 1
    best, lowest = ("best", "lowest") if len(comparison.reports) > 2 else ("better", "lower")
    if not higher and not worse:
        return "No significant difference between the models."
    if alone and best_calibrated and predicts == calibrated:
        return f"{predicts} is {best} calibrated and has the {lowest} Brier score."
    parts = []
    if best_calibrated:
        parts.append(f"{calibrated} is {best} calibrated")
    elif worse:
        parts.append(f"{joined(worse)} {'is' if len(worse) == 1 else 'are'} worse calibrated")
    if alone:
        parts.append(f"{predicts} has the {lowest} Brier score")
    elif higher:
        parts.append(f"{joined([predicts, *tied])} have the {lowest} Brier scores")
    if not worse:
        parts.append("calibration does not differ significantly")
    if not higher:
        parts.append("the Brier scores do not differ significantly")
    return f"{'; '.join(parts)}."


def joined(names: list[str]) -> str:
    """A list of names as part of a sentence."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _standing(comparison, quantity):
    """The lowest model, those that do not differ from it significantly, and those above it."""
    best, _ = leader(comparison, quantity)
    others = _against(comparison, quantity, best)
    higher = [name for name, one in others.items() if _is_better(one)]
    return best, [name for name in others if name not in higher], higher


def leader(comparison: Compared, quantity: str) -> tuple[str, bool]:
    """The model with the lowest estimate, and whether all others are significantly higher."""
    against = {name: _against(comparison, quantity, name) for name in comparison.reports}
    for name, others in against.items():
        if all(other.estimate <= 0 for other in others.values()):
            return name, all(map(_is_better, others.values()))
    return next(iter(against)), False  # with rounding errors, no model may be below all others


def ranks(comparison: Compared, quantity: str) -> dict[str, tuple[int, int, int]]:
    """{model: (rank, lowest, highest)}; the last two follow from the simultaneous intervals."""
    found = {}
    for name in comparison.reports:
        others = _against(comparison, quantity, name)
        better = sum(_is_better(_turned(one)) for one in others.values())
        worse = sum(map(_is_better, others.values()))
        rank = 1 + sum(one.estimate > ROUNDING for one in others.values())
        found[name] = rank, 1 + better, len(comparison.reports) - worse
    return found


def sentences(comparison: Compared) -> list[str]:
    """Sentences on each loss, the calibration error, miscalibrated models and decision values."""
    told = ["log", "brier", "calibration"]
    named = {one.quantity for one in comparison.differences}
    told += [one for one in OF_DECISIONS if one in named][:1]
    said = [_best(comparison, quantity) for quantity in told]
    decisions = {name: report.findings.decision for name, report in comparison.reports.items()}
    tied = {name: one for name, one in decisions.items() if one is not None and one.tied}
    if tied:
        shares = ", ".join(f"{100 * one.tied:.2g} % of {name}" for name, one in tied.items())
        said.append(f"{ties_of(next(iter(tied.values())))}: {shares}.")
    off = [
        f"{name} ({short_verdict(report.findings)})"
        for name, report in comparison.reports.items()
        if report.findings.miscalibrated
    ]
    said.append(f"Miscalibrated: {', '.join(off)}." if off else "No evidence of miscalibration.")
    values = [
        name
        for name, report in comparison.reports.items()
        if "decision_values" in [one.kind for one in report.findings.suspicions]
    ]
    if values:
        said.append(
            f"The scores of {joined(values)} are decision values, divided by their spread unless "
            "they are log odds, and passed through the logistic function: losses and calibration "
            "depend on this scale, so compare the losses after recalibration."
        )
    return [one for one in said if one is not None]


def _best(comparison, quantity):
    """Which model is lowest, or highest where more is better, and by how much."""
    best, _ = leader(comparison, quantity)
    others = _against(comparison, quantity, best)
    better = {name: _is_better(one) for name, one in others.items()}
    higher = [f"{name} by {_size_of(one)}" for name, one in others.items() if better[name]]
    level = [name for name in others if not better[name]]
    what, side = QUANTITIES.get(quantity), "below"
    if what is None:
        decision = next(iter(comparison.reports.values())).findings.decision
        at = decision is not None and decision.threshold is not None
        what = OF_DECISIONS[quantity]
        what += f" at the threshold {decision.threshold:g}" if at else ""
        side = "above" if quantity in HIGHER_IS_BETTER else "below"
    parts = [f"{best} is {side} {', '.join(higher)}"] if higher else []
    if level:
        subject = "it" if higher else best
        parts.append(f"{subject} does not differ significantly from {', '.join(level)}")
    return f"{what}: {'; '.join(parts)}." if parts else None


def _against(comparison, quantity, name):
    """Differences of a model minus each of the others; the others minus it where more is better."""
    found, lower = {}, quantity not in HIGHER_IS_BETTER
    for one in comparison.differences:
        if one.quantity == quantity and name in (one.first, one.second):
            other = one.second if one.first == name else one.first
            kept = (one.first == name) == lower
            found[other] = one.difference if kept else _turned(one.difference)
    return found


def _is_better(difference):
    """Whether the first model is significantly below the second, by more than rounding."""
    return difference.high < 0 and difference.estimate < -ROUNDING


def _turned(difference):
    """The same difference with opposite sign."""
    return MeanInterval(
        -difference.estimate, -difference.high, -difference.low, difference.standard_error
    )


def _size_of(difference):
    """How much lower the better model is."""
    if not np.isfinite(difference.estimate):
        return "an infinite amount"
    return interval(_turned(difference))


def pairing(
    level: str, n_pairs: int, *, paired: bool = True, benefit: bool = False, shares: bool = False
) -> str:
    """How differences were computed.

    With `benefit` there are those of the net benefit; with `shares` limits of decisions follow from
    the shares of samples.
    """
    together = f" that hold for all {n_pairs} pairs together" if n_pairs > 1 else ""
    how = f"means over the same samples, first model minus second, with {level} Student intervals"
    how += together
    if not paired:
        how = (
            f"means of the first model minus means of the second, with {level} intervals{together} "
            "whose length is the sum of those of both means"
        )
    sign = "a negative one means that the first model is better"
    sign += ", for the net benefit a positive one" if benefit else ""
    limits = ""
    if shares:
        of = "the net benefit and the costs" if benefit else "the costs"
        limits = f" The limits of {of} follow from exact limits of the shares of samples whose "
        limits += "decision changes."
    return (
        f"Differences are {how}; {sign}.{limits} An interval that excludes zero is significant (*)."
    )
