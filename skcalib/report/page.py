"""The page of a report or a comparison: the first screen, and the sections below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from skcalib._util.formatting import (
    common_spread,
    interval,
    nonnegative,
    number,
    numbers,
    percent,
    points_between,
    pvalue,
    pvalue_text,
    rate_interval,
    rates,
)
from skcalib.report import comparison_wording, pictures, wording
from skcalib.report.advice import advice_on_maps, line_of_code, recalibrator_name
from skcalib.report.findings import class_label, event_name, shorten
from skcalib.report.rendering import (
    Bar,
    Document,
    Heading,
    Key,
    Part,
    Pictures,
    Points,
    Row,
    Section,
    Table,
    Text,
    Tile,
)
from skcalib.report.subgroups import bounds_by_features, place_level, sentence_on_groups
from skcalib.report.wording import LOSS_NAMES, NOTION_NAMES, SECTIONS

if TYPE_CHECKING:
    from skcalib.report.findings import Compared, ErrorFinding, Findings, Reported

#: Most classes in a table, the most harmful first.
MOST_CLASSES = 20


def report_page(report: Reported) -> Document:
    """`Reported` -> `Document`."""
    findings, advice = report.findings, report.findings.advice
    sections = [
        _ranges(report),
        *([_classes(report)] if findings.n_classes > 2 else []),
        *([] if findings.grouping is None else [_groups(report)]),
        *([] if findings.by is None else [_named_groups(report)]),
        _maps(findings),
        loss_parts(report),
        _tests(findings),
        _others(report),
        Section(SECTIONS["method"], (Points(wording.method(report)),)),
    ]
    return Document(
        title=f"Calibration report: {report.name}",
        subtitle=wording.subtitle(findings, report.confidence_level),
        headline=wording.headline(findings),
        verdict=tuple(wording.sentences(findings)),
        in_tiles=tuple(wording.sizes(findings)),
        tone=_tone(findings),
        tiles=_tiles(findings),
        opening=(pictures.reliability(report),),
        code=""
        if advice.recommended is None
        else line_of_code(
            advice.recommended,
            report.source,
            is_frozen=report.is_frozen,
            classes=report.problem.classes.tolist(),
        ),
        sections=tuple(sections),
    )


def _tone(findings):
    """The colour of the verdict: no evidence from few samples is not shown as good."""
    if findings.miscalibrated or findings.groups_differ or findings.suspicions:
        return "bad"
    return "good" if wording.is_conclusive(findings) else "weak"


def _tiles(findings):
    """Predicted against observed, typical error, and what recalibration would change."""
    predicted, observed = rates(findings.mean_predicted, findings.observed_rate.estimate)
    names = ("predicted", "observed") if findings.n_classes == 2 else ("confidence", "accuracy")
    averages = Tile(((predicted, names[0]), (observed, names[1])), _average_note(findings))
    return (averages, _error_tile(findings), _gain_tile(findings))


def _average_note(findings):
    if findings.n_classes > 2:
        gap = findings.confidence_gap
        return f"difference {_signed_points(gap)}"
    event = f"rate of {event_name(findings)}"
    ratio = findings.observed_expected_ratio
    return event if ratio is None else f"{event}; {wording.observed_expected(ratio)}"


def _signed_points(estimate):
    """A difference of probabilities with its interval."""
    values = (estimate.low, estimate.estimate, estimate.high)
    low, middle, high = (f"{100 * value:+z.1f}" for value in values)
    return f"{middle} points [{low}, {high}]"


def _error_tile(findings):
    what = "typical error" if findings.n_classes == 2 else "typical error of the confidence"
    if findings.input_is_suspect:
        return Tile((("Unknown", what),), "check the input first")
    found, note = wording.typical_parts(findings)
    if not findings.miscalibrated:
        return Tile((("No error", "detected"),), f"{found} could be missed ({note})")
    return Tile(((found, what),), note)


def _gain_tile(findings):
    advice = findings.advice
    if advice.recommended is None:
        (loss,) = numbers(advice.log_loss["before"])
        return Tile(((loss, "log loss"),), "no recalibration recommended")
    before, after = numbers(advice.log_loss["before"], advice.log_loss["after"])
    name = recalibrator_name(advice.recommended)
    return Tile(((f"{before} -> {after}", "log loss"),), f"cross-validated, after {name}")


def _ranges(report):
    """The table of ranges of scores."""
    findings = report.findings
    places = [place for place in findings.places if place.kind == "scores"]
    rows = tuple(_place_row(findings, place, places) for place in places)
    names = ("predicted", "observed") if findings.n_classes == 2 else ("confidence", "accuracy")
    table = Table(
        wording.ranges_caption(findings, place_level(report.confidence_level)),
        ("Range", "samples", *names, "interval"),
        rows,
        compact=True,
    )
    return Section(SECTIONS["ranges"], (table, Text(wording.RANGES_NOTE, soft=True)))


def _place_row(findings, place, places):
    column = [rate for one in places for rate in (one.mean_score, one.mean_outcome)]
    both = rates(place.mean_score, place.mean_outcome, distinct=False, column=column)
    ends = rate_interval(place.low, place.high, *column)
    cells = (place.label, f"{place.n_samples:,}", *both, ends)
    return Row(cells, marked=(3,) if findings.is_off(place) else ())


def _classes(report):
    """The table of classes, and diagrams of those that are miscalibrated."""
    findings = report.findings
    places = [place for place in findings.places if place.kind == "class"]
    shown = places
    if len(places) > MOST_CLASSES:
        shown = sorted(places, key=lambda one: (not one.detected, -one.squared_gap))[:MOST_CLASSES]
    rows = tuple(_class_row(findings, place, shown) for place in shown)
    caption = wording.classes_caption(place_level(report.confidence_level))
    if len(shown) < len(places):
        caption += f" The {len(shown)} of {len(places):,} classes with the largest differences."
    head = ("Class", "predicted", "observed", "interval")
    blocks = [Table(caption, head, rows, compact=True), *_confusions(findings)]
    drawn = pictures.classes(report)
    return Section(SECTIONS["classes"], (*blocks, *drawn))


def _confusions(findings):
    """The table of pairs of classes that are confused, if there are any."""
    if not findings.confusions:
        return []
    rows = []
    for one in findings.confusions:
        ends = rate_interval(one.observed.low, one.observed.high, one.observed.estimate)
        names = (class_label(name) for name in (one.predicted, one.other))
        score = rates(one.at_least, one.mean_score, one.observed.estimate, distinct=False)
        rows.append(Row((*names, *score, ends), note=f"{one.n_samples:,} samples", marked=(4,)))
    head = ("Predicted", "other class", "at least", "predicted", "observed", "interval")
    caption = wording.confusions_caption(findings.confidence_level)
    return [Table(caption, head, tuple(rows), compact=True)]


def _class_row(findings, place, places):
    label, _, *others = _place_row(findings, place, places).cells
    return Row((class_label(label), *others), marked=(2,) if findings.is_off(place) else ())


def _groups(report):
    """Groups that differ at equal scores, the figure, and the bounds of the grouping loss."""
    found = report.findings.grouping
    blocks = [Points((sentence_on_groups(report.findings),))]
    if report.findings.named_groups:
        column = [rate for one in found.named for rate in (one.observed, one.expected)]
        rows = tuple(_group_row(one, column) for one in report.findings.named_groups)
        head = ("Group", "samples", "observed", "expected", "difference")
        of = found.n_tried, 1 - report.confidence_level
        caption = wording.GROUPS_CAPTION.format(*of)
        blocks.append(Table(caption, head, rows))
    if report.grouping_estimator is not None:
        blocks.append(pictures.grouping(report, wording.FIGURE_OF_GROUPS))
    blocks.append(Points(tuple(bounds_by_features(found))))
    if found.note and found.grouping_loss is not None:
        blocks.append(Text(f"Note: {found.note}", soft=True))
    if found.left_out:
        blocks.append(Text(found.left_out, soft=True))
    return Section(SECTIONS["groups"], tuple(block for block in blocks if block != Points(())))


def _group_row(group, column):
    both = rates(group.observed, group.expected, column=column)
    rule, size = shorten(group.rule), f"{group.n_samples:,}"
    return Row((rule, size, *both, _signed_points(group)))


def _named_groups(report):
    """Groups that the user names: a table and the forest plot."""
    found = report.findings.by
    shown = pictures.strongest(found, MOST_CLASSES)
    caption = wording.NAMED_CAPTION.format(len(found.groups), 1 - found.confidence_level)
    if len(shown) < len(found.groups):
        caption += f" The {len(shown)} of {len(found.groups):,} groups with the smallest p-values."
    names = ("predicted", "observed")
    if report.findings.n_classes > 2:
        names = ("confidence", "accuracy")
    head = ("Group", *names, "difference", "at equal scores")
    column = [rate for one in shown for rate in (one.mean_predicted, one.observed)]
    table = Table(caption, head, tuple(_named_row(one, column) for one in shown))
    figure = Pictures((pictures.named_groups(report),), lambda: wording.FIGURE_OF_NAMED)
    note = (Text(found.note, soft=True),) if found.note else ()
    return Section(SECTIONS["named"], (table, figure, *note))


def _named_row(one, column):
    both = rates(one.mean_predicted, one.observed, distinct=False, column=column)
    equal = "unknown" if one.equal_scores is None else _signed_points(one.equal_scores)
    name, difference = shorten(one.name), _signed_points(one.difference)
    return Row(
        (name, *both, difference, equal),
        note=f"{one.n_samples:,} samples",
        marked=(3,) * one.detected + (4,) * one.equal_scores_detected,
    )


def _maps(findings):
    """The candidates by their held-out loss."""
    found = findings.advice.selection
    rows = []
    for name, loss, worse, error in zip(
        found.names, found.losses, found.differences, found.standard_errors, strict=True
    ):
        behind = "best" if name == found.best else f"{worse:.4f} ({error:.4f})"
        if not np.isfinite(loss):
            behind = "infinite"
        recommended = name == findings.advice.recommended
        note = ""
        if recommended and findings.advice.brier is not None:
            brier = numbers(findings.advice.brier.before, findings.advice.brier.after)
            note = f"Recommended. Brier score {' -> '.join(brier)}."
        shown = "none" if name == found.names[0] else name
        loss = f"{loss:.4f}" if np.isfinite(loss) else "infinite"
        rows.append(Row((shown, loss, behind), note, (0,) if recommended else (), alarm=False))
    for one in findings.advice.refused:
        rows.append(Row((one.name, f"{one.log_loss:.4f}", "-"), wording.refused_map(one)))
    table = Table(
        "Cross-validated log loss, from simple to complex maps. The simplest one within a standard "
        "error of the best is chosen, or the mixture of all, StackedRecalibrator, where that one "
        "loses more than 0.5 % (*: recommended). With two classes, a map that never falls is "
        "preferred where it loses at most 1 %.",
        ("Map", "log loss", "difference from best (SE)"),
        tuple(rows),
    )
    return Section(SECTIONS["maps"], (Text(advice_on_maps(findings)), table))


def _tests(findings):
    """The errors and tests behind the verdict."""
    rows = []
    what = wording.NOTION_NAMES if findings.n_classes > 2 else {"canonical": "the event"}
    spread = common_spread(*(error.calibration for error in findings.brier_errors))
    for error in findings.brier_errors:
        name = f"Brier calibration error, {what[error.notion]}"
        rows.append(_test_row(name, nonnegative(error.calibration, spread), error.detected))
    if findings.logistic is not None:
        of = "event" if findings.n_classes == 2 else "confidence"
        name = f"Test of shift and slope of the {of} (Cox)"
        rejects = findings.logistic_test_rejects
        rows.append(_test_row(name, pvalue(findings.logistic.pvalue), rejects))
    found = findings.error("brier", "canonical")
    if found.residual_pvalue < 1:
        name = "Residuals of the averaged maps, in cells"
        rows.append(_test_row(name, pvalue(found.residual_pvalue), findings.residuals_reject))
    if findings.test is not None:
        part = "" if findings.n_tested == findings.n_samples else f", {findings.n_tested:,} samples"
        name = f"Kernel test, {what['canonical']}{part}"
        rows.append(_test_row(name, pvalue(findings.test.pvalue), findings.kernel_test_rejects))
    table = Table(wording.caption_of_tests(), ("Test", "result", "significant"), tuple(rows))
    said = (wording.kernel_test, wording.lower_bound, wording.evidence)
    said = [text for text in (one(findings) for one in said) if text]
    return Section(SECTIONS["tests"], (table, *map(Text, said)))


def _test_row(name, result, significant):
    return Row((name, result, "yes" if significant else "no"), marked=(2,) if significant else ())


def _others(report):
    """Commonly reported numbers, and their bias."""
    rows = [
        Row((one.name, _reported_value(one)), note=one.note) for one in report.findings.reported
    ]
    table = Table(
        f"For comparison with other work: single {percent(report.confidence_level)} intervals. The "
        "verdict rests on stricter tests.",
        ("Number", "value"),
        tuple(rows),
    )
    return Section(SECTIONS["others"], (table,))


def _reported_value(one):
    """Estimate and interval, the estimate alone if there is no interval, or a dash."""
    if one.value is None:
        return "-"
    if one.key == "unreliability_pvalue":
        return pvalue(one.value.estimate).removeprefix("p ").removeprefix("= ")
    if one.value.standard_error == 0:
        return number(one.value.estimate)
    signed = one.key in ("in_the_large", "intercept", "slope", "brier_skill")
    plain = signed or one.key.startswith("observed")
    return interval(one.value) if plain else nonnegative(one.value)


# --- Several models ----------------------------------------------------------------------------


def comparison_page(comparison: Compared) -> Document:
    """`Compared` -> `Document`."""
    reports = comparison.reports
    first = next(iter(reports.values()))
    found = [report.findings for report in reports.values()]
    samples = wording.subtitle(first.findings, first.confidence_level, of_one_model=False)
    subtitle = f"{', '.join(reports)}: the same {samples}"
    if not comparison.paired:
        sizes = (f"{name} ({one.findings.n_samples:,} samples)" for name, one in reports.items())
        level = percent(first.confidence_level)
        subtitle = f"{', '.join(sizes)}, not paired. Brackets: {level} intervals."
    return Document(
        title=f"Calibration of {len(reports)} models",
        subtitle=subtitle,
        headline=comparison_wording.headline(comparison),
        verdict=tuple(comparison_wording.sentences(comparison)),
        in_tiles=(),
        tone="bad" if any(_tone(one) == "bad" for one in found) else "good",
        tiles=(),
        opening=(_side_by_side(comparison), pictures.overlaid(reports)),
        code="",
        sections=(
            _differences(comparison),
            _parts(reports),
            *(_one_model(name, report) for name, report in reports.items()),
            Section(SECTIONS["method"], (Points(wording.method(first, of_several=True)),)),
        ),
    )


def _side_by_side(comparison):
    """Five rows, a column for each model."""
    reports = comparison.reports
    findings = [report.findings for report in reports.values()]
    ranked = comparison_wording.ranks(comparison, "log")

    def row(name, cells, marked=()):
        return Row((name, *cells), marked=marked)

    average = "O/E" if findings[0].n_classes == 2 else "Confidence - accuracy"
    off = tuple(k for k, one in enumerate(findings, start=1) if one.miscalibrated)
    losses = [one.error("log", "canonical").expected_loss for one in findings]
    rows = (
        row("Log loss", list(map(interval, losses))),
        row("Typical error", [_short_error(one) for one in findings], off),
        row(average, [_average(one) for one in findings]),
        row("Log loss after recalibration", [_short_gain(one) for one in findings]),
        row("Rank by log loss", [_rank(*ranked[name]) for name in reports]),
    )
    return Table(
        "One model in each column (*: miscalibrated). In parentheses: ranks that the simultaneous "
        "intervals of all differences allow.",
        ("Model", *reports),
        rows,
    )


def _short_error(findings):
    found = findings.typical_error
    if not findings.miscalibrated:
        return "none detected"
    ends = f" [{points_between(found['low'], found['high']).replace(' to ', ', ')}]"
    return wording.typical_parts(findings)[0] + (ends if found["low"] else "")


def _average(findings):
    if findings.n_classes == 2:
        ratio = findings.observed_expected_ratio
        return "none" if ratio is None else wording.observed_expected(ratio).removeprefix("O/E ")
    return _signed_points(findings.confidence_gap)


def _short_gain(findings):
    if findings.advice.recommended is None:
        return "not recommended"
    after = numbers(findings.advice.log_loss["after"])[0]
    return f"{after}, {recalibrator_name(findings.advice.recommended)}"


def _rank(rank, lowest, highest):
    return f"{rank}" if lowest == highest else f"{rank} ({lowest} to {highest})"


def _differences(comparison):
    """One table for two models; for more, a table of all pairs for each quantity."""
    n_pairs = len(comparison.reports) * (len(comparison.reports) - 1) // 2
    level, paired = percent(comparison.confidence_level), comparison.paired
    benefit = any(one.quantity == "net_benefit" for one in comparison.differences)
    first = next(iter(comparison.reports.values())).findings
    shares = paired and first.n_classes == 2 and first.decision is not None
    told = {"paired": paired, "benefit": benefit, "shares": shares}
    note = Text(comparison_wording.pairing(level, n_pairs, **told))
    quantities = {**comparison_wording.QUANTITIES, **comparison_wording.OF_DECISIONS}
    title = "Differences"
    if n_pairs == 1:
        one = comparison.differences[0]
        rows = [(quantities[d.quantity], d) for d in comparison.differences]
        return Section(title, (note, _difference_table(f"{one.first} - {one.second}", rows)))
    tables = []
    for quantity, name in quantities.items():
        found = [d for d in comparison.differences if d.quantity == quantity]
        if found:
            rows = [(f"{d.first} - {d.second}", d) for d in found]
            tables.append(_difference_table(name, rows))
    return Section(title, (note, *tables))


def _difference_table(caption, named):
    rows = tuple(
        Row(
            (
                name,
                interval(found.difference),
                pvalue_text(found.pvalue).removeprefix("p = "),
                found.better or "not significant",
            ),
            marked=(3,) if found.detected else (),
            alarm=False,
        )
        for name, found in named
    )
    return Table(caption, ("Difference", "value", "p-value", "better"), rows)


def _parts(reports):
    """Bars on one scale."""
    losses = [report.findings.confidence.terms.loss for report in reports.values()]
    most = max(losses) or 1.0
    bars = [
        bar(report.findings, report.findings.confidence, name=name, width=100 * loss / most)
        for (name, report), loss in zip(reports.items(), losses, strict=True)
    ]
    n_classes = next(iter(reports.values())).findings.n_classes
    what = "Brier score" if n_classes == 2 else "Brier score of the confidence"
    return Section(SECTIONS["loss"], (Text(f"{what}, on one scale."), *bars, key(bars)))


def _one_model(name, report):
    """The verdict of one model."""
    findings = report.findings
    return Section(
        f"{name}: {wording.short_verdict(findings)}",
        (Heading(wording.headline(findings)), Points(tuple(wording.sentences(findings)))),
    )


# --- The parts of a loss, as bars and as a table --------------------------------------------------


def loss_parts(report: Reported) -> Section:
    """The loss as bars and as a table: calibration, grouping if known, and the rest."""
    findings = report.findings
    bars = [bar(findings, findings.error(loss, "canonical")) for loss in LOSS_NAMES]
    if findings.n_classes > 2 and findings.grouping is not None:
        bars.append(bar(findings, findings.confidence))
    parts = ((one.calibration, one.refinement) for one in findings.errors)
    spread = common_spread(*(part for pair in parts for part in pair))
    rows = [_error_row(findings, error, spread) for error in findings.errors]
    terms = findings.error("brier", "canonical").terms
    refinement, uncertainty, sharpness = (
        number(getattr(terms, name), spread) for name in ("refinement", "uncertainty", "sharpness")
    )
    table = Table(
        "Loss = calibration + refinement (the rest), with "
        f"{percent(report.confidence_level)} intervals (*: significant).",
        ("Loss", "mean", "calibration", "refinement"),
        tuple(rows),
    )
    note = f"Brier: refinement {refinement} = uncertainty {uncertainty} - sharpness {sharpness}."
    return Section(SECTIONS["loss"], (*bars, key(bars), table, Text(note, soft=True)))


def key(bars: Sequence[Bar]) -> Key:
    """Legend of the parts; grouping only if a bar has it."""
    grouped = any(len(bar.parts) > 2 for bar in bars)
    calibration, grouping, rest = wording.PARTS
    return Key((calibration, *([grouping] if grouped else []), rest))


def bar(
    findings: Findings, error: ErrorFinding, *, name: str = "", width: float | None = None
) -> Bar:
    """One loss as a bar of `width` percent of the page, by default its full width."""
    loss, grouped = error.terms.loss, findings.grouping
    what = LOSS_NAMES[error.loss]
    if error is not findings.error(error.loss, "canonical"):
        what += " of the confidence"
    spread = common_spread(error.expected_loss, error.calibration, error.refinement)
    said = f"{name or what} {interval(error.expected_loss, spread)}: calibration "
    said += nonnegative(error.calibration, spread)
    has_grouping = error is findings.confidence and grouped is not None and grouped.detected
    if has_grouping:
        said += f", grouping at least {nonnegative(grouped.grouping_loss)}"
        said += f", rest at most {interval(grouped.rest)}"
    else:
        said += f", rest {interval(error.refinement, spread)}"
    parts = [_part("calibration", error.calibration, loss, 0.0, width)]
    if has_grouping:
        parts.append(_part("grouping", grouped.grouping_loss, loss, parts[0].share, width))
    full = 100.0 if width is None else width
    rest = max(full - sum(part.share for part in parts), 0.0)
    return Bar(f"{said}.", (*parts, Part("rest", rest)))


def _part(kind, estimate, loss, start, width):
    """Share of an estimate in the loss; an infinite loss is attributed to calibration."""
    full = 100.0 if width is None else width
    if not loss < float("inf"):
        return Part(kind, full)
    if loss == 0:
        return Part(kind, 0.0)

    def place(value):
        return min(max(full * value / loss, 0.0), full - start)

    ends = (start + place(estimate.low), start + place(estimate.high))
    return Part(kind, place(estimate.estimate), *ends)


def _error_row(findings, error, spread):
    name = LOSS_NAMES[error.loss].removesuffix(" score").removesuffix(" loss")
    if findings.n_classes > 2:
        name += f", {NOTION_NAMES[error.notion]}"
    loss, calibration = number(error.expected_loss.estimate, spread), error.calibration
    cells = (name, loss, nonnegative(calibration, spread), interval(error.refinement, spread))
    return Row(cells, marked=(2,) if error.detected else ())
