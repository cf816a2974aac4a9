"""Intervals of means, p-values, laws of statistics, and bounds of binned errors."""
