"""Figures of a report as inline SVG: real text, colours of the page, no ids that could clash."""

import re
from functools import cache, partial
from io import StringIO

import numpy as np

from skcalib.displays import GroupingDisplay, ReliabilityDisplay
from skcalib.report._numbers import percent
from skcalib.report.blocks import Picture, Pictures

#: With more classes than this, a panel for each says little.
MOST_PANELS = 6
#: Colours of the displays -> variables of the page, which a dark page sets otherwise.
_VARIABLES = {
    "#000000": "ink",
    "black": "ink",
    "#ffffff": "paper",
    "white": "paper",
    "#595959": "soft",
    "#666666": "soft",
    "#cccccc": "line",
    "#0072b2": "blue",
    "#d55e00": "bad",
    "#9e9e9e": "grey",
}
_LONG = 40  # letters of a label
_COLOR = re.compile(r"(stroke|fill): (#[0-9a-f]{6}|black|white)\b")
_NUMBER = re.compile(r"(\d+\.\d\d)\d+")


def reliability(report):
    """The diagram of the confidence, and of each class where there are a few."""
    findings = report.findings
    what = "probability" if findings.n_classes == 2 else "confidence"
    title = "" if findings.n_classes == 2 else "Confidence"
    caption = (
        f"Observed frequency against predicted {what}: increasing (isotonic, CORP) curve; the "
        f"{percent(report.confidence_level)} consistency band, where the curve of a calibrated "
        "model would lie at each score; histogram of the scores above."
    )
    pictures = _reliability_pictures(report, "auto", ["the " + what], [title])
    if 2 < findings.n_classes <= MOST_PANELS:
        caption += " Then the same for each class against the rest."
        events = [f"class {label}" for label in report.problem.classes]
        titles = [f"Class {label}" for label in report.problem.classes]
        pictures += _reliability_pictures(report, "classwise", events, titles)
    return Pictures(tuple(pictures), caption)


def one_reliability(report, name):
    """The diagram of the confidence alone, for a comparison."""
    event = "the probability" if report.findings.n_classes == 2 else "the confidence"
    (picture,) = _reliability_pictures(report, "auto", [f"{event} of {name}"], [name])
    return picture


def grouping(report):
    """The level sets and their regions."""

    def draw():
        figure = _figure()
        display = GroupingDisplay.from_grouping_estimator(
            report.grouping_estimator, ax=figure.gca(), name=report.name
        )
        # Its own numbers are of this coarse split alone; the page has better ones.
        display.ax_.set_title("")
        return as_svg(figure, "grouping")

    regions = report.findings.grouping.regions
    alt = (
        "Grouping diagram: outcome against score of two regions in each of five level sets; "
        f"{len(regions) or 'no'} regions are off beyond their interval."
    )
    return Picture(draw, alt)


def _reliability_pictures(report, notion, events, titles):
    """A picture for each event of a notion; all are drawn when the first one is needed."""

    @cache
    def draw_all():
        figures = [_figure() for _ in events]
        problem = report.problem
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
            name="Calibration curve",  # names may be long; titles stand outside of the figure
            ax=[figure.gca() for figure in figures],
        )
        return [as_svg(figure, f"{titles[k]}-{notion}-{k}") for k, figure in enumerate(figures)]

    alt = "Reliability diagram of {}: observed frequency against predicted probability."
    return [
        Picture(partial(_nth, draw_all, k), alt.format(event), title)
        for k, (event, title) in enumerate(zip(events, titles, strict=True))
    ]


def _nth(draw_all, k):
    return draw_all()[k]


def _figure():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 5.0), layout="constrained")
    figure.add_subplot()
    return figure


def as_svg(figure, name):
    """Figure -> <svg> element. Equal figures of equal names give equal text."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)  # the dollar of a name begins no formula
    for axes in figure.axes:
        if len(axes.get_xlabel()) > _LONG:  # the page tells the class
            axes.set_xlabel("Predicted probability")
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
    return _COLOR.sub(_themed, svg)


def _themed(match):
    kind, color = match.groups()
    return f"{kind}: var(--{_VARIABLES[color]})" if color in _VARIABLES else match[0]
