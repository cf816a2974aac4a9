"""Calls that are refused, and the words that say why."""

import pytest


def check_refusals(*cases, error=ValueError):
    """Each case is a call and a pattern of its message."""
    for call, words in cases:
        with pytest.raises(error, match=words):
            call()
