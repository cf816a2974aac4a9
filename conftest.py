"""Tests and doctests close the figures that they draw: matplotlib warns of more than twenty."""

import sys

import pytest


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
