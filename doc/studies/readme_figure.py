"""Write the figure of the README, ``doc/_static/decomposition.png``, from its gallery example."""

import runpy
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[2]


def write():
    """Run the example with a `show` that saves."""
    plt.show = lambda: plt.savefig(ROOT / "doc" / "_static" / "decomposition.png", dpi=110)
    runpy.run_path(str(ROOT / "examples" / "check" / "plot_decompose_three_classifiers.py"))


if __name__ == "__main__":
    write()
