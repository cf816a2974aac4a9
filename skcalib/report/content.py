"""From a report to its page: which sections there are, and what stands in them."""

import numpy as np

from skcalib.report import pictures
from skcalib.report._numbers import interval, number, percent, pvalue
from skcalib.report.blocks import (
    Bar,
    Document,
    Key,
    Part,
    Pictures,
    Points,
    Row,
    Section,
    Table,
    Text,
)
from skcalib.report.wording import (
    LOSS_NAMES,
    N_PLACES,
    advice,
    grouping,
    headline,
    kernel_test,
    notion_name,
    places,
    sentences,
    wrong_for_some,
)

_CALIBRATION = ("calibration", "calibration error: recalibration saves it; a line for its interval")
_GROUPING = ("grouping", "grouping loss, at least: a better use of the features saves it")
_REST = ("rest", "the rest: only better features or a better model lower it")


def document(report):
    """`CalibrationReport` -> `Document`."""
    findings = report.findings
    sections = [
        _evidence(report),
        _reliability(report),
        _where(report),
        _parts(report),
        *([] if findings.grouping is None else [_grouping(report)]),
        _recalibrators(findings),
        _reported(report),
        Section("How it was computed", (Text(report.method_note, soft=True),)),
    ]
    return Document(
        title=f"Calibration report: {report.name}",
        subtitle=subtitle(report),
        headline=headline(findings),
        verdict=tuple(sentences(findings)),
        alarm=findings.miscalibrated or wrong_for_some(findings),
        sections=tuple(sections),
    )


def subtitle(report, *, with_accuracy=True):
    """Samples, classes and accuracy."""
    findings = report.findings
    weighted = findings.effective_size < findings.n_samples * (1 - 1e-9)
    effective = f" (weighted, worth {findings.effective_size:,.0f})" if weighted else ""
    accuracy = f", accuracy {interval(findings.accuracy)}" if with_accuracy else ""
    classes = f"{findings.n_classes} classes"
    if findings.n_classes == 2:
        classes += f" (forecast of {report.problem.classes[1]})"
    return (
        f"{findings.n_samples:,} samples{effective}, {classes}{accuracy}. "
        f"Brackets are {percent(report.confidence_level)} intervals."
    )


def _evidence(report):
    """The looks on which the verdict rests, and the test in words."""
    findings = report.findings
    rows = []
    for look in findings.looks:
        smoother = "isotonic regression" if look is findings.flexible else "logit map"
        name = f"Brier error of {notion_name(look.notion, findings.n_classes)}, by {smoother}"
        rows.append(_look(name, interval(look.calibration), look.detected))
    if findings.test is not None:
        part = (
            "" if findings.n_tested == findings.n_samples else f" ({findings.n_tested:,} samples)"
        )
        name = f"Kernel test of {notion_name('canonical', findings.n_classes)}{part}"
        rows.append(_look(name, pvalue(findings.test.pvalue), findings.test_rejects))
    table = Table(
        "The verdict rests on these; an interval above zero, or p at most 0.01, is a finding (*).",
        ("Look", "result", "finding"),
        tuple(rows),
    )
    return Section("Is it real?", (Text(kernel_test(findings)), table))


def _look(name, result, found):
    return Row((name, result, "yes" if found else "no"), marked=(2,) if found else ())


def _reliability(report):
    return Section("Reliability", (pictures.reliability(report),))


def _where(report):
    told = Points(tuple(places(report.findings)))
    note = (
        f"The ranges of scores and the classes that are off, at most {N_PLACES} of each, the worst "
        "first. Intervals (Clopper-Pearson) hold for all ranges, and for all classes, at once."
    )
    return Section("Where it is wrong", (told, Text(note, soft=True)))


def _parts(report):
    """The loss as bars and as a table: calibration, grouping where it is known, and the rest."""
    findings = report.findings
    bars = [bar(findings, findings.error(loss, "canonical")) for loss in LOSS_NAMES]
    if findings.n_classes > 2 and findings.grouping is not None:
        bars.append(bar(findings, findings.confidence))
    rows = [_error_row(findings, error) for error in findings.errors]
    rows.append(_error_row(findings, findings.flexible, " (isotonic)"))
    terms = findings.error("brier", "canonical").terms
    spread = findings.error("brier", "canonical").refinement.standard_error
    refinement, uncertainty, sharpness = (
        number(getattr(terms, name), spread) for name in ("refinement", "uncertainty", "sharpness")
    )
    table = Table(
        f"Loss = calibration + refinement, with {percent(report.confidence_level)} intervals "
        "(*: above zero).",
        ("Loss", "mean", "calibration", "refinement"),
        tuple(rows),
    )
    note = (
        "Calibration is what recalibration would save, refinement the loss after it: refinement = "
        f"uncertainty of the labels - sharpness; Brier: {refinement} = {uncertainty} - {sharpness}."
    )
    return Section("Where the loss comes from", (*bars, key(bars), table, Text(note, soft=True)))


def key(bars):
    """What the parts mean; grouping only where a bar has it."""
    grouped = any(len(bar.parts) > 2 for bar in bars)
    return Key((_CALIBRATION, *([_GROUPING] if grouped else []), _REST))


def bar(findings, error, *, name="", width=None):
    """One loss as a bar; of `width` percent of the page, or all of it."""
    loss, grouped = error.terms.loss, findings.grouping
    what = LOSS_NAMES[error.loss]
    if error is not findings.error(error.loss, "canonical"):
        what += " of the confidence"
    said = f"{name or what}: {interval(error.expected_loss)} = calibration "
    said += interval(error.calibration)
    has_grouping = (
        error is findings.confidence and grouped is not None and grouped.grouping_loss is not None
    )
    if has_grouping:
        said += f" + grouping, at least {interval(grouped.grouping_loss)}"
        said += f" + rest, at most {interval(grouped.rest)}"
    else:
        said += f" + rest {interval(error.refinement)}"
    parts = [_part("calibration", error.calibration, loss, 0.0, width)]
    if has_grouping:
        parts.append(_part("grouping", grouped.grouping_loss, loss, parts[0].share, width))
    full = 100.0 if width is None else width
    rest = max(full - sum(part.share for part in parts), 0.0)
    return Bar(said, (*parts, Part("rest", rest)))


def _part(kind, estimate, loss, start, width):
    """Share of an estimate in the loss; an infinite loss is all miscalibration."""
    full = 100.0 if width is None else width
    if not loss < float("inf"):
        return Part(kind, full)
    if loss == 0:
        return Part(kind, 0.0)

    def place(value):
        return min(max(full * value / loss, 0.0), full - start)

    ends = (start + place(estimate.low), start + place(estimate.high))
    return Part(kind, place(estimate.estimate), *ends)


def _error_row(findings, error, note=""):
    name = LOSS_NAMES[error.loss]
    if findings.n_classes > 2:
        name += f", {notion_name(error.notion, findings.n_classes)}"
    loss = number(error.expected_loss.estimate, error.expected_loss.standard_error)
    cells = (name + note, loss, interval(error.calibration), interval(error.refinement))
    return Row(cells, marked=(2,) if error.detected else ())


def _grouping(report):
    """Who is treated differently by the same score."""
    found = report.findings.grouping
    blocks = [Points(tuple(grouping(found)))]
    if found.grouping_loss is not None:
        caption = (
            "Each level set of the score is cut in two by the features. Blue: more comes true "
            "than in the level set, vermilion: less, grey: not told apart. Area: samples."
        )
        blocks.append(Pictures((pictures.grouping(report),), caption))
    if found.note and found.grouping_loss is not None:
        blocks.append(Text(f"Note: {found.note}", soft=True))
    return Section("What calibration cannot see", tuple(blocks))


def _recalibrators(findings):
    """The candidates by their loss on samples that they have not seen."""
    found = findings.advice
    rows = []
    for name, loss, worse, error in zip(
        found.names, found.losses, found.differences, found.standard_errors, strict=True
    ):
        behind = "best" if name == found.best else f"{worse:.4f} ± {error:.4f}"
        if not np.isfinite(loss):
            behind = "infinite"
        chosen = name == found.chosen
        note = "Chosen: the simplest map within a standard error of the best." if chosen else ""
        shown = "none, the forecasts as they are" if name == found.names[0] else name
        loss = f"{loss:.4f}" if np.isfinite(loss) else "infinite"
        rows.append(Row((shown, loss, behind), note=note, marked=(0,) if chosen else ()))
    table = Table(
        "Log loss on samples that the map has not seen, from simple to complex maps (*: chosen).",
        ("Map", "log loss", "worse than the best by"),
        tuple(rows),
    )
    return Section("What to do", (Text(advice(findings)), table))


def _reported(report):
    """What others report, and why it may mislead."""
    rows = [
        Row((one.name, "none" if one.value is None else interval(one.value)), note=one.note)
        for one in report.findings.reported
    ]
    table = Table(
        f"For comparison with other work, with {percent(report.confidence_level)} intervals.",
        ("Number", "value"),
        tuple(rows),
    )
    return Section("The numbers that others report", (table,))
