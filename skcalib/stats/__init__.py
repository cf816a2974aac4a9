"""Intervals of means, p-values, and laws of statistics."""
