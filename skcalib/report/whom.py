"""Where a forecast is wrong, and for whom, in words."""

from skcalib.report._numbers import interval, pvalue
from skcalib.report.places import N_PLACES, worst_places


def grouping(found):
    """What calibration cannot see, and whom it concerns."""
    if found.grouping_loss is None:
        return [f"Grouping loss was not estimated: {found.note}"]
    size = f"{interval(found.grouping_loss)}, {pvalue(found.pvalue)}"
    if not found.detected and found.pvalue < 0.05:
        return [
            "The features seem to tell groups that the same score treats differently, but how much "
            f"that costs cannot be said yet (lower bound of the grouping loss: {size})."
        ]
    if not found.detected:
        nothing = "; a bound below zero says nothing" if found.grouping_loss.estimate < 0 else ""
        return [
            "No groups were found that the same score treats differently (lower bound of the "
            f"grouping loss: {size}{nothing})."
        ]
    told = [
        "Beyond calibration: the same score means different things for different groups (grouping "
        f"loss at least {size}). No recalibration removes that; a better model can."
    ]
    return told + [region(worst) for worst in found.regions]


def region(found):
    """One region in words."""
    promises = "too much" if found.gap > 0 else "too little"
    return (
        f"Where {found.rule}, a score of {found.mean_score:.3f} promises {promises}: "
        f"{came_true(found)} came true ({found.n_samples:,} samples)."
    )


def places(findings):
    """The ranges of scores and the classes that are wrong beyond chance, in words."""
    told = [
        place_in_words(place)
        for kind in ("scores", "class")
        for place in worst_places(findings.places, kind, N_PLACES)
    ]
    if told:
        return told
    return ["No range of scores and no class is off beyond chance."]


def place_in_words(place):
    """One place: what was promised there, and what came true."""
    return (
        f"{place.where[0].upper() + place.where[1:]}: promised {place.mean_score:.3f} on average, "
        f"came true {came_true(place)} ({place.n_samples:,} samples)."
    )


def came_true(place):
    """How often it came true, with its interval."""
    return f"{place.mean_outcome:.3f} [{place.low:.3f}, {place.high:.3f}]"
