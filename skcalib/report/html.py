"""A report as one self-contained HTML page: no script, no font and no image from elsewhere."""

import re
from html import escape

from skcalib.report.blocks import Bar, Heading, Key, Pictures, Points, Table, Text
from skcalib.report.style import PAGE_STYLE, STYLE

#: An interval or a p-value, which no line should break.
_WHOLE = re.compile(r"\[[^\[\]]{1,30}\]|p (?:=|&lt;) [\d.]+\d|[\d.,]+ (?:%|points)")
_MOST_COLUMNS = 5  # beyond, rows are laid out below each other on wide screens, too
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
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


def render_page(document):
    """`Document` -> a complete page."""
    body = render_body(document)
    return _PAGE.format(title=escape(document.title), style=PAGE_STYLE, body=body)


def render_body(document):
    """`Document` -> a fragment with its own style, for notebooks."""
    kind = f"verdict {document.tone}"
    parts = [
        f"<style>{STYLE}</style>",
        '<article class="skcalib">',
        f"<h1>{escape(document.title)}</h1>",
        f'<p class="soft">{_words(document.subtitle)}</p>',
        f'<div class="{kind}"><p class="headline">{escape(document.headline)}</p>',
        f"{_list(s for s in document.verdict if s not in document.in_tiles)}</div>",
    ]
    if document.tiles:
        tiles = "".join(map(_tile, document.tiles))
        parts.append(f'<div class="tiles">{tiles}</div>')
    parts += [_RENDERERS[type(block)](block) for block in document.opening]
    if document.code:
        parts.append(f'<pre class="code" tabindex="0"><code>{escape(document.code)}</code></pre>')
    for section in document.sections:
        parts += ["<details>", f"<summary><h2>{escape(section.title)}</h2></summary>"]
        parts += [_RENDERERS[type(block)](block) for block in section.blocks]
        parts.append("</details>")
    return "\n".join([*parts, "</article>"])


def _tile(tile):
    values = "".join(
        f'<p class="value"><strong>{_escape(value)}</strong> {escape(name)}</p>'
        for value, name in tile.values
    )
    note = f'<p class="soft">{_words(tile.note)}</p>' if tile.note else ""
    return f'<div class="tile">{values}{note}</div>'


def _words(text):
    """Text that breaks its lines between numbers only."""
    return _WHOLE.sub(r'<span class="whole">\g<0></span>', _escape(text))


def _escape(text):
    """Escaped text with a real arrow, which no line breaks off."""
    return escape(text).replace(" -&gt; ", "&nbsp;→ ")


def _text(block):
    kind = ' class="soft"' if block.soft else ""
    return f"<p{kind}>{_words(block.text)}</p>"


def _list(lines):
    return f"<ul>{''.join(f'<li>{_words(line)}</li>' for line in lines)}</ul>"


def _table(table):
    """Roles are given again, because narrow screens lay the cells out as blocks."""
    head = "".join(
        f'<th scope="col" role="columnheader">{escape(name)}</th>' for name in table.head
    )
    rows = "\n".join(f'<tr role="row">{_row(row, table.head)}</tr>' for row in table.rows)
    kind = ' class="compact"' if table.compact else ""
    if len(table.head) > _MOST_COLUMNS:
        kind = ' class="many"'
    return (
        f'<table role="table"{kind}><caption>{_words(table.caption)}</caption>'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{rows}</tbody></table>'
    )


def _row(row, head):
    cells, tone = [], " alarm" if row.alarm else ""
    for k, (name, cell) in enumerate(zip(head, row.cells, strict=True)):
        marked, star = (f' class="marked{tone}"', "&nbsp;*") if k in row.marked else ("", "")
        if k == 0:
            note = f'<span class="note">{_words(row.note)}</span>' if row.note else ""
            cells.append(
                f'<th scope="row" role="rowheader"{marked}>{escape(cell)}{star}{note}</th>'
            )
        else:
            label = f' data-head="{escape(name)}"'
            cells.append(f'<td role="cell"{marked}{label}>{_words(cell)}{star}</td>')
    return "".join(cells)


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


def _key(key):
    items = "".join(
        f'<li><span class="{kind}"></span>{escape(meaning)}</li>' for kind, meaning in key.entries
    )
    return f'<ul class="key soft">{items}<li>thin lines: intervals</li></ul>'


def _pictures(block):
    kind = {1: " single", 2: " pair"}.get(len(block.pictures), "")
    drawn = "".join(_picture(picture) for picture in block.pictures)
    return (
        f'<figure><div class="panels{kind}">{drawn}</div>'
        f"<figcaption>{escape(block.caption)}</figcaption></figure>"
    )


def _picture(picture):
    """The drawing as one image for screen readers, which read its text instead."""
    named = f'<svg role="img" aria-label="{escape(picture.alt)}" '
    title = f'<p class="title">{escape(picture.title)}</p>' if picture.title else ""
    return f"<div>{title}{picture.draw().replace('<svg ', named, 1)}</div>"


_RENDERERS = {
    Text: _text,
    Heading: lambda block: f"<h3>{escape(block.text)}</h3>",
    Points: lambda block: _list(block.lines),
    Table: _table,
    Bar: _bar,
    Key: _key,
    Pictures: _pictures,
}
