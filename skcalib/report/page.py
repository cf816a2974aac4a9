"""The page of a report or a comparison: the first screen, and the sections below it.

Each section is one function: its sentences, its table and its figures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state

from skcalib._util.formatting import (
    common_spread,
    interval,
    level_text,
    nonnegative,
    number,
    numbers,
    points_between,
    printable,
    pvalue,
    pvalue_text,
    rate_interval_text,
    rates,
)
from skcalib.displays import GroupCalibrationDisplay, GroupingDisplay, ReliabilityDisplay
from skcalib.displays.base import bin_edges, binary_problems, histogram_scale, scale_panels
from skcalib.displays.groups import strongest
from skcalib.displays.reliability import check_options, reliability_curves
from skcalib.report.advice import advice_on_maps, line_of_code, recalibrator_name
from skcalib.report.findings import (
    N_NAMED,
    TEST_LEVEL,
    Reported,
    class_label,
    collected_warnings,
    event_name,
    place_level,
    shorten,
    versions,
)
from skcalib.report.rendering import (
    Bar,
    Document,
    Heading,
    Key,
    Part,
    Picture,
    Pictures,
    Points,
    Row,
    Section,
    Table,
    Text,
    Tile,
)
from skcalib.report.wording import (
    OF_DECISIONS,
    QUANTITIES,
    bounds_by_features,
    headline,
    headline_of_comparison,
    observed_expected,
    ranks,
    sentence_on_groups,
    sentences,
    sentences_of_comparison,
    short_verdict,
    sizes,
    tone,
    typical_error,
)

if TYPE_CHECKING:
    from skcalib.report.findings import Compared, ErrorFinding, Findings


#: Most classes in a table, the most harmful first.
MOST_CLASSES = 20
LOSS_NAMES = {"brier": "Brier score", "log": "Log loss"}
NOTION_NAMES = {
    "canonical": "all classes",
    "top_label": "top label",
    "classwise": "mean over classes",
}


def report_page(report: Reported) -> Document:
    """`Reported` -> `Document`."""
    findings, recommended = report.findings, report.findings.advice.recommended
    code = ""
    if recommended is not None:
        classes = report.problem.classes.tolist()
        code = line_of_code(recommended, report.source, is_frozen=report.is_frozen, classes=classes)
    accuracy = findings.accuracy
    ends = rate_interval_text(accuracy.low, accuracy.high, accuracy.estimate)
    quality = f", accuracy {rates(accuracy.estimate)[0]} {ends}"
    for reported in findings.reported:
        if reported.key == "auc" and reported.value is not None:
            quality = f", AUC {interval(reported.value)}"
    sections = [
        _ranges(report),
        *([_classes(report)] if findings.n_classes > 2 else []),
        *([] if findings.grouping is None else [_groups(report)]),
        *([] if findings.by is None else [_named_groups(report)]),
        _maps(findings),
        loss_parts(report),
        _tests(findings),
        _reported_numbers(report),
        Section("Method", (Points(method(report)),)),
    ]
    return Document(
        title=f"Calibration report: {report.name}",
        subtitle=_subtitle(findings, quality),
        headline=headline(findings),
        verdict=tuple(sentences(findings)),
        in_tiles=tuple(sizes(findings)),
        tone=tone(findings),
        tiles=_tiles(findings),
        opening=(_reliability_figure(report),),
        code=code,
        sections=tuple(sections),
    )


# --- The first screen -----------------------------------------------------------------------------


def _subtitle(findings, quality=""):
    """Samples, events or classes, and how well the model discriminates."""
    weighted = findings.effective_size < findings.n_samples * (1 - 1e-9)
    effective = f" (effective size {findings.effective_size:,.0f})" if weighted else ""
    classes = f"{findings.n_classes} classes"
    if findings.n_classes == 2:
        classes = f"{findings.n_events:,} of them {event_name(findings)} (the event)"
    return (
        f"{findings.n_samples:,} samples{_clusters(findings)}{effective}, {classes}{quality}. "
        f"Brackets: {level_text(findings.confidence_level)} intervals."
    )


def _clusters(findings):
    return "" if findings.n_clusters is None else f" in {findings.n_clusters:,} clusters"


def _signed_points(difference):
    """A difference of probabilities with its interval."""
    values = (difference.low, difference.estimate, difference.high)
    low, middle, high = (f"{100 * value:+z.1f}" for value in values)
    return f"{middle} points [{low}, {high}]"


def _tiles(findings):
    """Predicted against observed, the typical error, and what recalibration would change."""
    predicted, observed = rates(findings.mean_predicted, findings.observed_rate.estimate)
    averages = (predicted, findings.predicted_name), (observed, findings.observed_name)
    if findings.n_classes > 2:
        note = f"difference {_signed_points(findings.confidence_gap)}"
    else:
        note, ratio = f"rate of {event_name(findings)}", findings.observed_expected_ratio
        note += "" if ratio is None else f"; {observed_expected(ratio)}"
    name, (size, of_size) = f"typical error{findings.of_confidence}", typical_error(findings)
    error = Tile(((size, name),), of_size)
    if findings.input_is_suspect:
        error = Tile((("Unknown", name),), "check the input first")
    elif not findings.miscalibrated:
        error = Tile((("No error", "detected"),), f"{size} could be missed ({of_size})")
    losses, recommended = findings.advice.log_loss, findings.advice.recommended
    (before,) = numbers(losses["before"])
    gain = Tile(((before, "log loss"),), "no recalibration recommended")
    if recommended is not None:
        change = " -> ".join(numbers(losses["before"], losses["after"]))
        applied = f"cross-validated, after {recalibrator_name(recommended)}"
        gain = Tile(((change, "log loss"),), applied)
    return Tile(averages, note), error, gain


# --- Ranges and classes ---------------------------------------------------------------------------


def _ranges(report):
    """The table of ranges of scores."""
    findings = report.findings
    places = [place for place in findings.places if place.kind == "scores"]
    caption = "Mean confidence and accuracy by range of confidence"
    if findings.n_classes == 2:
        event = event_name(findings)
        caption = f"Predicted and observed probability of {event} by range of scores"
    level = level_text(place_level(report.confidence_level))
    table = Table(
        f"{caption}. Simultaneous {level} intervals (*: significant).",
        ("Range", "samples", findings.predicted_name, findings.observed_name, "interval"),
        tuple(
            Row(
                (place.label, f"{place.n_samples:,}", *_rates_of_place(place, places)),
                marked=(3,) if findings.is_off(place) else (),
            )
            for place in places
        ),
        compact=True,
    )
    note = "The ranges are about equally informative: equal sums of p (1 - p)."
    return Section("By range of scores", (table, Text(note, soft=True)))


def _rates_of_place(place, places):
    column = [rate for row in places for rate in (row.mean_score, row.mean_outcome)]
    both = rates(place.mean_score, place.mean_outcome, distinct=False, column=column)
    return (*both, rate_interval_text(place.low, place.high, *column))


def _classes(report):
    """The table of classes, that of confused pairs, and diagrams of miscalibrated classes."""
    findings = report.findings
    places = [place for place in findings.places if place.kind == "class"]
    shown = places
    level = level_text(place_level(report.confidence_level))
    caption = (
        "Mean predicted probability and observed frequency of each class. "
        f"Simultaneous {level} intervals (*: significant)."
    )
    if len(places) > MOST_CLASSES:
        shown = sorted(places, key=lambda place: (not place.detected, -place.squared_gap))
        shown = shown[:MOST_CLASSES]
        caption += f" The {len(shown)} of {len(places):,} classes with the largest differences."
    rows = [
        Row(
            (class_label(place.label), *_rates_of_place(place, shown)),
            marked=(2,) if findings.is_off(place) else (),
        )
        for place in shown
    ]
    head = ("Class", "predicted", "observed", "interval")
    blocks = [Table(caption, head, tuple(rows), compact=True)]
    if findings.confusions:
        blocks.append(_confusions(findings))
    return Section("By class", (*blocks, *_class_figures(report)))


def _confusions(findings):
    """The table of pairs of classes that are confused."""
    rows = []
    for pair in findings.confusions:
        observed = pair.observed
        ends = rate_interval_text(observed.low, observed.high, observed.estimate)
        names = class_label(pair.predicted), class_label(pair.other)
        score = rates(pair.at_least, pair.mean_score, observed.estimate, distinct=False)
        rows.append(Row((*names, *score, ends), note=f"{pair.n_samples:,} samples", marked=(4,)))
    return Table(
        "Pairs of classes: where the first is predicted with at least this probability, mean "
        "probability and observed frequency of the second. Simultaneous "
        f"{level_text(findings.confidence_level)} intervals.",
        ("Predicted", "other class", "at least", "predicted", "observed", "interval"),
        tuple(rows),
        compact=True,
    )


# --- Groups ---------------------------------------------------------------------------------------


def _groups(report):
    """Groups that differ at equal scores, the figure, and the bounds of the grouping loss."""
    grouping, named = report.findings.grouping, report.findings.named_groups
    blocks = [Points((sentence_on_groups(report.findings),))]
    if named:
        column = [rate for group in grouping.named for rate in (group.observed, group.expected)]
        rows = [
            Row(
                (
                    shorten(group.rule),
                    f"{group.n_samples:,}",
                    *rates(group.observed, group.expected, column=column),
                    _signed_points(group),
                )
            )
            for group in named
        ]
        caption = (
            "Rates of each group against the rate of all samples with equal scores. "
            f"{grouping.n_tried:,} groups were tested at the false discovery rate "
            f"{1 - report.confidence_level:.2g} (Benjamini and Hochberg), which the intervals "
            "allow for."
        )
        head = ("Group", "samples", "observed", "expected", "difference")
        blocks.append(Table(caption, head, tuple(rows)))
    if report.grouping_estimator is not None:
        blocks.append(_grouping_figure(report))
    if bounds := bounds_by_features(grouping):
        blocks.append(Points(tuple(bounds)))
    if grouping.note and grouping.grouping_loss is not None:
        blocks.append(Text(f"Note: {grouping.note}", soft=True))
    if grouping.left_out:
        blocks.append(Text(grouping.left_out, soft=True))
    return Section("By group", tuple(blocks))


def _named_groups(report):
    """Groups that the user names: a table and the forest plot."""
    by = report.findings.by
    shown = strongest(by.groups, MOST_CLASSES)
    caption = (
        "Mean prediction and observed frequency of each group, their difference in percentage "
        f"points, and the difference from all samples with equal scores. {len(by.groups):,} groups "
        "were compared; intervals hold for all at once (*: found at the false discovery rate "
        f"{1 - by.confidence_level:.2g})."
    )
    if len(shown) < len(by.groups):
        caption += f" The {len(shown)} of {len(by.groups):,} groups with the smallest p-values."
    averages = report.findings.predicted_name, report.findings.observed_name
    head = ("Group", *averages, "difference", "at equal scores")
    column = [rate for group in shown for rate in (group.mean_predicted, group.observed)]
    rows = [
        Row(
            (
                shorten(group.name),
                *rates(group.mean_predicted, group.observed, distinct=False, column=column),
                _signed_points(group.difference),
                "unknown" if group.equal_scores is None else _signed_points(group.equal_scores),
            ),
            note=f"{group.n_samples:,} samples",
            marked=(3,) * group.detected + (4,) * group.equal_scores_detected,
        )
        for group in shown
    ]
    table = Table(caption, head, tuple(rows))
    figure = (
        "Observed frequency minus mean prediction of each group: left of zero, predictions are too "
        "high. Filled markers: found at the false discovery rate."
    )
    forest = Pictures((_forest_figure(report),), lambda: figure)
    note = (Text(by.note, soft=True),) if by.note else ()
    return Section("Groups that you named", (table, forest, *note))


# --- Recalibration maps ---------------------------------------------------------------------------


def _maps(findings):
    """The candidates by their held-out loss."""
    advice, selection = findings.advice, findings.advice.selection
    rows = []
    for name, loss, worse, error in zip(
        selection.names,
        selection.losses,
        selection.differences,
        selection.standard_errors,
        strict=True,
    ):
        finite, recommended, note = loss < float("inf"), name == advice.recommended, ""
        behind = "best" if name == selection.best else f"{worse:.4f} ({error:.4f})"
        if recommended and advice.brier is not None:
            brier = numbers(advice.brier.before, advice.brier.after)
            note = f"Recommended. Brier score {' -> '.join(brier)}."
        cells = (
            "none" if name == selection.names[0] else name,
            f"{loss:.4f}" if finite else "infinite",
            behind if finite else "infinite",
        )
        rows.append(Row(cells, note, (0,) if recommended else (), alarm=False))
    for refused in advice.refused:
        before, after = numbers(refused.before, refused.after)
        note = f"Not recommended: it raises the held-out Brier score from {before} to {after}."
        rows.append(Row((refused.name, f"{refused.log_loss:.4f}", "-"), note))
    table = Table(
        "Cross-validated log loss, from simple to complex maps. The simplest one within a standard "
        "error of the best is chosen, or the mixture of all, StackedRecalibrator, where that one "
        "loses more than 0.5 % (*: recommended). With two classes, a map that never falls is "
        "preferred where it loses at most 1 %.",
        ("Map", "log loss", "difference from best (SE)"),
        tuple(rows),
    )
    return Section("Recalibration maps", (Text(advice_on_maps(findings)), table))


# --- The parts of a loss, as bars and as a table --------------------------------------------------


def loss_parts(report: Reported) -> Section:
    """The loss as bars and as a table: calibration, grouping if known, and the rest."""
    findings = report.findings
    bars = [bar(findings, findings.error(loss, "canonical")) for loss in LOSS_NAMES]
    if findings.n_classes > 2 and findings.grouping is not None:
        bars.append(bar(findings, findings.confidence))
    spread = common_spread(
        *(part for error in findings.errors for part in (error.calibration, error.refinement))
    )
    rows = []
    for error in findings.errors:
        name = LOSS_NAMES[error.loss].removesuffix(" score").removesuffix(" loss")
        name += f", {NOTION_NAMES[error.notion]}" if findings.n_classes > 2 else ""
        cells = (
            name,
            number(error.expected_loss.estimate, spread),
            nonnegative(error.calibration, spread),
            interval(error.refinement, spread),
        )
        rows.append(Row(cells, marked=(2,) if error.detected else ()))
    table = Table(
        "Loss = calibration + refinement (the rest), with "
        f"{level_text(report.confidence_level)} intervals (*: significant).",
        ("Loss", "mean", "calibration", "refinement"),
        tuple(rows),
    )
    terms = findings.error("brier", "canonical").terms
    note = (
        f"Brier: refinement {number(terms.refinement, spread)} = "
        f"uncertainty {number(terms.uncertainty, spread)} - "
        f"sharpness {number(terms.sharpness, spread)}."
    )
    blocks = (*bars, key(bars), table, Text(note, soft=True))
    return Section("Where the loss comes from", blocks)


def key(bars: Sequence[Bar]) -> Key:
    """Legend of the parts; grouping only if a bar has it."""
    entries = {
        "calibration": "calibration error: recalibration can remove it",
        "grouping": "grouping loss, at least: better use of the features can remove it",
        "rest": "rest: irreducible, or due to missing features or an imperfect model",
    }
    if all(len(bar.parts) < 3 for bar in bars):
        del entries["grouping"]
    return Key(tuple(entries.items()))


def bar(findings: Findings, error: ErrorFinding, *, name: str = "", width: float = 100.0) -> Bar:
    """One loss as a bar of `width` percent of the page."""
    loss, grouping = error.terms.loss, findings.grouping
    if not name:
        is_whole = error is findings.error(error.loss, "canonical")
        name = LOSS_NAMES[error.loss] + ("" if is_whole else " of the confidence")
    spread = common_spread(error.expected_loss, error.calibration, error.refinement)
    label = f"{name} {interval(error.expected_loss, spread)}: calibration "
    label += nonnegative(error.calibration, spread)
    parts = [_part("calibration", error.calibration, loss, 0.0, width)]
    if error is findings.confidence and grouping is not None and grouping.detected:
        label += f", grouping at least {nonnegative(grouping.grouping_loss)}"
        label += f", rest at most {interval(grouping.rest)}."
        parts.append(_part("grouping", grouping.grouping_loss, loss, parts[0].share, width))
    else:
        label += f", rest {interval(error.refinement, spread)}."
    rest = max(width - sum(part.share for part in parts), 0.0)
    return Bar(label, (*parts, Part("rest", rest)))


def _part(kind, estimate, loss, start, width):
    """Share of an estimate in the loss; an infinite loss is attributed to calibration."""
    if not loss < float("inf"):
        return Part(kind, width)
    if loss == 0:
        return Part(kind, 0.0)
    share, low, high = (
        min(max(width * value / loss, 0.0), width - start)
        for value in (estimate.estimate, estimate.low, estimate.high)
    )
    return Part(kind, share, start + low, start + high)


# --- Tests and other numbers ----------------------------------------------------------------------


def _tests(findings):
    """The errors and tests behind the verdict: (name, result, whether it is significant)."""
    notions = NOTION_NAMES if findings.n_classes > 2 else {"canonical": "the event"}
    spread = common_spread(*(error.calibration for error in findings.brier_errors))
    tests = [
        (
            f"Brier calibration error, {notions[error.notion]}",
            nonnegative(error.calibration, spread),
            error.detected,
        )
        for error in findings.brier_errors
    ]
    if findings.logistic is not None:
        event = "event" if findings.n_classes == 2 else "confidence"
        result = pvalue(findings.logistic.pvalue)
        rejects = findings.logistic_test_rejects
        tests.append((f"Test of shift and slope of the {event} (Cox)", result, rejects))
    residual_pvalue = findings.error("brier", "canonical").residual_pvalue
    if residual_pvalue < 1:
        name = "Residuals of the averaged maps, in cells"
        tests.append((name, pvalue(residual_pvalue), findings.residuals_reject))
    if findings.test is not None:
        part = "" if findings.n_tested == findings.n_samples else f", {findings.n_tested:,} samples"
        name = f"Calibration test of several statistics, {notions['canonical']}{part}"
        tests.append((name, pvalue(findings.test.pvalue), findings.calibration_test_rejects))
    rows = [
        Row((name, result, "yes" if significant else "no"), marked=(2,) if significant else ())
        for name, result, significant in tests
    ]
    table = Table(
        "Tests behind the verdict: an interval above zero, or a p-value below "
        f"{TEST_LEVEL:g}, is significant (*).",
        ("Test", "result", "significant"),
        tuple(rows),
    )
    return Section("Tests", (table, *map(Text, _notes_on_tests(findings))))


#: Kinds of the averaged maps, as they are called for several classes and for two.
_MAPS = {
    "shift": "a shift",
    "slope": "a slope",
    "class_slopes": "different slopes of the classes",
    "curve": "a curve",
    "confusion": "shifts that depend on the predicted class",
}
_MAPS_OF_TWO = {
    "shift": "a shift",
    "slope": "a slope",
    "class_slopes": "other slopes of high than of low forecasts",
    "curve": "a curve",
}


def _notes_on_tests(findings):
    """Where tests and intervals disagree, why the error may exceed its limit, weights of maps."""
    test, rejects = findings.test, findings.calibration_test_rejects
    error, notes = findings.error("brier", "canonical"), []
    if rejects and test.components:
        first = test.components[0]
        notes.append(f"{first.statement} ({first.name}, corrected {pvalue(first.pvalue)}).")
    if test is not None and rejects != findings.miscalibrated:
        do = "do" if findings.miscalibrated else "do not"
        verb = "rejects" if rejects else "does not reject"
        notes.append(
            f"The calibration test {verb} calibration ({pvalue(test.pvalue)}); the other tests "
            f"{do}."
        )
    if rejects and error.calibration.low == 0:
        notes.append(
            "The calibration test rejects, but the interval of the calibration error reaches zero: "
            "the averaged maps may not represent this miscalibration, and the error may exceed the "
            "upper limit."
        )
    paragraphs = [" ".join(notes)] if notes else []
    if error.lower_bound:
        paragraphs.append(f"Calibration error of all classes: {error.lower_bound}.")
    if findings.miscalibrated and error.evidence:
        names = _MAPS if findings.n_classes > 2 else _MAPS_OF_TWO
        shares = [
            f"with {names[kind]} {100 * share:.0f} %"
            for kind, share in error.evidence.items()
            if kind in names
        ]
        paragraphs.append(f"Weights of the averaged recalibration maps: {', '.join(shares)}.")
    return paragraphs


def _reported_numbers(report):
    """Commonly reported numbers, and their bias: with an interval where there is one."""
    rows = []
    for reported in report.findings.reported:
        key, value = reported.key, reported.value
        signed = key in ("in_the_large", "intercept", "slope", "brier_skill")
        if value is None:
            text = "-"
        elif key == "unreliability_pvalue":
            text = pvalue(value.estimate).removeprefix("p ").removeprefix("= ")
        elif value.standard_error == 0:
            text = number(value.estimate)
        else:
            text = interval(value) if signed or key.startswith("observed") else nonnegative(value)
        rows.append(Row((reported.name, text), note=reported.note))
    table = Table(
        f"For comparison with other work: single {level_text(report.confidence_level)} intervals. "
        "The verdict rests on stricter tests.",
        ("Number", "value"),
        tuple(rows),
    )
    return Section("Other numbers", (table,))


# --- Method ---------------------------------------------------------------------------------------


def method(report: Reported, *, of_several: bool = False) -> tuple[str, ...]:
    """How the numbers of a report were computed: samples, estimators, units, seed, versions."""
    findings, grouping = report.findings, report.findings.grouping
    level = level_text(report.confidence_level)
    target = findings.error("brier", "canonical").target
    maps = target.partition(" as far as ")[2].partition(" represent ")[0]  # without the symbols
    samples = f"Samples: {findings.n_samples:,}{_clusters(findings)}"
    if findings.test is not None and findings.n_tested == findings.n_samples:
        samples += ", all in the calibration test"
    elif findings.test is not None:
        samples += f"; a random {findings.n_tested:,} of them in the calibration test"
    gains = ""
    if not of_several:
        values = (findings.gains.shift, findings.gains.slope, findings.gains.whole)
        shift, slope, whole = (number(max(gain, 0.0)) for gain in values)
        gains = f"; shift {shift}, slope {slope}, whole {whole} nats"
    left_out = ", ".join(findings.advice.left_out)
    if left_out:
        left_out = f" Omitted, as they take too long for so many probabilities: {left_out}."
    lines = [
        f"{samples}.",
        "Calibration error: the default of proper_calibration_error, an average of recalibration "
        f"maps weighted by their evidence. The {level} intervals are of errors that these maps can "
        f"express: {maps}. Typical error: the root of the Brier "
        "calibration error, in percentage points. The error that could be missed is the upper "
        "limit of its interval, the gain that could be missed that of the calibration error of "
        "the log loss.",
        "Direction: gains of the log loss by a shift, a slope and the average of all maps, without "
        f"the optimism of their fits{gains}.",
        "Recalibration maps: held-out losses on five folds. A map is recommended if the interval "
        "of its gain of the log loss excludes zero and it does not raise the Brier score. The "
        f"gain is slightly optimistic, as the choice uses the same samples.{left_out}",
    ]
    if findings.n_clusters is not None:
        lines.append(
            "Clusters: samples of a cluster may depend on each other. Intervals and tests use sums "
            "over clusters, and folds hold whole clusters."
        )
    if report.source in ("canonical", "top_label"):
        lines.append(
            "Sketch: the scores of a cell were replaced by their mean. Folds divide the samples of "
            "each cell at random."
        )
    if grouping is not None and grouping.grouping_loss is not None:
        lines.append(
            "Groups: each is compared with the calibrated frequency at its scores; false discovery "
            f"rate below {1 - findings.confidence_level:.2g} over all groups tested "
            f"({grouping.n_tried:,}). The difference of a group of 10 % that would be "
            "found: with probability 80 %, by the standard error of a tenth of the samples and the "
            "correction for the number of groups. Grouping loss: a lower bound by a model on "
            "held-out folds; detected if above zero with p < 0.05. Where groups differ, the gain "
            "of a correction by the features is measured on held-out folds."
        )
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    lines += findings.omitted
    lines += [f"Note: {note}" for note in findings.notes]
    lines.append("Brier score: summed over classes, halved for two. Log loss: in nats.")
    lines.append(f"random_state = {report.random_state}; {packages}.")
    return tuple(lines)


# --- Several models -------------------------------------------------------------------------------


def comparison_page(comparison: Compared) -> Document:
    """`Compared` -> `Document`."""
    reports = comparison.reports
    first = next(iter(reports.values()))
    subtitle = f"{', '.join(reports)}: the same {_subtitle(first.findings)}"
    if not comparison.paired:
        samples = [f"{name} ({r.findings.n_samples:,} samples)" for name, r in reports.items()]
        level = level_text(first.confidence_level)
        subtitle = f"{', '.join(samples)}, not paired. Brackets: {level} intervals."
    models = [
        Section(
            f"{name}: {short_verdict(report.findings)}",
            (Heading(headline(report.findings)), Points(tuple(sentences(report.findings)))),
        )
        for name, report in reports.items()
    ]
    is_bad = any(tone(report.findings) == "bad" for report in reports.values())
    return Document(
        title=f"Calibration of {len(reports)} models",
        subtitle=subtitle,
        headline=headline_of_comparison(comparison),
        verdict=tuple(sentences_of_comparison(comparison)),
        in_tiles=(),
        tone="bad" if is_bad else "good",
        tiles=(),
        opening=(_side_by_side(comparison), _overlaid_figure(reports)),
        code="",
        sections=(
            _differences(comparison),
            _parts(reports),
            *models,
            Section("Method", (Points(method(first, of_several=True)),)),
        ),
    )


def _side_by_side(comparison):
    """Five rows, a column for each model."""
    columns, off, ranks_by_loss = [], [], ranks(comparison, "log")
    for k, (name, report) in enumerate(comparison.reports.items(), start=1):
        findings, advice = report.findings, report.findings.advice
        loss = interval(findings.error("log", "canonical").expected_loss)
        error = "none detected"
        if findings.miscalibrated:
            off.append(k)
            error, _ = typical_error(findings)
            low, high = findings.typical_error["low"], findings.typical_error["high"]
            error += f" [{points_between(low, high).replace(' to ', ', ')}]" if low else ""
        average, ratio = "none", findings.observed_expected_ratio
        if findings.n_classes > 2:
            average = _signed_points(findings.confidence_gap)
        elif ratio is not None:
            average = observed_expected(ratio).removeprefix("O/E ")
        gain = "not recommended"
        if advice.recommended is not None:
            (after,) = numbers(advice.log_loss["after"])
            gain = f"{after}, {recalibrator_name(advice.recommended)}"
        rank, lowest, highest = ranks_by_loss[name]
        place = f"{rank}" if lowest == highest else f"{rank} ({lowest} to {highest})"
        columns.append((loss, error, average, gain, place))
    names = (
        "Log loss",
        "Typical error",
        "O/E" if findings.n_classes == 2 else "Confidence - accuracy",
        "Log loss after recalibration",
        "Rank by log loss",
    )
    rows = [
        Row((name, *cells), marked=tuple(off) if name == "Typical error" else ())
        for name, *cells in zip(names, *columns, strict=True)
    ]
    return Table(
        "One model in each column (*: miscalibrated). In parentheses: ranks that the simultaneous "
        "intervals of all differences allow.",
        ("Model", *comparison.reports),
        tuple(rows),
    )


def _differences(comparison):
    """One table for two models; for more, a table of all pairs for each quantity."""
    rows_of = {}
    for quantity, label in (QUANTITIES | OF_DECISIONS).items():
        for difference in comparison.differences:
            if difference.quantity != quantity:
                continue
            pair = f"{difference.first} - {difference.second}"
            caption, name = (pair, label) if len(comparison.reports) == 2 else (label, pair)
            cells = (
                name,
                interval(difference.difference),
                pvalue_text(difference.pvalue).removeprefix("p = "),
                difference.better or "not significant",
            )
            row = Row(cells, marked=(3,) if difference.detected else (), alarm=False)
            rows_of.setdefault(caption, []).append(row)
    head = ("Difference", "value", "p-value", "better")
    tables = [Table(caption, head, tuple(rows)) for caption, rows in rows_of.items()]
    return Section("Differences", (Text(_on_differences(comparison)), *tables))


def _on_differences(comparison):
    """How differences were computed."""
    n_models, level = len(comparison.reports), level_text(comparison.confidence_level)
    n_pairs = n_models * (n_models - 1) // 2
    together = f" that hold for all {n_pairs} pairs together" if n_pairs > 1 else ""
    means = "means over the same samples, first model minus second, with "
    means += f"{level} Student intervals{together}"
    if not comparison.paired:
        means = (
            f"means of the first model minus means of the second, with {level} intervals{together} "
            "whose length is the sum of those of both means"
        )
    sign = "a negative one means that the first model is better"
    benefit = any(difference.quantity == "net_benefit" for difference in comparison.differences)
    sign += ", for the net benefit a positive one" if benefit else ""
    first, limits = next(iter(comparison.reports.values())).findings, ""
    if comparison.paired and first.n_classes == 2 and first.decision is not None:
        costs = "the net benefit and the costs" if benefit else "the costs"
        limits = (
            f" The limits of {costs} follow from exact limits of the shares of samples whose "
            "decision changes."
        )
    return (
        f"Differences are {means}; {sign}.{limits} An interval that excludes zero is significant "
        "(*)."
    )


def _parts(reports):
    """Bars on one scale."""
    losses = [report.findings.confidence.terms.loss for report in reports.values()]
    most = max(losses) or 1.0
    bars = [
        bar(report.findings, report.findings.confidence, name=name, width=100 * loss / most)
        for (name, report), loss in zip(reports.items(), losses, strict=True)
    ]
    title = f"Brier score{next(iter(reports.values())).findings.of_confidence}, on one scale."
    return Section("Where the loss comes from", (Text(title), *bars, key(bars)))


# --- Figures, as inline SVG: real text, page colours, no conflicting ids --------------------------


#: Most groups in a forest plot.
MOST_ROWS = 25
#: Most classes for which each has a diagram.
MOST_PANELS = 6
#: Colours of the displays -> CSS variables of the page, which depend on the colour scheme.
_VARIABLES = {
    "#000000": "ink",
    "black": "ink",
    "#ffffff": "paper",
    "white": "paper",
    "#595959": "soft",
    "#666666": "soft",
    "#cccccc": "line",
    "#ebebeb": "line",
    "#0072b2": "blue",
    "#d55e00": "bad",
    "#9e9e9e": "grey",
}
_PROBABILITY = ("Predicted probability", "Observed frequency")
_LONG = 40  # characters of a label
_SMALLEST = 8.5  # points, for phones and paper
_COLOR = re.compile(r"(stroke|fill): (#[0-9a-f]{6}|black|white)\b")
_NUMBER = re.compile(r"(\d+\.\d\d)\d+")


def _reliability_figure(report):
    """The diagram of the event or confidence, next to that after the recommended map."""
    findings = report.findings
    binary = findings.n_classes == 2
    event = f"probability of {event_name(findings)}" if binary else "confidence"
    caption = (
        f"Isotonic fit of the observed frequency against the predicted {event}. Shaded: "
        f"{level_text(report.confidence_level)} range of this fit for a calibrated model."
    )
    before, after = report.binary, report.recalibrated
    drawn = [_picture(report, before, f"the {event}", "" if after is None else "As predicted")]
    if after is not None:
        name = recalibrator_name(findings.advice.recommended)
        title = f"After {name}, cross-validated"
        drawn.append(_picture(report, after, f"the {event} after {name}", title))
    return Pictures(tuple(drawn), lambda: _with_scales(caption, _rows(report)))


def _rows(report):
    """Scores and weights of all diagrams of a page, which share a scale."""
    problems = [report.binary, report.recalibrated]
    problems += [problem for _, problem in _class_problems(report)]
    return [(p.forecast[:, 1], p.weight) for p in problems if p is not None]


def _overlaid_figure(reports):
    """The diagrams of several models on one pair of axes."""
    first = next(iter(reports.values()))
    binary = first.findings.n_classes == 2
    event = f"probability of {event_name(first.findings)}" if binary else "confidence"

    def draw():
        figure = _figure()
        for name, report in reports.items():
            plain = printable(shorten(name)).replace("$", r"\$")  # no formula
            _display(report, problems[name], figure.gca(), name=plain, band=None)
        if not binary:
            figure.gca().set(xlabel="Confidence", ylabel="Accuracy")
        return _svg(figure, "models")

    alt = f"Reliability diagrams of {', '.join(reports)}: observed frequency against {event}."
    caption = f"Observed frequency against predicted {event} (isotonic curves)."
    problems = {name: report.binary for name, report in reports.items()}
    rows = [(problem.forecast[:, 1], problem.weight) for problem in problems.values()]
    return Pictures((Picture(draw, alt),), lambda: _with_scales(caption, rows))


def _class_figures(report):
    """Blocks: the diagram of each of a few classes, or of the miscalibrated ones of many."""
    drawn = tuple(
        _picture(report, problem, f"class {label}", f"Class {label}", small=True)
        for label, problem in _class_problems(report)
    )
    every = len(drawn) == report.findings.n_classes
    which = "Each class" if every else "The classes with the largest errors"
    caption = f"{which}, against the rest."
    return [Pictures(drawn, lambda: _with_scales(caption, _rows(report)))] if drawn else []


def _class_problems(report):
    """Names of the classes that have diagrams, and their problems."""
    places = [place for place in report.findings.places if place.kind == "class"]
    if len(places) <= MOST_PANELS:
        chosen = range(len(places))
    else:
        chosen = [places.index(place) for place in report.findings.worst_places("class", N_NAMED)]
    problem, problems = report.problem, []
    for k in chosen:
        forecast, target = (
            np.column_stack([1 - part[:, k], part[:, k]])
            for part in (problem.forecast, problem.target)
        )
        label = class_label(str(problem.classes[k]))
        problems.append((label, replace(problem, forecast=forecast, labels_or_target=target)))
    return problems


def _grouping_figure(report):
    """Regions of equal scores, on the scale of the other diagrams."""

    def draw():
        axes = _figure(rows=_rows(report)).gca()
        display = GroupingDisplay.from_grouping_estimator(
            report.grouping_estimator, name="Groups", ax=axes, scale=axes.skcalib_scale
        )
        # Its own numbers refer to this coarse split only; the page has better ones.
        display.ax_.set_title("")
        return _svg(axes.figure, "grouping")

    alt = (
        "Grouping diagram: observed frequency against score of two regions in each of five ranges "
        "of scores."
    )
    caption = (
        "Two regions in each of five ranges of scores, at equal scores. Colour and marker show "
        "regions that differ significantly; area shows the number of samples."
    )
    pictures = (Picture(draw, alt),)
    return Pictures(pictures, lambda: _with_scales(caption, _rows(report), histogram=False))


def _forest_figure(report):
    """Forest plot of the groups that the user names."""
    by = report.findings.by
    n_rows = min(len(by.groups), MOST_ROWS)

    def draw():
        figure = _figure(height=1.6 + 0.42 * n_rows)
        GroupCalibrationDisplay(by).plot(figure.gca(), max_groups=MOST_ROWS)
        return _svg(figure, "named-groups")

    groups = strongest(by.groups, MOST_ROWS)
    names = ", ".join(f"{group.name} {group.difference}" for group in groups)
    return Picture(draw, f"Observed minus predicted of the groups: {names}")


def _with_scales(caption, rows, *, histogram=True):
    """The caption with the scales of the axes and of the histograms."""
    axes = _figure(rows=rows).gca()
    caption += f" Both axes have a {axes.skcalib_scale.replace('sqrt', 'square-root')} scale."
    if histogram:
        root = "square root of the " if histogram_scale(rows, bin_edges(axes))[0] else ""
        caption += f" Top: {root}share of the predictions in each bin."
    return caption


def _picture(report, problem, event, title, *, small=False):
    """A reliability diagram on the scale of all diagrams of the page."""

    def draw():
        width, height = (3.4, 3.8) if small else (4.6, 5.0)
        figure = _figure(width, height, _rows(report))
        display = _display(report, problem, figure.gca(), name=None, band="consistency")
        confidence = report.findings.n_classes > 2 and not small
        labels = ("Confidence", "Accuracy") if confidence else _PROBABILITY
        display.ax_.set(xlabel=labels[0], ylabel=labels[1])
        return _svg(figure, event)

    alt = f"Reliability diagram of {event}: observed frequency against predicted probability."
    return Picture(draw, alt, title)


def _display(report, problem, axes, *, name, band):
    """Draw the curve of a binary problem; its error is in the legend, which only names need."""
    problem = replace(problem, classes=np.arange(2))
    level = report.confidence_level
    # A pointwise band needs enough resamples for its level.
    n_resamples = max(200, int(np.ceil(4 / (1 - level))))
    with collected_warnings():  # the warnings are in the verdict
        options = check_options("isotonic", None, "auto", band, level, n_resamples)
        events = binary_problems(problem, None, options.notion)
        named = name is not None
        rng = check_random_state(report.random_state)
        curves = reliability_curves(events, options, rng, errors=named)
        display = ReliabilityDisplay(curves, name=name, confidence_level=level, band=options.band)
        return display.plot(ax=axes, legend=named)


def _figure(width=4.6, height=5.0, rows=()):
    """A figure of the displayed width, so that its text has the text size of the page.

    Its axes have the scales of (scores, weight) `rows`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.add_subplot()
    for row in rows:
        scale_panels(figure.axes, [row], "auto")
    return figure


def _svg(figure, name):
    """Figure -> <svg> element. Equal figures of equal names give equal text."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a dollar sign does not start a formula
        lines = text.get_text().replace(r"\$", "$").split("\n")
        text.set_text("\n".join(map(printable, lines)))
        text.set_fontsize(max(text.get_fontsize(), _SMALLEST))
    for axes in figure.axes:
        if len(axes.get_xlabel()) > _LONG and "\n" not in axes.get_xlabel():
            axes.set_xlabel("Predicted probability")  # the page names the class
    buffer = StringIO()
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.patch.set_alpha(0)
        figure.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches="tight")
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.S)  # for the whole page
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else "", svg)
    svg = re.sub(r' (?:d|points)="[^"]+"', lambda m: _NUMBER.sub(r"\1", m[0]), svg)
    return _COLOR.sub(
        lambda m: f"{m[1]}: var(--{_VARIABLES[m[2]]})" if m[2] in _VARIABLES else m[0], svg
    )
