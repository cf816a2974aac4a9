"""Short sentences where a reader starts, and no page of the guide that takes long to read.

The mean sentence of README, start page and each page of the guide has at most 18 words. Code,
directives, tables, formulas and headings are left out. An item of a list is a sentence at least; a
colon or a semicolon does not end one. A name in backquotes or a formula is one word.

Reading time of a page of the guide is words / 200 + lines of code / 20 + rows of tables / 20
minutes: prose is read, code is read line by line, and a table is searched for one row.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "doc" / "user_guide"
pytestmark = pytest.mark.skipif(not GUIDE.exists(), reason="needs the folder doc")

MOST_WORDS = 18
MOST_MINUTES = 8
#: Directives whose body is prose.
PROSE = {"note", "warning", "admonition", "rubric", "container", "topic"}
_DIRECTIVE = re.compile(r"\.\. (?:\|\w+\| )?([\w:-]+)::(.*)")
_TABLE = re.compile(r"=+(?: +=+)+|[+|].*")
_ITEM = re.compile(r"^(?:[-*]|\d+\.|#\.) +")


def blocks(text):
    """Kind ("prose", "code", "table") and lines of the blocks of a page, in order."""
    lines = text.expandtabs().splitlines()
    i = 0
    while i < len(lines):
        line, start = lines[i].strip(), i
        if not line:
            i += 1
            continue
        indent = len(lines[i]) - len(lines[i].lstrip())
        if line.startswith(".. ") or line == "..":
            directive = _DIRECTIVE.match(line)
            i = _end_of_body(lines, start + 1, indent)
            body = lines[start + 1 : i]
            if directive and directive[1] in PROSE:
                yield from blocks("\n".join(x.strip() for x in [directive[2], "", *body]))
            elif directive and directive[1] in ("code-block", "code"):
                yield "code", [x for x in body if x.strip() and not x.lstrip().startswith(":")]
            elif directive and directive[1] == "list-table":
                yield "table", [x for x in body if x.lstrip().startswith("* ")]
            continue
        table = _TABLE.fullmatch(line) and not re.fullmatch(r"=+", line)
        while i < len(lines) and (lines[i].strip() or (table and _inside_table(lines, start, i))):
            i += 1
        if table:
            yield "table", [x for x in lines[start:i] if re.match(rf" {{{indent}}}[^\s=+]", x)]
            continue
        yield "code" if line.startswith(">>>") else "prose", lines[start:i]
        if lines[i - 1].rstrip().endswith("::"):  # a literal block follows
            end = _end_of_body(lines, i, indent)
            yield "code", [x for x in lines[i:end] if x.strip()]
            i = end


def _end_of_body(lines, start, indent):
    """The first line from `start` that is indented no deeper than `indent`."""
    for i in range(start, len(lines)):
        if lines[i].strip() and len(lines[i]) - len(lines[i].lstrip()) <= indent:
            return i
    return len(lines)


def _inside_table(lines, start, i):
    """Whether the blank line `i` is inside the simple table of which `start` is the first line."""
    rules = [k for k in range(start, i) if lines[k].strip() == lines[start].strip()]
    return len(rules) == 2 and lines[start].strip() in (x.strip() for x in lines[i : i + 8])


def sentences(text):
    """Words of each sentence of a page."""
    items = (item for kind, block in blocks(text) if kind == "prose" for item in _items(block))
    texts = (
        sentence for item in items for sentence in re.split(r"(?<=[.!?])[)*\"']*\s+", _plain(item))
    )
    words_of_sentences = (
        [word for word in text.split() if re.search(r"\w", word)] for text in texts
    )
    return [words for words in words_of_sentences if words]


def _items(block):
    """The paragraphs, or items of a list, of a block, without headings."""
    item = []
    for i, line in enumerate(block):
        following = block[i + 1] if i + 1 < len(block) else ""
        if _is_heading((line, following)):
            continue
        if _ITEM.match(line.lstrip()) and item:
            yield " ".join(item)
            item = []
        item.append(_ITEM.sub("", line.strip(), count=1))
    yield " ".join(item)


def _plain(text):
    """Text without markup."""
    text = re.sub(r":(?:\w+:)?math:`[^`]*`", "x", text)
    text = re.sub(r"``.*?``", "x", text)
    text = re.sub(r":[\w:]+:`([^`<]*?)\s*(?:<[^`]*>)?`", r"\1", text)
    text = re.sub(r"`([^`<]*?)\s*<[^`]*>`__?", r"\1", text)
    text = re.sub(r"`([^`]*)`", "x", text)
    return re.sub(r"\b(?:e\.g|i\.e|et al|vs|cf|eq|Eq|No|s\.e)\.", "x", text)


def markdown(text):
    """A page of Markdown as the few marks of reStructuredText that are read here."""
    text = re.sub(r"(?s)<!--.*?-->", "", text)
    text = re.sub(r"(?ms)^```.*?^```$", "", text)
    text = re.sub(r"(?m)^(?:#.*|\|.*|!\[.*)$", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`([^`]*)`", "x", text)


def mean_sentence(text):
    lengths = [len(words) for words in sentences(text)]
    return sum(lengths) / len(lengths)


def minutes(text):
    lines = sum(len(block) for kind, block in blocks(text) if kind != "prose")
    return sum(map(len, sentences(text))) / 200 + lines / 20


#: Pages where one looks up a line: tables, without a figure.
LOOKED_UP = {
    *("benchmarks", "beyond_one_machine", "conventions", "guarantees", "index", "migration"),
    *("a_to_z", "symbols", "thirty_tasks"),
}
PAGES = sorted(path.stem for path in GUIDE.glob("*.rst"))


def page(name):
    return (GUIDE / f"{name}.rst").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_sentences_of_the_guide_are_short(name):
    assert mean_sentence(page(name)) <= MOST_WORDS


def test_sentences_of_readme_and_start_page_are_short():
    readme = ROOT / "README.md"
    if readme.exists():
        assert mean_sentence(markdown(readme.read_text(encoding="utf-8"))) <= MOST_WORDS
    start = (ROOT / "doc" / "index.rst").read_text(encoding="utf-8")
    assert mean_sentence(start) <= MOST_WORDS


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_read_within_minutes_and_code_is_not_cut_at_the_right_edge(name):
    """See the size of the font in skcalib.css."""
    assert minutes(page(name)) < MOST_MINUTES
    code = [line for kind, block in blocks(page(name)) if kind == "code" for line in block]
    assert not [line for line in code if len(line) > 100]


@pytest.mark.parametrize("name", [name for name in PAGES if name not in LOOKED_UP])
def test_pages_have_a_figure(name):
    assert re.search(r"\.\. (?:figure|plot|image)::|/_static/tower\.svg", page(name))


@pytest.mark.parametrize("name", [name for name in PAGES if name != "index"])
def test_pages_begin_with_a_question(name):
    """In italics, before anything else."""
    first = next(block for kind, block in blocks(page(name)) if not _is_heading(block))
    assert re.match(r"\*[^*]+\?\*", " ".join(first)), first[0]


def _is_heading(block):
    return any(re.fullmatch(r"([=\-~^*#])\1{2,}", line.strip()) for line in block)


KINDS = ("code", "table")
SAMPLE = """.. _label:

=====
Title
=====

*Is it short?* Yes, see :func:`~skcalib.calibration_error` and ``a. B`` at .05. It has
:math:`x. Y` too:

>>> print("not. Counted.")
not. Counted.

- one item
- another item of
  two lines

====  =====
Head  Other
====  =====
a     b
      c
d     e
====  =====

.. note:: A note. Of two sentences.

.. code-block:: python

   x = 1
   y = 2

.. figure:: picture.png
   :alt: Words that do not count.

   A caption.
"""


def test_what_is_counted():
    texts = [" ".join(words) for words in sentences(SAMPLE)]
    assert texts[0] == "*Is it short?"
    assert len(texts[1].split()) == 7 and texts[1].startswith("Yes, see")
    assert texts[2:5] == ["It has x too:", "one item", "another item of two lines"]
    assert texts[5:] == ["A note.", "Of two sentences."]
    code, table = ([x for k, b in blocks(SAMPLE) if k == kind for x in b] for kind in KINDS)
    assert len(code) == 4  # an example, its output and two lines
    assert [line.split()[0] for line in table] == ["Head", "a", "d"]
    assert minutes(SAMPLE) == pytest.approx(26 / 200 + 4 / 20 + 3 / 20)
