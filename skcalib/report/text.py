"""A report as plain text for a terminal."""

from textwrap import fill, wrap

from skcalib.report.blocks import Bar, Heading, Key, Pictures, Points, Table, Text

WIDTH = 96
_BAR = 48
_SIGNS = {"calibration": "#", "grouping": "=", "rest": "."}


def render_text(document, *, details):
    """`Document` -> text: the first screen, or all of it."""
    lines = [document.title, *wrap(document.subtitle, WIDTH), "", *wrap(document.headline, WIDTH)]
    lines += [_point(sentence) for sentence in document.verdict]
    if document.code:
        lines += ["", f"  {document.code}"]
    lines += _blocks(block for block in document.opening if isinstance(block, Table))
    if not details:
        return "\n".join(lines)
    for section in document.sections:
        lines += ["", section.title, "-" * len(section.title), *_blocks(section.blocks)]
    return "\n".join(lines)


def _blocks(blocks):
    return [line for block in blocks for line in _RENDERERS[type(block)](block)]


def _point(sentence):
    return fill(sentence, WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _bar(bar):
    drawn, end = "", 0.0
    for part in bar.parts:
        end += part.share
        drawn += _SIGNS[part.kind] * (round(_BAR * end / 100) - len(drawn))
    return [*wrap(bar.label, WIDTH), f"[{drawn}]"]


def _key(key):
    return [f"  {_SIGNS[kind]} {meaning}" for kind, meaning in key.entries]


def _table(table):
    rows = [tuple(_cells(row)) for row in table.rows]
    widths = [max(map(len, column)) for column in zip(table.head, *rows, strict=True)]
    lines = ["", *wrap(table.caption, WIDTH)]
    if sum(widths) + 2 * len(widths) > WIDTH + 2:
        return lines + _stacked(table, rows)
    lines.append(_aligned(table.head, widths))
    for row, cells in zip(table.rows, rows, strict=True):
        lines.append(_aligned(cells, widths))
        if row.note:
            lines += wrap(row.note, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return lines


def _cells(row):
    return [f"{cell} *" if k in row.marked else cell for k, cell in enumerate(row.cells)]


def _aligned(cells, widths):
    first, *others = (
        f"{cell:{'>' if k else '<'}{width}}"
        for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([first, *others]).rstrip()


def _stacked(table, rows):
    """A table that is too wide, row by row."""
    lines = []
    for row, cells in zip(table.rows, rows, strict=True):
        lines += wrap(cells[0], WIDTH)
        lines += [
            fill(f"{name}: {cell}", WIDTH, initial_indent="    ", subsequent_indent="      ")
            for name, cell in zip(table.head[1:], cells[1:], strict=True)
        ]
        if row.note:
            lines += wrap(row.note, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return lines


_RENDERERS = {
    Text: lambda block: wrap(block.text, WIDTH),
    Heading: lambda block: ["", *wrap(block.text, WIDTH)],
    Points: lambda block: [_point(line) for line in block.lines],
    Bar: _bar,
    Key: _key,
    Pictures: lambda block: [],
    Table: _table,
}
