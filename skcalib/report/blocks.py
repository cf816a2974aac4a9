"""What a page is made of; the same blocks become HTML and plain text, so that both agree."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """A paragraph; a ``soft`` one explains."""

    text: str
    soft: bool = False


@dataclass(frozen=True)
class Heading:
    """A heading inside of a section."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    lines: tuple


@dataclass(frozen=True)
class Row:
    """Cells of a table, the first one its heading; ``note`` is a sentence below that.

    ``marked`` cells, by number, stand out: by a star and by bold type, not by colour alone, which
    they have only where they are cause for ``alarm``.
    """

    cells: tuple
    note: str = ""
    marked: tuple = ()
    alarm: bool = True


@dataclass(frozen=True)
class Table:
    """A table with a caption, which screen readers and the terminal show, too.

    A ``compact`` one has short cells, and stays a table on a phone.
    """

    caption: str
    head: tuple
    rows: tuple
    compact: bool = False


@dataclass(frozen=True)
class Part:
    """A part of a bar, in percent of its width; ``low`` and ``high`` are where a whisker ends."""

    kind: str
    share: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Bar:
    """A stacked bar, and what it says in words."""

    label: str
    parts: tuple


@dataclass(frozen=True)
class Key:
    """What the kinds of parts of the bars above mean: (kind, meaning)."""

    entries: tuple


@dataclass(frozen=True)
class Picture:
    """A figure that is drawn when a page needs it; ``alt`` says what can be seen in it."""

    draw: Callable
    alt: str
    title: str = ""


@dataclass(frozen=True)
class Pictures:
    """Figures beside each other where there is room, with one caption; pages only."""

    pictures: tuple
    caption: str


@dataclass(frozen=True)
class Tile:
    """A number of the first screen: (value, what it is) pairs, and a line below."""

    values: tuple
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A heading and the blocks below it, which a reader opens."""

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
