"""Where a forecast is wrong, and for whom, in words."""

from skcalib.report._numbers import bound, pvalue
from skcalib.report.places import N_PLACES, worst_places


def grouping(found):
    """What calibration cannot see, and whom it concerns."""
    if found.grouping_loss is None:
        return [f"Grouping loss was not estimated: {found.note}"]
    size = f"{bound(found.grouping_loss)}, {pvalue(found.pvalue)}"
    if found.detected and not found.by_trees:
        could_not = "do not find them" if found.categories else "could not name them"
        second = f"{bound(found.second.grouping_loss)}, {pvalue(found.second.pvalue)}"
        return [
            "Beyond calibration, there are groups that the same score treats differently: a model "
            f"of all features finds them (grouping loss at least {second}). No recalibration "
            f"removes that; a better model can. Trees {could_not} (their lower bound: {size}).",
            *map(region, found.categories),
        ]
    if not found.detected and _some_test_rejects(found):
        return [
            "The features seem to tell groups that the same score treats differently, but how much "
            f"that costs cannot be said yet (lower bound of the grouping loss: {_both(found)})."
        ]
    if not found.detected:
        by = ", by trees nor by a model of all features" if found.second is not None else ""
        return [
            f"No groups were found that the same score treats differently{by} (lower bound of the "
            f"grouping loss: {_both(found)})."
        ]
    told = [
        "Beyond calibration: the same score means different things for different groups (grouping "
        f"loss at least {size}). No recalibration removes that; a better model can."
    ]
    return told + [region(worst) for worst in found.categories + found.regions]


def _some_test_rejects(found):
    return found.pvalue < 0.05 or (found.second is not None and found.second.pvalue < 0.05)


def _both(found):
    """The bounds of both looks."""
    trees = f"{bound(found.grouping_loss)}, {pvalue(found.pvalue)}"
    if found.second is None:
        return trees
    model = f"{bound(found.second.grouping_loss)}, {pvalue(found.second.pvalue)}"
    return f"trees {trees}; model {model}"


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
