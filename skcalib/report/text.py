"""The report as plain text for a terminal."""

from textwrap import fill

from skcalib.report.wording import (
    LOSS_NAMES,
    NOTION_NAMES,
    headline,
    interval,
    number,
    pvalue,
    sentences,
)

_WIDTH = 92
_INDENT = {"initial_indent": "  ", "subsequent_indent": "  "}


def render_text(report):
    """`CalibrationReport` -> text."""
    findings = report.findings
    level = f"{100 * report.confidence_level:g} %"
    lines = [
        f"Calibration report: {report.name}",
        f"{findings.n_samples:,} samples, {findings.n_classes} classes, accuracy "
        f"{interval(findings.accuracy)}",
        "",
        headline(findings),
        *(fill(line, _WIDTH, **_INDENT) for line in sentences(findings)),
        "",
        f"{'':36}{'loss':>9} = {f'calibration [{level} interval]':<33}+ {'refinement':>10}",
    ]
    lines += [_row(finding) for finding in findings.errors]
    lines += ["with isotonic regression instead:", _row(findings.flexible)]
    canonical = findings.error("brier", "canonical").terms
    lines += [] if findings.grouping is None else _grouping(findings.grouping)
    lines += [
        "",
        f"Refinement = uncertainty - sharpness; Brier: {number(canonical.refinement)} = "
        f"{number(canonical.uncertainty)} - {number(canonical.sharpness)}.",
        f"Root Brier score, an upper bound of the root of the Brier calibration error: "
        f"{number(findings.root_brier_score)}.",
        fill(report.method_note, _WIDTH),
    ]
    return "\n".join(lines)


def _row(finding):
    error = finding.calibration.standard_error
    label = f"{LOSS_NAMES[finding.loss]}, {NOTION_NAMES[finding.notion]}"
    return (
        f"{label:<36}{number(finding.terms.loss, error):>9}   "
        f"{interval(finding.calibration):<33}  {number(finding.terms.refinement, error):>10}"
    )


def _grouping(grouping):
    if grouping.grouping_loss is None:
        return []
    error = grouping.grouping_loss.standard_error
    name = "forecast" if grouping.of_forecast else "confidence"
    parts = (
        f"Brier score of the {name}: {number(grouping.loss, error)} = calibration "
        f"{number(grouping.calibration, error)} + grouping (at least) "
        f"{interval(grouping.grouping_loss)}, {pvalue(grouping.pvalue)}, + irreducible (at most) "
        f"{number(grouping.irreducible_bound, error)}."
    )
    return [
        "",
        fill(parts, _WIDTH),
        *([fill(f"Note: {grouping.note}", _WIDTH)] if grouping.note else []),
    ]
