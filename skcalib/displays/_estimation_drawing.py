"""Drawing of errors against the sample size. matplotlib is imported inside functions."""

#: Lines of constant or expected error: what the legend calls them, and their style.
KEYS = {
    "prediction": ("expected by the folded normal law", "--"),
    "floor": ("expected if calibrated", ":"),
    "truth": ("truth", "-."),
}


def sized_axes():
    """Axes of a new figure."""
    import matplotlib.pyplot as plt

    from skcalib.displays._legends import keep_height

    figure, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
    keep_height(figure)
    return ax


def draw_curves(ax, curves, truths, *, name, shown, curve_style, band_style):
    """Means, bands and lines of all curves -> lists of artists by their kind."""
    from skcalib.displays._plotting import next_color, next_number, numbered

    artists = {part: [] for part in ("line", "band", *KEYS)}
    for curve in curves:
        color = curve_style.get("color") or next_color(ax)
        label = curve.name if name is None else f"{name}: {curve.name}"
        style, marker = numbered(next_number(ax))
        # Line styles tell predictions, floors and truths from means; markers tell the errors.
        style |= {"linestyle": "-", "color": color, "label": label}
        style |= {"marker": marker, "markersize": 4.5, "zorder": 3}
        artists["line"] += ax.plot(curve.size, curve.mean, **{**style, **curve_style})
        if shown["band"]:
            style = {"color": color, "alpha": 0.18, "linewidth": 0, "zorder": 1, **band_style}
            artists["band"].append(ax.fill_between(curve.size, curve.low, curve.high, **style))
        for part in ("prediction", "floor"):
            heights = getattr(curve, part)
            if shown[part] and heights is not None:
                style = {"color": color, "linestyle": KEYS[part][1], "linewidth": 1.5, "zorder": 4}
                artists[part] += ax.plot(curve.size, heights, **style)
        if curve.name in truths:
            style = {"color": color, "linestyle": KEYS["truth"][1], "linewidth": 1.0, "zorder": 2}
            artists["truth"].append(ax.axhline(truths[curve.name], **style))
    ax.set(xscale="log", xlabel="Number of samples", ylabel="Estimated error")
    return artists


def draw_keys(ax, artists, band):
    """Legend: a line for each error of all displays on the axes, and a grey key for each style."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from skcalib.displays._legends import place_legend

    handles = [line for line in ax.lines if not line.get_label().startswith("_")]
    grey = {"color": "0.35", "linewidth": 1.3}
    handles += [
        Line2D([], [], linestyle=style, label=text, **grey)
        for part, (text, style) in KEYS.items()
        if artists[part]
    ]
    if artists["band"]:
        handles.append(Patch(color="0.35", alpha=0.25, linewidth=0, label=band))
    place_legend(ax, [(handle, handle.get_label()) for handle in handles], ncols=2)
