"""Doctests close the figures that they draw: matplotlib warns of more than twenty open ones."""

import sys

import pytest


@pytest.fixture(autouse=True)
def closed_figures(request):
    yield
    if isinstance(request.node, pytest.DoctestItem) and "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
