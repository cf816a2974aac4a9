"""What a user without any optional package does: run from .ci/run in a fresh environment."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np

import skcalib

present = [
    name for name in ("pandas", "polars", "pyarrow", "dask") if importlib.util.find_spec(name)
]
assert not present, f"this environment has {present}"

rng = np.random.default_rng(0)
p = rng.uniform(size=3000)
y = (rng.random(3000) < p).astype(int)
Path("forecasts.csv").write_text(
    "label,0,1\n" + "".join(f"{a},{1 - b},{b}\n" for a, b in zip(y, p, strict=True))
)


def command(*words):
    """Exit status and all that the command line prints."""
    run = [sys.executable, "-m", "skcalib", *words]
    done = subprocess.run(run, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


given = "forecasts.csv", "--label-column", "label"
status, said = command("report", *given, "--out", "page.html")
assert status == 0, said
assert "</html>" in Path("page.html").read_text()
status, said = command("monitor", *given, "--state", "state", "--event", "1")
assert status == 0 and "3,000" in said, said
Path("forecasts.parquet").write_bytes(b"PAR1")
status, said = command("report", "forecasts.parquet")
assert status == 2 and "skcalib[parquet]" in said, said

report = skcalib.CalibrationReport.from_predictions(y, p, np.c_[p, rng.normal(size=3000)])
assert report.findings.grouping.grouping_loss is not None
monitor = skcalib.CalibrationMonitor(window=500).partial_fit(y, p)
assert skcalib.CalibrationMonitor.from_bytes(monitor.to_bytes()).to_bytes() == monitor.to_bytes()
try:
    skcalib.summarize({"y": y, "p": p}, y_true="y", y_proba="p")
except (TypeError, ValueError) as error:
    print(error)
else:
    raise AssertionError("a dict was summarised")
