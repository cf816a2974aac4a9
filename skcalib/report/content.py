"""From a report to its page: which sections there are, and what stands in them."""

import numpy as np

from skcalib.report import pictures
from skcalib.report._numbers import interval, percent, pvalue
from skcalib.report.advice import advice, in_code
from skcalib.report.blocks import Document, Pictures, Points, Row, Section, Table, Text
from skcalib.report.method import method
from skcalib.report.parts import loss_parts
from skcalib.report.places import N_PLACES
from skcalib.report.whom import came_true, grouping, places
from skcalib.report.wording import headline, kernel_test, notion_name, sentences, wrong_for_some


def document(report):
    """`CalibrationReport` -> `Document`."""
    findings = report.findings
    sections = [
        _evidence(report),
        _reliability(report),
        _where(report),
        loss_parts(report),
        *([] if findings.grouping is None else [_grouping(report)]),
        _recalibrators(findings),
        _reported(report),
        Section("How it was computed", (Points(method(report)),)),
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
    """The diagrams, and the same in numbers."""
    what = "forecast" if report.findings.n_classes == 2 else "confidence"
    rows = tuple(
        Row(
            (place.label, f"{place.n_samples:,}", f"{place.mean_score:.3f}", came_true(place)),
            marked=(3,) if place.detected else (),
        )
        for place in report.findings.places
        if place.kind == "scores"
    )
    table = Table(
        f"The {what} by its size; intervals (Clopper-Pearson) that hold for all ranges at once (*: "
        "off beyond chance).",
        ("Scores", "samples", "promised", "came true"),
        rows,
        compact=True,
    )
    return Section("Reliability", (*pictures.reliability(report), table))


def _where(report):
    told = Points(tuple(places(report.findings)))
    note = (
        f"The ranges of scores and the classes that are off, at most {N_PLACES} of each, the worst "
        "first. Intervals hold for all ranges, and for all classes, at once."
    )
    return Section("Where it is wrong", (told, Text(note, soft=True)))


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
        if chosen and findings.brier_change is not None:
            change = findings.brier_change
            note += f" Brier score: {change.before:.4f} before, {change.after:.4f} after."
        shown = "none, the forecasts as they are" if name == found.names[0] else name
        loss = f"{loss:.4f}" if np.isfinite(loss) else "infinite"
        rows.append(Row((shown, loss, behind), note=note, marked=(0,) if chosen else ()))
    for one in findings.refused:
        note = (
            f"Refused: it raises the Brier score from {one.before:.4f} to {one.after:.4f} "
            f"(standard error {one.standard_error:.4f})."
        )
        rows.append(Row((one.name, f"{one.log_loss:.4f}", "not compared"), note=note))
    table = Table(
        "Log loss on samples that the map has not seen, from simple to complex maps (*: chosen).",
        ("Map", "log loss", "worse than the best by"),
        tuple(rows),
    )
    how = [Text(in_code(findings), soft=True)] if findings.recalibrator_helps else []
    return Section("What to do", (Text(advice(findings)), *how, table))


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
