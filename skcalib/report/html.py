"""The report as one self-contained HTML page: no script, no font and no image from elsewhere."""

from html import escape
from io import StringIO

import numpy as np

from skcalib.displays import ReliabilityDisplay
from skcalib.report.wording import (
    LOSS_NAMES,
    NOTION_NAMES,
    headline,
    interval,
    is_miscalibrated,
    number,
    pvalue,
    sentences,
)

_MANY_CLASSES = 10  # beyond this a panel for each class says little

_STYLE = """
.skcalib { --ink: #1a1a1a; --soft: #5c5c5c; --line: #d8d8d8; --paper: #ffffff; --card: #f6f7f8;
  --bad: #b3470b; --good: #1f6f5c; --rest: #9fb8cf; --hidden: #d9a400;
  color: var(--ink); background: var(--paper); max-width: 62rem; margin: 0 auto;
  padding: 1.2rem; font: 16px/1.5 system-ui, sans-serif; }
.skcalib h1 { font-size: 1.5rem; margin: 0; line-height: 1.25; }
.skcalib h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
.skcalib .soft, .skcalib figcaption { color: var(--soft); font-size: .9rem; }
.skcalib .verdict { background: var(--card); border-left: .4rem solid var(--good);
  padding: .8rem 1.1rem; margin: 1.2rem 0; }
.skcalib .verdict.bad { border-color: var(--bad); }
.skcalib .verdict strong { font-size: 1.25rem; }
.skcalib .verdict ul { margin: .5rem 0 0; padding-left: 1.2rem; }
.skcalib .scroll { overflow-x: auto; }
.skcalib table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
.skcalib th, .skcalib td { text-align: right; padding: .35rem .6rem;
  border-bottom: 1px solid var(--line); white-space: nowrap; }
.skcalib th:first-child, .skcalib td:first-child { text-align: left; white-space: normal;
  min-width: 9rem; padding-left: 0; }
.skcalib td.found { color: var(--bad); font-weight: 600; }
.skcalib .bar { display: flex; height: 1.5rem; border: 1px solid var(--line); }
.skcalib .bar span { display: block; }
.skcalib .calibration { background: var(--bad); }
.skcalib .refinement { background: var(--rest); }
.skcalib .grouping { background: var(--hidden); }
.skcalib .key { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 .9rem; }
.skcalib .figures { display: flex; flex-wrap: wrap; gap: 1rem; }
.skcalib figure { margin: 0; background: #ffffff; flex: 1 1 20rem; max-width: 32rem; }
.skcalib figure.wide { flex-basis: 100%; max-width: none; overflow-x: auto; }
.skcalib figure.wide svg { min-width: 44rem; }
.skcalib figure svg { width: 100%; height: auto; display: block; }
.skcalib figcaption { background: var(--paper); padding: .3rem 0; }
@media (prefers-color-scheme: dark) { .skcalib { --ink: #e8e8e8; --soft: #b0b0b0; --line: #454545;
  --paper: #16181b; --card: #212429; --bad: #f08a4b; --good: #58b89f; --rest: #55708c;
  --hidden: #e8c34a; }
  .skcalib figure svg { filter: invert(.9) hue-rotate(180deg); }
  .skcalib figure { background: var(--paper); } }
@media print { .skcalib { max-width: none; font-size: 11pt; }
  .skcalib figure, .skcalib .verdict, .skcalib tr { break-inside: avoid; } }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Calibration report: {title}</title>
<style>
html {{ color-scheme: light dark; }}
body {{ margin: 0; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #16181b; }} }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def render_page(report):
    """`CalibrationReport` -> a complete page."""
    return _PAGE.format(title=escape(report.name), body=render_body(report))


def render_body(report):
    """`CalibrationReport` -> a fragment with its own style, for notebooks."""
    findings = report.findings
    parts = [
        f"<style>{_STYLE}</style>",
        '<main class="skcalib">',
        f"<h1>Calibration report: {escape(report.name)}</h1>",
        f'<p class="soft">{findings.n_samples:,} samples, {findings.n_classes} classes, accuracy '
        f"{interval(findings.accuracy)}</p>",
        _verdict(findings),
        "<h2>Reliability</h2>",
        _figures(report),
        "<h2>Where the loss comes from</h2>",
        _bars(findings),
        _table(report),
        "" if findings.grouping is None else _grouping(findings.grouping),
        "<h2>How it was computed</h2>",
        f'<p class="soft">{escape(report.method_note)}</p>',
        "</main>",
    ]
    return "\n".join(parts)


def _verdict(findings):
    kind = "verdict bad" if is_miscalibrated(findings) else "verdict"
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(findings))
    return (
        f'<div class="{kind}"><strong>{escape(headline(findings))}</strong><ul>{items}</ul></div>'
    )


def _figures(report):
    binary = report.findings.n_classes == 2
    main = (
        "Observed frequency against predicted probability: isotonic (CORP) curve, its consistency "
        "band (where the curve of a calibrated model would lie), and the histogram of the scores."
    )
    figures = [_figure(report, "auto", main, 1)]
    n_classes = report.findings.n_classes
    if not binary and n_classes <= _MANY_CLASSES:
        figures.append(
            _figure(report, "classwise", "The same for each class against the rest.", n_classes)
        )
    return f'<div class="figures">{"".join(figures)}</div>'


def _figure(report, notion, caption, n_panels):
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    problem = report.problem
    columns = min(n_panels, 4)
    rows = -(-n_panels // columns)
    size = (5.2, 5.6) if n_panels == 1 else (3.2 * columns, 3.6 * rows)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in axes[n_panels:]:
        spare.remove()
    ReliabilityDisplay.from_predictions(
        problem.classes[problem.target.argmax(axis=1)],
        problem.forecast,
        sample_weight=problem.weight,
        labels=problem.classes,
        notion=notion,
        confidence_level=report.confidence_level,
        # A pointwise band needs enough resamples for its level.
        n_resamples=max(200, int(np.ceil(4 / (1 - report.confidence_level)))),
        random_state=report.random_state,
        name=report.name,
        ax=axes[0] if n_panels == 1 else axes[:n_panels],
    )
    buffer = StringIO()
    # A fixed salt and no date: the same report gives the same page.
    with rc_context({"svg.hashsalt": f"skcalib-{notion}"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches="tight")
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    kind = ' class="wide"' if n_panels > 1 else ""
    return f"<figure{kind}>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _bars(findings):
    """Mean loss as a bar: the part that recalibration saves, and the rest."""
    bars = []
    for loss, name in LOSS_NAMES.items():
        finding = findings.error(loss, "canonical")
        share = finding.calibration.estimate / finding.terms.loss if finding.terms.loss else 0.0
        if not 0 <= share <= 1:  # an infinite loss, or an estimate below zero
            share = 0.0 if share <= 0 else 1.0
        bars.append(
            f'<p style="margin-bottom:.2rem">{name}: {number(finding.terms.loss)}, of which '
            f"miscalibration {100 * share:.1f} %</p>"
            f'<div class="bar" role="img" aria-label="{100 * share:.1f} % calibration error">'
            f'<span class="calibration" style="width:{100 * share:.2f}%"></span>'
            f'<span class="refinement" style="width:{100 - 100 * share:.2f}%"></span></div>'
        )
    key = (
        '<p class="soft"><span class="key calibration" style="margin-left:0"></span>calibration '
        'error: recalibration saves it<span class="key refinement"></span>refinement: only '
        "better features or a better model can</p>"
    )
    return "".join(bars) + key


def _grouping(grouping):
    """What calibration cannot see: the three parts of the Brier score, and who is affected."""
    head = "<h2>What calibration cannot see</h2>"
    if grouping.grouping_loss is None:
        return f'{head}<p class="soft">Not estimated: {escape(grouping.note)}</p>'
    error = grouping.grouping_loss.standard_error
    parts = (max(grouping.calibration, 0), max(grouping.grouping_loss.estimate, 0))
    shares = [100 * part / grouping.loss if grouping.loss else 0.0 for part in parts]
    name = "forecast" if grouping.of_forecast else "confidence"
    bar = (
        f'<p style="margin-bottom:.2rem">Brier score of the {name}: '
        f"{number(grouping.loss, error)} = calibration {number(grouping.calibration, error)} + "
        f"grouping, at least {interval(grouping.grouping_loss)}, {pvalue(grouping.pvalue)} + "
        f"irreducible, at most {number(grouping.irreducible_bound, error)}</p>"
        '<div class="bar" role="img" aria-label="parts of the Brier score">'
        f'<span class="calibration" style="width:{shares[0]:.2f}%"></span>'
        f'<span class="grouping" style="width:{shares[1]:.2f}%"></span>'
        '<span class="refinement" style="flex:1"></span></div>'
        '<p class="soft"><span class="key calibration" style="margin-left:0"></span>calibration'
        '<span class="key grouping"></span>grouping (lower bound): the same score, different '
        'groups<span class="key refinement"></span>the rest</p>'
    )
    rows = "".join(_region(region) for region in grouping.regions)
    table = (
        '<div class="scroll"><table><thead><tr><th>Where</th><th>samples</th><th>mean score</th>'
        f"<th>outcome [interval]</th></tr></thead><tbody>{rows}</tbody></table></div>"
        if rows
        else ""
    )
    note = f'<p class="soft">{escape(grouping.note)}</p>' if grouping.note else ""
    return head + bar + table + note


def _region(found):
    return (
        f"<tr><td>{escape(found.rule)}</td><td>{found.n_samples:,}</td>"
        f"<td>{found.mean_score:.3f}</td>"
        f"<td>{found.mean_outcome:.3f} [{found.low:.3f}, {found.high:.3f}]</td></tr>"
    )


def _table(report):
    level = f"{100 * report.confidence_level:g} %"
    rows = "".join(_row(finding) for finding in report.findings.errors)
    rows += _row(report.findings.flexible, " (isotonic)")
    canonical = report.findings.error("brier", "canonical").terms
    return (
        '<div class="scroll"><table><thead><tr><th>Loss and notion</th><th>loss</th>'
        f"<th>= calibration [{level} interval]</th><th>+ refinement</th><th>sharpness</th></tr>"
        f"</thead><tbody>{rows}</tbody></table></div>"
        '<p class="soft">Coloured: above zero beyond the interval. Refinement = uncertainty - '
        f"sharpness; the uncertainty of the labels is {number(canonical.uncertainty)} (Brier). "
        "Root Brier score, an upper bound of the root of the Brier calibration error: "
        f"{number(report.findings.root_brier_score)}.</p>"
    )


def _row(finding, note=""):
    error = finding.calibration.standard_error
    found = ' class="found"' if finding.detected else ""
    return (
        f"<tr><td>{LOSS_NAMES[finding.loss]}, {NOTION_NAMES[finding.notion]}{note}</td>"
        f"<td>{number(finding.terms.loss, error)}</td>"
        f"<td{found}>{interval(finding.calibration)}</td>"
        f"<td>{number(finding.terms.refinement, error)}</td>"
        f"<td>{number(finding.terms.sharpness, error)}</td></tr>"
    )
