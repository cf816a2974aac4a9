"""The parts of a loss, as bars and as a table."""

from skcalib._formatting import interval, nonnegative, number, percent, says_nothing
from skcalib.report.blocks import Bar, Key, Part, Row, Section, Table, Text
from skcalib.report.wording import (
    CALIBRATION_PART,
    GROUPING_PART,
    LOSS_NAMES,
    NOTION_NAMES,
    REST_PART,
    SECTIONS,
)


def loss_parts(report):
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
        "Loss = calibration + refinement (the rest), with "
        f"{percent(report.confidence_level)} intervals (*: significant).",
        ("Loss", "mean", "calibration", "refinement"),
        tuple(rows),
    )
    note = f"Brier: refinement {refinement} = uncertainty {uncertainty} - sharpness {sharpness}."
    return Section(SECTIONS["loss"], (*bars, key(bars), table, Text(note, soft=True)))


def key(bars):
    """What the parts mean; grouping only where a bar has it."""
    grouped = any(len(bar.parts) > 2 for bar in bars)
    return Key((CALIBRATION_PART, *([GROUPING_PART] if grouped else []), REST_PART))


def bar(findings, error, *, name="", width=None):
    """One loss as a bar; of `width` percent of the page, or all of it."""
    loss, grouped = error.terms.loss, findings.grouping
    what = LOSS_NAMES[error.loss]
    if error is not findings.error(error.loss, "canonical"):
        what += " of the confidence"
    said = f"{name or what} {interval(error.expected_loss)}: calibration "
    said += nonnegative(error.calibration)
    has_grouping = (
        error is findings.confidence
        and grouped is not None
        and grouped.grouping_loss is not None
        and grouped.detected
    )
    if has_grouping:
        said += f", grouping at least {nonnegative(grouped.bound)}"
        said += f", rest at most {interval(grouped.rest)}"
    else:
        said += f", rest {interval(error.refinement)}"
    parts = [_part("calibration", error.calibration, loss, 0.0, width)]
    if has_grouping and not says_nothing(grouped.bound):
        parts.append(_part("grouping", grouped.bound, loss, parts[0].share, width))
    full = 100.0 if width is None else width
    rest = max(full - sum(part.share for part in parts), 0.0)
    return Bar(f"{said}.", (*parts, Part("rest", rest)))


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
    name = LOSS_NAMES[error.loss].removesuffix(" score").removesuffix(" loss")
    if findings.n_classes > 2:
        name += f", {NOTION_NAMES[error.notion]}"
    loss = number(error.expected_loss.estimate, error.expected_loss.standard_error)
    cells = (name + note, loss, nonnegative(error.calibration), interval(error.refinement))
    return Row(cells, marked=(2,) if error.detected else ())
