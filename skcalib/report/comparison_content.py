"""From a comparison to its page."""

from skcalib.report import pictures
from skcalib.report._numbers import bound, interval, percent, pvalue
from skcalib.report.blocks import Document, Heading, Pictures, Points, Row, Section, Table, Text
from skcalib.report.comparison_wording import headline, sentences
from skcalib.report.content import subtitle
from skcalib.report.differences import QUANTITIES
from skcalib.report.method import method
from skcalib.report.parts import bar, key
from skcalib.report.wording import finding, wrong_for_some
from skcalib.report.wording import headline as headline_of_one
from skcalib.report.wording import sentences as sentences_of_one

_REAL = "Is the difference real?"


def document(comparison):
    """`ComparisonReport` -> `Document`."""
    reports = comparison.reports
    first = next(iter(reports.values()))
    samples = subtitle(first, with_accuracy=False)
    found = [report.findings for report in reports.values()]
    return Document(
        title=f"Calibration of {len(reports)} models",
        subtitle=f"{', '.join(reports)}: the same {samples}",
        headline=headline(comparison),
        verdict=tuple(sentences(comparison)),
        alarm=any(one.miscalibrated or wrong_for_some(one) for one in found),
        sections=(
            _side_by_side(reports),
            _differences(comparison),
            _reliability(reports),
            _parts(reports),
            _one_by_one(reports),
            Section("How it was computed", (Points((_pairing(first), *method(first))),)),
        ),
    )


def _side_by_side(reports):
    """A column for each model."""
    findings = [report.findings for report in reports.values()]

    def row(name, say, marked=lambda one: False):
        marks = tuple(k for k, one in enumerate(findings, start=1) if marked(one))
        return Row((name, *map(say, findings)), marked=marks)

    rows = [
        row("Miscalibration", finding, lambda one: one.miscalibrated or wrong_for_some(one)),
        row("Accuracy", lambda one: interval(one.accuracy)),
        row("Brier score", lambda one: interval(one.error("brier", "canonical").expected_loss)),
        row("Log loss", lambda one: interval(one.error("log", "canonical").expected_loss)),
        row(
            "Brier calibration error",
            lambda one: interval(one.error("brier", "canonical").calibration),
            lambda one: one.error("brier", "canonical").detected,
        ),
        row(
            "Brier score, recalibrated",
            lambda one: interval(one.error("brier", "canonical").refinement),
        ),
        row("Confidence minus accuracy", lambda one: interval(one.confidence_gap)),
        row(
            "Kernel test",
            lambda one: "none" if one.test is None else pvalue(one.test.pvalue),
            lambda one: one.test_rejects,
        ),
        row("Recalibrate by", _advice),
    ]
    if any(one.grouping is not None for one in findings):
        rows.append(row("Grouping loss, at least", _grouping_loss, wrong_for_some))
    for k, reported in enumerate(findings[0].reported):
        if all(len(one.reported) > k and one.reported[k].key == reported.key for one in findings):
            rows.append(row(reported.name, lambda one, k=k: _reported(one, k)))
    table = Table(
        "One model in each column (*: miscalibrated, above zero, or rejected).",
        ("Quantity", *reports),
        tuple(rows),
    )
    return Section("Side by side", (table,))


def _advice(one):
    return one.advice.chosen if one.recalibrator_helps else "leave it"


def _grouping_loss(one):
    there = one.grouping is not None and one.grouping.grouping_loss is not None
    return bound(one.grouping.bound) if there else "not estimated"


def _reported(one, k):
    value = one.reported[k].value
    return "none" if value is None else interval(value)


def _differences(comparison):
    """One table for two models; beyond, a table of all pairs for each quantity."""
    pairs = len(comparison.reports) * (len(comparison.reports) - 1) // 2
    at_once = f", widened to hold for all {pairs} pairs at once" if pairs > 1 else ""
    note = (
        f"Paired differences with {percent(comparison.confidence_level)} intervals{at_once}. A "
        "difference is real where the interval excludes zero (*); less is better in all of them."
    )
    if pairs == 1:
        one = comparison.differences[0]
        rows = [(QUANTITIES[d.quantity], d) for d in comparison.differences]
        return Section(_REAL, (Text(note), _table(f"{one.first} - {one.second}", rows)))
    tables = []
    for quantity, name in QUANTITIES.items():
        found = [d for d in comparison.differences if d.quantity == quantity]
        if found:
            tables.append(_table(name, [(f"{d.first} - {d.second}", d) for d in found]))
    return Section(_REAL, (Text(note), *tables))


def _table(caption, named):
    rows = tuple(
        Row(
            (name, interval(found.difference), found.better or "not told apart"),
            marked=(2,) if found.detected else (),
            alarm=False,
        )
        for name, found in named
    )
    return Table(caption, ("Difference", "value", "better"), rows)


def _reliability(reports):
    first = next(iter(reports.values()))
    caption = (
        "One diagram for each model: increasing curve, and the "
        f"{percent(first.confidence_level)} consistency band, where the curve of a calibrated "
        "model would lie at each score."
    )
    drawn = tuple(pictures.one_reliability(report, name) for name, report in reports.items())
    return Section("Reliability", (Pictures(drawn, caption),))


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
    return Section("Where the loss comes from", (Text(f"{what}, on one scale."), *bars, key(bars)))


def _pairing(report):
    return (
        f"Differences: means over the same samples ({percent(report.confidence_level)} Student "
        "intervals), the first model minus the second. The numbers of each model are as follows."
    )


def _one_by_one(reports):
    blocks = []
    for name, report in reports.items():
        blocks.append(Heading(f"{name}: {headline_of_one(report.findings)}"))
        blocks.append(Points(tuple(sentences_of_one(report.findings))))
    return Section("Model by model", tuple(blocks))
