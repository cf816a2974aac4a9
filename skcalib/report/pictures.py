"""Figures of a report as inline SVG: real text, page colours, no conflicting ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from skcalib._util.formatting import percent, printable
from skcalib.displays import GroupCalibrationDisplay, GroupingDisplay, ReliabilityDisplay
from skcalib.displays.base import bin_edges, binary_problems, histogram_scale, scale_panels
from skcalib.displays.groups import strongest
from skcalib.displays.reliability import check_options, reliability_curves
from skcalib.report.advice import recalibrator_name
from skcalib.report.findings import (
    N_NAMED,
    Reported,
    class_label,
    event_name,
    noted,
    shorten,
)
from skcalib.report.rendering import Picture, Pictures
from skcalib.report.subgroups import worst_places

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def reliability(report: Reported) -> Pictures:
    """The diagram of the event or confidence, next to that after the recommended map."""
    findings = report.findings
    binary = findings.n_classes == 2
    event = f"probability of {event_name(findings)}" if binary else "confidence"
    caption = (
        f"Isotonic fit of the observed frequency against the predicted {event}. Shaded: "
        f"{percent(report.confidence_level)} range of this fit for a calibrated model."
    )
    before, after, title = report.binary, report.recalibrated, ""
    drawn = []
    if after is not None:
        name, title = recalibrator_name(findings.advice.recommended), "As predicted"
        title_after = f"After {name}, cross-validated"
        drawn = [_picture(report, after, f"the {event} after {name}", title_after)]
    drawn = [_picture(report, before, f"the {event}", title), *drawn]
    return Pictures(tuple(drawn), lambda: _with_scales(caption, _rows(report)))


def _rows(report):
    """Scores and weights of all diagrams of a page, which share a scale."""
    problems = [report.binary, report.recalibrated]
    problems += [problem for _, problem in _class_problems(report)]
    return [(p.forecast[:, 1], p.weight) for p in problems if p is not None]


def overlaid(reports: Mapping[str, Reported]) -> Pictures:
    """The diagrams of several models on one pair of axes."""
    first = next(iter(reports.values()))
    binary = first.findings.n_classes == 2
    event = f"probability of {event_name(first.findings)}" if binary else "confidence"

    def draw():
        figure = _figure()
        for name, report in reports.items():
            _display(report, report.binary, figure.gca(), name=_plain(name), band=None)
        if not binary:
            figure.gca().set(xlabel="Confidence", ylabel="Accuracy")
        return as_svg(figure, "models")

    alt = f"Reliability diagrams of {', '.join(reports)}: observed frequency against {event}."
    caption = f"Observed frequency against predicted {event} (isotonic curves)."
    problems = [report.binary for report in reports.values()]
    rows = [(problem.forecast[:, 1], problem.weight) for problem in problems]
    return Pictures((Picture(draw, alt),), lambda: _with_scales(caption, rows))


def classes(report: Reported) -> list[Pictures]:
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
        chosen = [places.index(place) for place in worst_places(places, "class", N_NAMED)]
    problem, problems = report.problem, []
    for k in chosen:
        forecast, target = (
            np.column_stack([1 - part[:, k], part[:, k]])
            for part in (problem.forecast, problem.target)
        )
        label = class_label(str(problem.classes[k]))
        problems.append((label, replace(problem, forecast=forecast, labels_or_target=target)))
    return problems


def grouping(report: Reported) -> Pictures:
    """Regions of equal scores, on the scale of the other diagrams."""

    def draw():
        axes = _figure(rows=_rows(report)).gca()
        display = GroupingDisplay.from_grouping_estimator(
            report.grouping_estimator, name="Groups", ax=axes, scale=axes.skcalib_scale
        )
        # Its own numbers refer to this coarse split only; the page has better ones.
        display.ax_.set_title("")
        return as_svg(axes.figure, "grouping")

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


def named_groups(report: Reported) -> Picture:
    """Forest plot of the groups that the user names."""
    by: Any = report.findings.by
    n_rows = min(len(by.groups), MOST_ROWS)

    def draw():
        figure = _figure(height=1.6 + 0.42 * n_rows)
        GroupCalibrationDisplay(by).plot(figure.gca(), max_groups=MOST_ROWS)
        return as_svg(figure, "named-groups")

    groups = strongest(by.groups, MOST_ROWS)
    names = ", ".join(f"{group.name} {group.difference}" for group in groups)
    return Picture(draw, f"Observed minus predicted of the groups: {names}")


def _plain(name):
    """A short name in which a dollar sign does not start a formula."""
    return printable(shorten(name)).replace("$", r"\$")


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
        size = (3.4, 3.8) if small else (4.6, 5.0)
        figure = _figure(*size, _rows(report))
        display = _display(report, problem, figure.gca(), name=None, band="consistency")
        confidence = report.findings.n_classes > 2 and not small
        labels = ("Confidence", "Accuracy") if confidence else _PROBABILITY
        display.ax_.set(xlabel=labels[0], ylabel=labels[1])
        return as_svg(figure, event)

    alt = f"Reliability diagram of {event}: observed frequency against predicted probability."
    return Picture(draw, alt, title)


def _display(report, problem, axes, *, name, band):
    """Draw the curve of a binary problem; its error is in the legend, which only names need."""
    problem = replace(problem, classes=np.arange(2))
    level = report.confidence_level
    # A pointwise band needs enough resamples for its level.
    n_resamples = max(200, int(np.ceil(4 / (1 - level))))
    with noted():  # the warnings are in the verdict
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


def as_svg(figure: Figure, name: str) -> str:
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
    return _COLOR.sub(_themed, svg)


def _themed(match):
    kind, color = match.groups()
    return f"{kind}: var(--{_VARIABLES[color]})" if color in _VARIABLES else match[0]
