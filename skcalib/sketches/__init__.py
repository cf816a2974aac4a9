"""Sums over cells of the forecasts, which stand for the samples."""
