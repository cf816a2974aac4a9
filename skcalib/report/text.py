"""The report as plain text for a terminal."""

from textwrap import fill

from skcalib.report.wording import LOSS_NAMES, NOTION_NAMES, headline, interval, number, sentences

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
