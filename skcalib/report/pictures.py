"""Figures of a report as inline SVG: real text, colours of the page, no ids that could clash."""

import re
from io import StringIO

import numpy as np

from skcalib.displays import GroupingDisplay, ReliabilityDisplay
from skcalib.report._numbers import percent
from skcalib.report._run import noted
from skcalib.report.blocks import Picture, Pictures
from skcalib.report.places import N_PLACES, worst_places

#: With more classes than this, a panel for each is too much.
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
_SMALLEST = 8  # points, for phones
_COLOR = re.compile(r"(stroke|fill): (#[0-9a-f]{6}|black|white)\b")
_NUMBER = re.compile(r"(\d+\.\d\d)\d+")


def reliability(report):
    """Blocks: the diagram of the confidence, and of each class where there are a few.

    Of many classes only those that are off are drawn.
    """
    n_classes = report.findings.n_classes
    what = "probability" if n_classes == 2 else "confidence"
    caption = (
        f"Observed frequency against predicted {what}: increasing (isotonic, CORP) curve; the "
        f"{percent(report.confidence_level)} consistency band, where the curve of a calibrated "
        "model would lie at each score; histogram of the scores above."
    )
    blocks = [Pictures((_confidence(report, f"the {what}"),), caption)]
    classes = _classes_to_draw(report.findings)
    if classes:
        which = "each class" if len(classes) == n_classes else "the classes that are off most"
        drawn = tuple(_one_class(report, k) for k in classes)
        blocks.append(Pictures(drawn, f"The same for {which}, against the rest."))
    return blocks


def one_reliability(report, name):
    """The diagram of the confidence alone, for a comparison."""
    what = "the probability" if report.findings.n_classes == 2 else "the confidence"
    return _confidence(report, f"{what} of {name}", title=name)


def _classes_to_draw(findings):
    """Columns of the classes: of a few all, of many those that are off."""
    if findings.n_classes == 2:
        return []
    classes = [place for place in findings.places if place.kind == "class"]
    if len(classes) <= MOST_PANELS:
        return range(len(classes))
    return [classes.index(place) for place in worst_places(classes, "class", N_PLACES)]


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


def _confidence(report, event, title=""):
    """The confidence, or for two classes the forecast; beside others with a title, not a legend."""
    problem = report.problem
    y = problem.classes[problem.target.argmax(axis=1)]
    data = {"y_true": y, "y_proba": problem.forecast, "labels": problem.classes}
    return _reliability_picture(report, data, event, title)


def _one_class(report, k):
    """A class against the rest."""
    problem = report.problem
    data = {"y_true": problem.target[:, k], "y_proba": problem.forecast[:, k], "labels": [0, 1]}
    label = problem.classes[k]
    return _reliability_picture(report, data, f"class {label}", f"Class {label}")


def _reliability_picture(report, data, event, title):
    def draw():
        figure = _figure(small=bool(title))
        with noted():  # the verdict says it
            display = ReliabilityDisplay.from_predictions(
                **data,
                sample_weight=report.problem.weight,
                confidence_level=report.confidence_level,
                # A pointwise band needs enough resamples for its level.
                n_resamples=max(200, int(np.ceil(4 / (1 - report.confidence_level)))),
                random_state=report.random_state,
                name="Calibration curve",  # names may be long; titles stand outside of the figure
                legend=not title,
                ax=figure.gca(),
            )
        if title:  # the page tells the class
            display.ax_.set_xlabel("Predicted probability")
        else:  # and the error, by its own method
            for text in display.ax_.get_legend().get_texts():
                text.set_text(text.get_text().partition("\n")[0])
        return as_svg(figure, event)

    alt = f"Reliability diagram of {event}: observed frequency against predicted probability."
    return Picture(draw, alt, title)


def _figure(*, small=False):
    """A figure that is as wide as it is shown, so that its text has the size of the page's."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4, 3.8) if small else (4.6, 5.0), layout="constrained")
    figure.add_subplot()
    return figure


def as_svg(figure, name):
    """Figure -> <svg> element. Equal figures of equal names give equal text."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)  # the dollar of a name begins no formula
        text.set_fontsize(max(text.get_fontsize(), _SMALLEST))
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
