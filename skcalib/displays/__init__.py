"""Displays: figures in the manner of scikit-learn. matplotlib is imported only to draw."""

from skcalib.displays.reliability import ReliabilityDisplay

__all__ = ["ReliabilityDisplay"]
