"""Drawing of the parts of losses on matplotlib axes, which callers bring."""

import numpy as np

# Of Okabe and Ito: distinguishable for readers of any colour vision, and of different lightness.
COLORS = {"calibration": "#d55e00", "grouping": "#56b4e9", "rest": "#d9d9d9"}
_HEIGHT = 0.46
_WIDE = 4.0  # inches that a line of numbers needs
_OFFSET = {"calibration": -0.11, "grouping": 0.11}  # so that whiskers do not meet


def draw_terms(ax, terms, *, level, values, legend, bar_style, whisker_style):
    """Bars and whiskers by the name of the part, and the marks of the losses."""
    rows = np.arange(len(terms))
    names = [name for name in _OFFSET if any(name in term.parts for term in terms)]
    lengths = {name: np.array([_estimate(term, name) for term in terms]) for name in names}
    lengths["rest"] = np.array([term.rest for term in terms])
    texts = {
        "calibration": "Calibration",
        "grouping": "Grouping (at least)",
        "rest": "Rest: irreducible (at most)" if "grouping" in names else "Refinement",
    }
    # Positive parts are stacked to the right of zero, negative ones to the left.
    right, left = np.zeros(len(terms)), np.zeros(len(terms))
    bars, whiskers = {}, {}
    for name, length in lengths.items():
        start = np.where(length < 0, left, right)
        style = {"height": _HEIGHT, "color": COLORS[name], "label": texts[name], "zorder": 2}
        bars[name] = ax.barh(rows, length, left=start, **{**style, **bar_style})
        if name in names:
            label = f"{level} interval" if name == names[0] else None
            style = {"fmt": ".", "color": "black", "markersize": 3.5, "capsize": 2.5}
            style |= {"linewidth": 1.0, "label": label, "zorder": 4, **whisker_style}
            whiskers[name] = _whiskers(ax, terms, name, start, style)
        right, left = right + np.maximum(length, 0), left + np.minimum(length, 0)
    losses = np.array([term.loss for term in terms])
    span = (rows - _HEIGHT / 2, rows + _HEIGHT / 2)
    ax.vlines(np.zeros(len(rows)), *span, color="black", linewidth=0.8, zorder=3)
    marks = ax.vlines(losses, *span, color="black", linewidth=2, zorder=5, label="Loss")
    wide = ax.get_window_extent().width / ax.figure.dpi > _WIDE
    _write(ax, terms, right, values=wide if values == "auto" else values)
    if legend:
        place = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "frameon": False}
        place |= {"ncols": 3, "fontsize": "small"} if wide else {"ncols": 2, "fontsize": "x-small"}
        handles = [*bars.values(), marks, whiskers[names[0]]]
        ax.legend(handles=handles, handlelength=1.2, columnspacing=1.2, **place)
    return bars, whiskers, marks


def _estimate(term, name):
    return term.parts[name].estimate if name in term.parts else 0.0


def _whiskers(ax, terms, name, start, style):
    """Intervals of one part, each from the start of its bar, cut at zero, as no part is negative.

    An estimate below zero is marked at zero, with the upper limit that its text has.
    """
    here = [k for k, term in enumerate(terms) if name in term.parts]
    parts = [terms[k].parts[name] for k in here]
    estimate, low, high = (
        np.array([getattr(part, field) for part in parts]) for field in ("estimate", "low", "high")
    )
    shown = np.maximum(estimate, 0)
    reach = np.stack([shown - np.maximum(low, 0), np.maximum(high, high - estimate) - shown])
    reach = np.where(np.isfinite(high - low), reach, 0.0)  # a single sample has no spread to show
    return ax.errorbar(
        np.maximum(start[here], 0) + shown,
        np.array(here) + _OFFSET[name],
        xerr=np.maximum(reach, 0),
        **style,
    )


def _write(ax, terms, right, *, values):
    """Names, losses and numbers of the rows, the first on top."""
    rows = range(len(terms))
    for row, term in enumerate(terms):
        ax.annotate(
            f"{term.loss:#.3g}",
            (max(right[row], term.loss), row),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
        if values:
            ax.annotate(
                str(term),
                (0, row - _HEIGHT / 2),
                xycoords=("axes fraction", "data"),
                xytext=(3, 2),
                textcoords="offset points",
                va="bottom",
                fontsize="x-small",
            ).set_in_layout(False)  # a long line must not squeeze the bars
    ax.set_yticks(rows, [term.name for term in terms])
    ax.set_ylim(len(terms) - 0.65, -0.55 if values else -0.35)
    ax.tick_params(left=False)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.margins(x=0.08)
