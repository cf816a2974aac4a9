r"""The scale of decision values and of logits: a robust spread, learned once and stored.

The margin of class k in K columns z is :math:`z_k` minus the mean of the other columns: the log
odds of k against the others, if z are logits. One column d of two classes stands for the columns
-d/2 and d/2, with the margins -d and d. The unit of columns is that in which the margins spread as
the standard logistic law, with the standard deviation :math:`\pi / \sqrt 3`. Means and standard
deviations are winsorised: the smallest and the largest hundredth of the values of a column are
moved to its percentiles 1 and 99.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skcalib.links.ranks import LARGEST, RankCurve, divided, heavy_tails

_DEVIATION = np.pi / np.sqrt(3)  # of the standard logistic law
_TAIL = 0.01  # share of the values on each side that are winsorised
_OFFSET = 10.0  # size of the mean of a margin at most
_FINEST = 1e-12  # a spread that is a smaller share of the median size is rounding
_MOST_VALUES = 1 << 20  # from which a spread is computed
_ORDINARY = 0.005, 10.0  # units of logits that are left as they are
_FAR = 700.0  # below the largest logit of a row, where its probability is nearly 0
_FLOAT = np.finfo(np.float64)


@dataclass(frozen=True, eq=False)
class LogitScale:
    """How columns (n, K) become logits: centred rows divided by ``unit``, minus ``shift``.

    Columns with heavy tails first become ``tails(columns)`` (see `RankCurve`).
    """

    unit: float = 1.0
    shift: np.ndarray | float = 0.0
    tails: RankCurve | None = None

    @classmethod
    def of(cls, columns: np.ndarray, tails: bool = True) -> LogitScale:
        """The unit of columns, and a shift that is 0 unless a margin is far from 0.

        It moves the mean of each margin to within ten units of 0. Tails are mapped with `tails`.
        """
        standard, to_margin = cls.standard(columns, tails), 1 - 1 / columns.shape[1]
        offset = standard.shift / to_margin
        excess = offset - np.clip(offset, -_OFFSET, _OFFSET)
        return cls(standard.unit, excess * to_margin, standard.tails)

    @classmethod
    def standard(cls, columns: np.ndarray, tails: bool = True) -> LogitScale:
        """The unit and the mean of columns, which are NaN where one is unknown in a row.

        If all margins are equal, up to rounding, the largest is the unit.
        """
        columns = _some_rows(columns)
        curve = heavy_tails(columns, _power(1.0, _exponent(columns))) if tails else None
        margins, exponent = _margins(columns if curve is None else curve(columns))
        mean, spread = _moments(margins)
        unit = spread or float(np.nanmax(np.abs(margins))) or 1.0
        return cls(_power(unit, exponent), mean / unit * (1 - 1 / columns.shape[1]), curve)

    def logits(self, columns: np.ndarray) -> np.ndarray:
        """Logits of columns (n, K)."""
        columns = columns if self.tails is None else self.tails(columns)
        return _centred(divided(columns, self.unit)) - self.shift

    def after(self, first: LogitScale) -> LogitScale:
        """The scale that gives the logits that this one, without tails, makes of the first's."""
        unit = _finite(first.unit * self.unit)
        return LogitScale(unit, first.shift / self.unit + self.shift, first.tails)


def logit_unit(logits: np.ndarray) -> tuple[float, RankCurve | None]:
    """What logits (n, K) are divided by: 1, unless their softmax would saturate or be flat.

    It is flat below a unit of 0.005, and saturated above 10; then it is the unit of `LogitScale`.
    If such logits have heavy tails, a `RankCurve` maps them instead.
    """
    logits = _some_rows(logits)
    margins, exponent = _margins(logits)
    (_, spread), (low, high) = _moments(margins), _ORDINARY
    if spread == 0:  # a single forecast may be certain, but is not flat
        spread, low = float(np.abs(margins).max()), 0.0
    unit = _power(spread, exponent)
    if spread == 0 or low <= unit <= high:
        return 1.0, None
    tails = heavy_tails(logits, _power(1.0, exponent))
    return (unit if tails is None else 1.0), tails


def in_units(logits: np.ndarray, unit: float, tails: RankCurve | None = None) -> np.ndarray:
    r"""Logits (n, K) divided by a unit, with differences in a row that have a finite square.

    A difference z to the largest of the row of more than :math:`z_0 = 700` becomes
    :math:`z_0 + \log(1 + z - z_0)`. The softmax of both is nearly 0. The largest of such a row is
    moved to within 700, from where no difference is lost. Tails are mapped first.
    """
    if tails is not None:
        logits = tails(logits)
    if unit == 1 and np.abs(logits).max(initial=0) <= _FAR / 2:
        return logits
    values = divided(logits, unit)
    largest = values.max(axis=1, keepdims=True)
    below = largest - values
    far = below.max(axis=1, initial=0) > _FAR
    if far.any():
        largest, below = np.clip(largest[far], -_FAR, _FAR), below[far]
        values[far] = largest - np.minimum(below, _FAR) - np.log1p(np.maximum(below - _FAR, 0))
        return values
    return logits if unit == 1 else values


def _some_rows(columns):
    n_rows = min(len(columns), max(1000, _MOST_VALUES // columns.shape[1]))
    if n_rows < len(columns):
        columns = columns[np.linspace(0, len(columns) - 1, n_rows).astype(int)]
    return columns.astype(np.float64)


def _exponent(columns):
    """That of the power of two next to the median size of the values."""
    exponents = np.frexp(columns[(columns != 0) & ~np.isnan(columns)])[1]
    return int(np.median(exponents)) if exponents.size else 0


def _margins(columns):
    """Margins of some rows, times a power of two that keeps squares finite, and its exponent."""
    columns = _some_rows(columns)
    exponent = _exponent(columns)
    with np.errstate(over="ignore", under="ignore"):
        columns = np.clip(np.ldexp(columns, -exponent), -LARGEST, LARGEST)
    return _centred(columns) / (1 - 1 / columns.shape[1]), exponent


def _moments(margins):
    """Means (K,) of margins, and their spread in units of the logistic law; 0 if it is rounding."""
    known = ~np.isnan(margins).all(axis=0)
    mean, values = np.zeros(len(known)), margins[:, known]
    ends = np.nanquantile(values, [_TAIL, 1 - _TAIL], axis=0)
    for most in (np.clip(values, *ends), values):  # the second if all but a few are equal
        mean[known] = np.nanmean(most, axis=0)
        spread = float(np.sqrt(np.nanmean((most - mean[known]) ** 2))) / _DEVIATION
        if spread > _FINEST:
            return mean, spread
    return mean, 0.0


def _centred(columns):
    return columns - np.nanmean(columns, axis=1, keepdims=True)


def _power(unit, exponent):
    with np.errstate(over="ignore", under="ignore"):
        return _finite(np.ldexp(unit, exponent))


def _finite(unit):
    return float(np.clip(unit, _FLOAT.tiny, _FLOAT.max))
