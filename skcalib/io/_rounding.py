"""Rows of probabilities that sum to 1 up to rounding: normalized on request of the command line."""

from contextlib import contextmanager

import numpy as np

from skcalib.io._classes import ROUNDING


def normalize(proba, name):
    """Normalize rows that sum to 1 up to rounding; raise for other rows of the file `name`."""
    if proba.ndim == 1 or proba.shape[1] == 1:
        return proba
    totals = proba.sum(axis=1, keepdims=True)
    off = totals[np.abs(totals - 1) > ROUNDING]
    if len(off):
        raise ValueError(
            f"{name} has a row of probabilities that sums to {off[0]:.3g}: --normalize is for "
            f"rounding, up to {ROUNDING:g}."
        )
    return proba / totals


@contextmanager
def advice(proba):
    """Name the option for rows that sum to 1 up to rounding."""
    try:
        yield
    except ValueError as error:
        if "must sum to 1" in str(error) and _is_rounded(proba):
            raise ValueError(f"{error} On the command line: --normalize.") from error
        raise


def _is_rounded(proba):
    """Whether rows sum to 1 up to rounding."""
    return proba.ndim == 2 and np.abs(proba.sum(axis=1) - 1).max() <= ROUNDING
