"""The blocks of a document; a document as plain text for a terminal and as one HTML page.

Both are made of the same blocks, so they agree. The page is self-contained: it loads no script, no
font and no image from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from html import escape
from importlib.resources import files
from textwrap import fill, wrap
from typing import Any

from skcalib._util.formatting import printable


@dataclass(frozen=True)
class Text:
    """A paragraph; ``soft`` marks an explanation."""

    text: str
    soft: bool = False


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    lines: tuple


@dataclass(frozen=True)
class Row:
    """Cells of a table, the first one its heading; ``note`` is a sentence below that.

    ``marked`` cells, by number, are highlighted with a star and bold type. They are also coloured
    if ``alarm`` is True.
    """

    cells: tuple
    note: str = ""
    marked: tuple = ()
    alarm: bool = True


@dataclass(frozen=True)
class Table:
    """A table with a caption, which is also shown by screen readers and in the terminal.

    A ``compact`` table has short cells and remains a table on narrow screens.
    """

    caption: str
    head: tuple
    rows: tuple
    compact: bool = False


@dataclass(frozen=True)
class Part:
    """A part of a bar, in percent of its width; ``low`` and ``high`` are the ends of a whisker."""

    kind: str
    share: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Bar:
    """A stacked bar with its text description."""

    label: str
    parts: tuple


@dataclass(frozen=True)
class Key:
    """Legend of the parts of the bars above: (kind, meaning)."""

    entries: tuple


@dataclass(frozen=True)
class Picture:
    """A figure that is drawn when a page needs it; ``alt`` describes it."""

    draw: Callable
    alt: str
    title: str = ""


@dataclass(frozen=True)
class Pictures:
    """Figures side by side if they fit, in pages only; ``caption()`` gives their one caption."""

    pictures: tuple
    caption: Callable


@dataclass(frozen=True)
class Tile:
    """A number of the first screen: (value, description) pairs, and a line below."""

    values: tuple
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A collapsible section: a heading and the blocks below it."""

    title: str
    blocks: tuple


@dataclass(frozen=True)
class Document:
    """A page: the first screen, and sections with the details.

    The first screen holds the title, the headline, the sentences of the verdict, ``tiles`` with
    the most important numbers, ``opening`` blocks such as diagrams, and one line of ``code``.
    ``in_tiles`` are the sentences that a page shows as tiles. ``tone`` colours the verdict: "bad",
    "good" or "weak".
    """

    title: str
    subtitle: str
    headline: str
    verdict: tuple
    in_tiles: tuple
    tone: str
    tiles: tuple
    opening: tuple
    code: str
    sections: tuple


# --- Plain text -----------------------------------------------------------------------------------


def _printable(part: Any) -> Any:
    """A part of a document in which control characters of names are escaped."""
    if isinstance(part, str):
        return printable(part)
    if isinstance(part, tuple):
        return tuple(map(_printable, part))
    if is_dataclass(part) and not isinstance(part, type):
        values = {field.name: _printable(getattr(part, field.name)) for field in fields(part)}
        return replace(part, **values)
    return part


WIDTH = 96
_TEXT_BAR = 48
_SIGNS = {"calibration": "#", "grouping": "=", "rest": "."}


def render_text(document: Document, *, details: bool) -> str:
    """`Document` -> text: the first screen, or all of it."""
    document = _printable(document)
    lines = [document.title, *wrap(document.subtitle, WIDTH), "", *wrap(document.headline, WIDTH)]
    lines += [_text_point(sentence) for sentence in document.verdict]
    if document.code:
        lines += ["", f"  {document.code}"]
    lines += _text_blocks(block for block in document.opening if isinstance(block, Table))
    if not details:
        return "\n".join(lines)
    for section in document.sections:
        lines += ["", section.title, "-" * len(section.title), *_text_blocks(section.blocks)]
    return "\n".join(lines)


def _text_blocks(blocks):
    return [line for block in blocks for line in _text_lines(block)]


def _text_lines(block):
    """The lines of one block; pictures have none."""
    if isinstance(block, Text):
        return wrap(block.text, WIDTH)
    if isinstance(block, Heading):
        return ["", *wrap(block.text, WIDTH)]
    if isinstance(block, Points):
        return [_text_point(line) for line in block.lines]
    if isinstance(block, Key):
        return [f"  {_SIGNS[kind]} {meaning}" for kind, meaning in block.entries]
    if isinstance(block, Table):
        return _text_table(block)
    if isinstance(block, Bar):
        drawn, end = "", 0.0
        for part in block.parts:
            end += part.share
            drawn += _SIGNS[part.kind] * (round(_TEXT_BAR * end / 100) - len(drawn))
        return [*wrap(block.label, WIDTH), f"[{drawn}]"]
    return []


def _text_point(sentence):
    return fill(sentence, WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _text_table(table):
    """A table in columns; one that is too wide, a row below the other."""
    rows = [
        [f"{cell} *" if k in row.marked else cell for k, cell in enumerate(row.cells)]
        for row in table.rows
    ]
    widths = [max(map(len, column)) for column in zip(table.head, *rows, strict=True)]
    fits = sum(widths) + 2 * len(widths) <= WIDTH + 2

    def aligned(cells):
        first, *others = cells
        padded = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        return "  ".join([first.ljust(widths[0]), *padded]).rstrip()

    lines = ["", *wrap(table.caption, WIDTH), *([aligned(table.head)] if fits else [])]
    for row, cells in zip(table.rows, rows, strict=True):
        if fits:
            lines.append(aligned(cells))
        else:
            named = zip(table.head[1:], cells[1:], strict=True)
            indents = {"initial_indent": "    ", "subsequent_indent": "      "}
            lines += wrap(cells[0], WIDTH)
            lines += [fill(f"{name}: {cell}", WIDTH, **indents) for name, cell in named]
        if row.note:
            lines += wrap(row.note, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return lines


# --- A report as one self-contained HTML page -----------------------------------------------------


#: An interval or a p-value, which no line should break.
_WHOLE = re.compile(r"\[[^\[\]]{1,30}\]|p (?:=|&lt;) [\d.]+\d|[\d.,]+ (?:%|points)")
_MOST_COLUMNS = 5  # with more, rows are stacked on wide screens too
_MARK = '<meta name="generator" content="skcalib">'
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{mark}
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def render_page(document: Document) -> str:
    """`Document` -> a complete page."""
    body = render_body(document)
    title = escape(printable(document.title))
    return _PAGE.format(title=title, mark=_MARK, style=PAGE_STYLE, body=body)


def is_page(start: bytes) -> bool:
    """Whether a file that begins with these bytes is a page of `render_page`."""
    head = start.partition(b"<title>")[0]
    return head.startswith(b"<!DOCTYPE html>") and _MARK.encode() in head


def render_body(document: Document) -> str:
    """`Document` -> a fragment with its own style, for notebooks."""
    document = _printable(document)
    parts = [
        f"<style>{STYLE}</style>",
        '<article class="skcalib">',
        f"<h1>{escape(document.title)}</h1>",
        f'<p class="soft">{_words(document.subtitle)}</p>',
        f'<div class="verdict {document.tone}"><p class="headline">{escape(document.headline)}</p>',
        f"{_list(s for s in document.verdict if s not in document.in_tiles)}</div>",
    ]
    if document.tiles:
        parts.append(f'<div class="tiles">{"".join(map(_tile, document.tiles))}</div>')
    parts += map(_block, document.opening)
    if document.code:
        parts.append(f'<pre class="code" tabindex="0"><code>{escape(document.code)}</code></pre>')
    for section in document.sections:
        parts += ["<details>", f"<summary><h2>{escape(section.title)}</h2></summary>"]
        parts += [*map(_block, section.blocks), "</details>"]
    return "\n".join([*parts, "</article>"])


def _tile(tile):
    values = "".join(
        f'<p class="value"><strong>{_escape(value)}</strong> {escape(name)}</p>'
        for value, name in tile.values
    )
    note = f'<p class="soft">{_words(tile.note)}</p>' if tile.note else ""
    return f'<div class="tile">{values}{note}</div>'


def _words(text):
    """Text with no line break inside a number, interval or p-value."""
    return _WHOLE.sub(r'<span class="whole">\g<0></span>', _escape(text))


def _escape(text):
    """Escaped text with an arrow character that is kept on the line."""
    return escape(text).replace(" -&gt; ", "&nbsp;→ ")


def _list(lines):
    return f"<ul>{''.join(f'<li>{_words(line)}</li>' for line in lines)}</ul>"


def _block(block):
    """The HTML of one block."""
    if isinstance(block, Heading):
        return f"<h3>{escape(block.text)}</h3>"
    if isinstance(block, Points):
        return _list(block.lines)
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Bar):
        return _bar(block)
    if isinstance(block, Text):
        kind = ' class="soft"' if block.soft else ""
        return f"<p{kind}>{_words(block.text)}</p>"
    if isinstance(block, Key):
        items = [f'<li><span class="{k}"></span>{escape(text)}</li>' for k, text in block.entries]
        return f'<ul class="key soft">{"".join(items)}<li>thin lines: intervals</li></ul>'
    kind = {1: " single", 2: " pair"}.get(len(block.pictures), "")
    drawn = "".join(_picture(picture) for picture in block.pictures)
    return (
        f'<figure><div class="panels{kind}">{drawn}</div>'
        f"<figcaption>{escape(printable(block.caption()))}</figcaption></figure>"
    )


def _table(table):
    """ARIA roles are explicit, because narrow screens display the cells as blocks."""
    head = "".join(
        f'<th scope="col" role="columnheader">{escape(name)}</th>' for name in table.head
    )
    rows = []
    for row in table.rows:
        tone, cells = " alarm" if row.alarm else "", ""
        note = f'<span class="note">{_words(row.note)}</span>' if row.note else ""
        for k, (name, cell) in enumerate(zip(table.head, row.cells, strict=True)):
            marked, star = (f' class="marked{tone}"', "&nbsp;*") if k in row.marked else ("", "")
            if k == 0:
                cells += f'<th scope="row" role="rowheader"{marked}>{escape(cell)}{star}{note}</th>'
            else:
                label = f' data-head="{escape(name)}"'
                cells += f'<td role="cell"{marked}{label}>{_words(cell)}{star}</td>'
        rows.append(f'<tr role="row">{cells}</tr>')
    body = "\n".join(rows)
    kind = ' class="compact"' if table.compact else ""
    if len(table.head) > _MOST_COLUMNS:
        kind = ' class="many"'
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(table.caption)}">'
        f'<table role="table"{kind}><caption>{_words(table.caption)}</caption>'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{body}</tbody></table></div>'
    )


def _bar(bar):
    parts = "".join(
        f'<span class="{part.kind}" style="width:{part.share:.2f}%"></span>' for part in bar.parts
    )
    parts += "".join(
        f'<span class="whisker {part.kind}" '
        f'style="left:{part.low:.2f}%;width:{part.high - part.low:.2f}%"></span>'
        for part in bar.parts
        if part.low is not None
    )
    drawn = f'<div class="bar" role="img" aria-label="{escape(bar.label)}">{parts}</div>'
    return f'<div class="loss"><p>{_words(bar.label)}</p>{drawn}</div>'


def _picture(picture):
    """The drawing as one image for screen readers, which read its alternative text."""
    named = f'<svg role="img" aria-label="{escape(picture.alt)}" '
    title = f'<p class="title">{escape(picture.title)}</p>' if picture.title else ""
    return f"<div>{title}{picture.draw().replace('<svg ', named, 1)}</div>"


# --- The style sheet of a report: light, dark, narrow and printed ---------------------------------


STYLE = "\n" + files(__package__).joinpath("style.css").read_text(encoding="utf-8")

PAGE_STYLE = """
body { margin: 0; background: #ffffff; }
@media (prefers-color-scheme: dark) { body { background: #16181b; } }
@media print { body { background: #ffffff; } @page { margin: 1.6cm; } }
"""
