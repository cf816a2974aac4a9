"""The page, the terminal and the dictionary say the same; the page stands on its own."""

import json
import re
from datetime import date
from decimal import Decimal
from functools import cache
from html.parser import HTMLParser
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from conftest import report_of

from skcalib import CalibrationReport, ComparisonReport, displays
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.report import rendering as blocks
from skcalib.report.report import as_json

EVIL = "<script>alert('x')</script> & \"$\\frac\" $x"


class Reader(HTMLParser):
    """Checks that tags close in order, and keeps what tests ask about."""

    void = frozenset({"meta", "br", "img", "hr", "link"})

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.text, self.headings = [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data)
            if self.open[-1] in ("h1", "h2", "h3"):
                self.headings.append((self.open[-1], data))

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def strings(block):
    """Every sentence and cell of a block."""
    if isinstance(block, (blocks.Text, blocks.Heading)):
        return [block.text]
    if isinstance(block, blocks.Points):
        return block.lines
    if isinstance(block, blocks.Bar):
        return [block.label]
    if isinstance(block, blocks.Table):
        rows = [part for row in block.rows for part in (*row.cells, row.note)]
        return [block.caption, *block.head[1:], *rows]
    return []


def dense(text):
    return re.sub(r"\s", "", text)


@pytest.fixture(scope="module")
def with_features():
    samples = make_grouping_problem(800, random_state=0)
    frame = pd.DataFrame(samples.X, columns=["age", "dose"])
    return CalibrationReport.from_predictions(samples.y, samples.y_proba, frame, name="drug")


@pytest.fixture(scope="module")
def three_classes():
    return report_of(300, 3, name="three")


@pytest.fixture(scope="module")
def comparison():
    samples = make_tempered_simplex(200, 3, random_state=0)
    models = {"raw": samples.y_proba, "truth": samples.posterior}
    return ComparisonReport.from_predictions(samples.y, models)


@pytest.fixture(scope="module", params=["with_features", "three_classes", "comparison"])
def shown(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A report -> its page, and how many errors of curves were estimated for it."""
    path, curves = tmp_path_factory.mktemp("pages") / "r.html", displays.reliability

    @cache
    def draw(shown):
        estimate = curves.estimate_proper_error
        with patch.object(curves, "estimate_proper_error", wraps=estimate) as error:
            return shown.to_html(path).read_text(encoding="utf-8"), error.call_count

    return draw


@pytest.fixture(scope="module")
def page(shown, drawn):
    return drawn(shown)[0]


def test_page_and_terminal_say_the_same(shown, page):
    document = shown._document()
    whole = shown.to_text(details=True)
    texts = dense("".join(Reader(page).text)), dense(whole)
    assert whole.startswith(str(shown))
    said = [document.title, document.subtitle, document.headline, document.code]
    said += [sentence for sentence in document.verdict if sentence not in document.in_tiles]
    for section in document.sections:
        said += [section.title, *(text for block in section.blocks for text in strings(block))]
    for text in texts:
        assert "\n\n\n" not in whole  # a section without anything in it
        arrows = text.replace("->", "→")
        assert [
            sentence for sentence in said if dense(sentence).replace("->", "→") not in arrows
        ] == []
    assert all(dense(sentence) in texts[1] for sentence in document.in_tiles)
    titles = [text for tag, text in Reader(page).headings if tag == "h2"]
    assert titles == [section.title for section in document.sections]


def test_dictionary_agrees_and_the_first_screen_is_short(shown, page):
    content, document, details = shown.to_dict(), shown._document(), Reader(page).all("details")
    assert (content["headline"], tuple(content["verdict"])) == (document.headline, document.verdict)
    assert shown.verdict.splitlines() == [document.headline, *document.verdict]
    assert document.headline in repr(shown) and len(shown.verdict.split()) <= 110
    assert len(str(shown).split()) < 200 and len(details) == len(document.sections)
    assert not any("open" in attrs for attrs in details)


def test_page_is_whole_accessible_and_needs_no_network(page):
    reader = Reader(page)
    assert reader.all("html") == [{"lang": "en"}]
    viewport = {"name": "viewport", "content": "width=device-width, initial-scale=1"}
    assert viewport in reader.all("meta")
    tags = {tag for tag, _ in reader.tags}
    assert not tags & {"script", "link", "img", "iframe", "object", "metadata"}
    addresses = [attrs[k] for _, attrs in reader.tags for k in ("src", "href", "xlink:href")
                 if k in attrs]  # fmt: skip
    assert all(address.startswith("#") for address in addresses)
    assert "@import" not in page and not re.search(r"url\((?!#)", page)
    ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
    assert len(ids) == len(set(ids)) and {address[1:] for address in addresses} <= set(ids)
    assert all(element["role"] == "img" and element["aria-label"] for element in reader.all("svg"))
    assert len(reader.all("caption")) == len(reader.all("table"))
    assert all(element["scope"] in ("col", "row") for element in reader.all("th"))
    levels = [int(tag[1]) for tag, _ in reader.headings]
    assert levels[0] == 1 and levels.count(1) == 1
    assert max(np.diff(levels)) <= 1
    for query in ("prefers-color-scheme: dark", "@media print", "max-width: 40rem"):
        assert query in page
    assert len(page.encode()) < 500_000


def test_no_number_is_nan_and_lines_fit_a_terminal(shown, page):
    outside, told = re.sub("<svg.*?</svg>", "", page, flags=re.S), shown.to_text(details=True)
    for text in ("".join(Reader(outside).text), told):
        assert not re.search(r"\bnan\b", text.lower())
    assert max(map(len, told.splitlines())) <= 100


@pytest.mark.parametrize("grouped", [False, True])
def test_sections(grouped, few_maps):
    samples = make_grouping_problem(40, random_state=0)
    shown = CalibrationReport.from_predictions(
        samples.y, samples.y_proba, samples.X if grouped else None
    )
    assert [section.title for section in shown._document().sections] == [
        "By range of scores", *["By group"] * grouped, "Recalibration maps",
        "Where the loss comes from", "Tests", "Other numbers", "Method",
    ]  # fmt: skip


def test_figures(with_features, three_classes, comparison, drawn):
    for shown, figures in ((with_features, 2), (three_classes, 5), (comparison, 1)):
        page, _ = drawn(shown)
        assert len(Reader(page).all("svg")) == figures
        assert page.count("axes have a") == page.count("<figcaption>")  # scales are named
        assert len(set(re.findall(">(√ share|Share)<", page))) == 1


def test_figures_without_a_legend_need_no_error(three_classes, comparison, drawn):
    """An error is estimated for a legend only, which the comparison has."""
    page, n_errors = drawn(three_classes)
    assert page.count("<svg") >= 4 and n_errors == 0
    assert drawn(comparison)[1] == len(comparison.reports)


def test_of_many_classes_those_that_are_off_are_drawn(few_maps):
    samples = make_tempered_simplex(600, 8, score_temperature=1.0, random_state=0)
    shifted = samples.posterior * np.where(np.arange(8) == 5, 2.0, 1.0)
    shifted /= shifted.sum(axis=1, keepdims=True)
    for forecast, titles in ((samples.posterior, []), (shifted, ["Class 5"])):
        shown = CalibrationReport.from_predictions(samples.y, forecast)
        reader = Reader(shown._repr_html_())
        assert [t for t in reader.text if re.fullmatch(r"Class \d", t)] == titles
        assert len(reader.all("svg")) == 1 + (shown.recalibrated is not None) + len(titles)


def test_page_is_reproducible(few_maps):
    samples = make_tempered_simplex(40, 2, random_state=0)
    compare = ComparisonReport.from_predictions
    models = {"one": samples.y_proba, "two": samples.posterior}
    pages = [compare(samples.y, models, random_state=seed)._repr_html_() for seed in (0, 0, 1)]
    assert pages[0] == pages[1] != pages[2]


def test_names_are_text_and_no_markup(few_maps):
    samples = make_grouping_problem(800, random_state=0)
    frame = pd.DataFrame(samples.X, columns=[EVIL, f"{EVIL} too"])
    labels = np.array(["a" + EVIL, "b" + EVIL])
    shown = CalibrationReport.from_predictions(labels[samples.y], samples.y_proba, frame, name=EVIL)
    page = shown._repr_html_()
    reader = Reader(page)
    assert "script" not in {tag for tag, _ in reader.tags} and "<script" not in page
    for text in (f"Calibration report: {EVIL}", "of them b" + EVIL, f"where {EVIL[:40]}"):
        assert dense(text) in dense("".join(reader.text))


def test_edges(few_maps):
    """Hard forecasts, infinite log loss, ties, few samples: a page without NaN."""
    cases = {
        "hard": ([0, 1, 1, 0, 1], [0.0, 1.0, 1.0, 0.0, 1.0]),
        "hard and wrong": ([0, 1, 1, 0, 1, 0], [0.0, 1.0, 0.0, 0.0, 1.0, 1.0]),
        "constant": ([0, 1, 1, 0, 1, 0], [0.5] * 6),
        "one class": ([1, 1, 1, 1], [0.2, 0.9, 0.7, 0.6]),
        "two samples": ([0, 1], [0.3, 0.6]),
    }
    for name, (y, p) in cases.items():
        X = np.arange(len(y), dtype=float)[:, None]
        shown = CalibrationReport.from_predictions(y, p, X, labels=[0, 1], name=name)
        test_no_number_is_nan_and_lines_fit_a_terminal(shown, page := shown._repr_html_())
        if name == "hard and wrong":
            said = "The log loss is infinite: 2 labels were given probability 0."
            assert said in shown.verdict and "infinite" in str(shown) and "infinite" in page
    with pytest.raises(ValueError, match="At least 2 samples are needed"):
        CalibrationReport.from_predictions([1], [0.3])


@pytest.mark.parametrize(
    ("labels", "expected", "whole"),
    [
        ([date(2020, 1, 1), date(2021, 1, 1)], ["2020-01-01", "2021-01-01"], True),
        (np.array(["2020", "2021"], "M8[D]"), ["2020-01-01", "2021-01-01"], False),
        (np.array([1, 2], "m8[D]"), ["1 days", "2 days"], True),
        ([Decimal("1.5"), Decimal("2.5")], ["1.5", "2.5"], False),
        (np.array([b"a", b"b\xff"]), ["b'a'", "b'b\\xff'"], True),
        ([np.int8(1), np.int8(2)], [1, 2], False),
        (np.array([1, 2], np.float32), [1.0, 2.0], False),
        ([False, True], [False, True], False),
    ],
)
def test_classes_of_any_type_are_json(labels, expected, whole):
    classes = np.empty(2, dtype=object) if isinstance(labels, list) else np.asarray(labels)
    classes[:] = labels
    names = as_json(list(classes))
    assert names == json.loads(json.dumps(names)) == expected
    assert list(map(type, names)) == list(map(type, expected))
    if whole:  # a report takes longer
        y, proba = np.tile([0, 1, 1, 0], 5), np.tile([0.2, 0.6, 0.7, 0.4], 5)
        content = CalibrationReport.from_predictions(classes[y], proba, labels=classes).to_dict()
        assert json.loads(json.dumps(content, allow_nan=False)) == content
        assert content["classes"] == expected and content["event"] == str(expected[1])
