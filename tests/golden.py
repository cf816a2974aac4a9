"""The golden values of ../shared, with which tests of several folders compare."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).parents[2] / "shared" / "golden"
needs_golden = pytest.mark.skipif(
    not (GOLDEN / "golden.json").exists(), reason=f"the golden values are not at {GOLDEN}"
)


@cache
def golden_rows(name):
    """Records of the quantities of one input."""
    rows = json.loads((GOLDEN / "golden.json").read_text(encoding="utf-8"))
    return [row for row in rows if row["input"] == name]


@cache
def golden_input(name):
    """Labels and probabilities, which are one column for two classes."""
    with np.load(GOLDEN / f"{name}.npz") as file:
        return file["y"], file["probs"]
