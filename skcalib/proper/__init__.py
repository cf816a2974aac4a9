"""Proper calibration errors and their estimates of the calibrated forecast."""
