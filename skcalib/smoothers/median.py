"""Level sets of vector forecasts: cells cut at medians."""

import numpy as np

from skcalib.smoothers.partition import PartitionSmoother


class MedianCells(PartitionSmoother):
    """Cells of the simplex, cut at the median of the coordinate of largest variance (W19).

    The cell whose widest coordinate has the largest sum of squares is cut next, until there are
    `n_cells`. Ties are never split, so that equal forecasts share a cell. Unlike products of bins
    over all coordinates, the number of cells does not grow with the number of classes.

    Parameters
    ----------
    n_cells : int, default=15
        Maximum number of cells; fewer where the forecasts take fewer values.

    Attributes
    ----------
    cuts_ : list of tuple
        Splits in the order in which they were made: (cell, coordinate, value, new cell); what
        lies above the value goes to the new cell.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.smoothers import MedianCells
    >>> forecast = np.array([[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]])
    >>> MedianCells(2).fit(forecast, np.eye(3)[[0, 0, 1, 2]]).cells_
    array([1, 1, 0, 0])
    """

    def __init__(self, n_cells=15):
        self.n_cells = n_cells

    def _fit_cells(self, forecast):
        if not isinstance(self.n_cells, (int, np.integer)) or self.n_cells < 1:
            raise ValueError(f"n_cells must be a whole number of at least 1, got {self.n_cells!r}.")
        members = [np.arange(len(forecast))]
        best = [_widest(forecast)]
        self.cuts_ = []
        while len(members) < self.n_cells and max(best)[0] > 0:
            cell = int(np.argmax([spread for spread, *_ in best]))
            _, coordinate, value = best[cell]
            above = forecast[members[cell], coordinate] > value
            self.cuts_.append((cell, coordinate, value, len(members)))
            members.append(members[cell][above])
            members[cell] = members[cell][~above]
            best[cell] = _widest(forecast[members[cell]])
            best.append(_widest(forecast[members[-1]]))

    def _cell_keys(self, forecast):
        cells = np.zeros(len(forecast), dtype=np.int64)
        for cell, coordinate, value, new in self.cuts_:
            cells[(cells == cell) & (forecast[:, coordinate] > value)] = new
        return cells[:, None]


def _widest(forecast):
    """(sum of squares, coordinate, median) of the widest coordinate; 0 where nothing can be cut."""
    spread = len(forecast) * forecast.var(axis=0)
    coordinate = int(spread.argmax())
    column = np.sort(forecast[:, coordinate])
    if column[0] == column[-1]:
        return 0.0, 0, 0.0
    value = column[(len(column) - 1) // 2]
    if value == column[-1]:  # more than half are tied at the top: cut below them
        value = column[np.searchsorted(column, value) - 1]
    return float(spread[coordinate]), coordinate, float(value)
