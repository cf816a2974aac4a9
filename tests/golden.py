"""The golden values of ../shared, and a few samples for loops, for tests of several folders."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).parents[2] / "shared" / "golden"
needs_golden = pytest.mark.skipif(
    not (GOLDEN / "golden.json").exists(), reason=f"the golden values are not at {GOLDEN}"
)

# Fourteen samples of three classes: ties, a sample that is alone, exact 0 and 1.
P3 = np.array(
    [
        (0.7, 0.2, 0.1),
        (0.1, 0.6, 0.3),
        (0.25, 0.25, 0.5),
        (0.25, 0.25, 0.5),
        (0.9, 0.05, 0.05),
        (0.02, 0.08, 0.9),
        (0.4, 0.35, 0.25),
        (0.33, 0.33, 0.34),
        (0.15, 0.7, 0.15),
        (0.6, 0.1, 0.3),
        (0.05, 0.45, 0.5),
        (0.8, 0.15, 0.05),
        (1.0, 0.0, 0.0),
        (0.0, 0.75, 0.25),
    ]
)
Y3 = np.array([0, 1, 2, 0, 0, 2, 1, 0, 1, 2, 1, 0, 0, 2])


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
