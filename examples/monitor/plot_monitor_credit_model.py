"""
Monitor a credit model for three years
======================================

A model forecasts the probability of default. It is calibrated in its first year. Then the slope of
its logit drifts: high forecasts are too high and low ones too low. The bank tests it every week.
How soon is there an alarm, and how many false alarms are there?
"""

# %%
# Three years of forecasts
# ------------------------
# Each week has 60 loans. The true slope decreases from 1 to .5 in the second and third year.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from skcalib import CalibrationMonitor
from skcalib.displays import MonitorDisplay
from skcalib.significance import logistic_calibration_test

WEEKS, LOANS, BEGIN = 156, 60, 52


def three_years(seed, *, drift=True):
    """Defaults and forecasts of all weeks, in their order."""
    rng = np.random.default_rng(seed)
    week = np.repeat(np.arange(WEEKS), LOANS)
    z = rng.normal(0, 1.2, WEEKS * LOANS)
    slope = 1 - 0.5 * np.clip((week - BEGIN) / (WEEKS - BEGIN), 0, 1) * drift
    return (rng.random(len(z)) < expit(slope * z - 1.5)).astype(int), expit(z - 1.5)


# %%
# The test of every week
# ----------------------
# With this ``alpha`` the probability of any false alarm in 9,360 loans is at most .05. The alarm
# describes the change. The model stays in use, and the change is reported once.
y, p = three_years(0)
alpha = 0.05 / len(y)
monitor = CalibrationMonitor(alpha=alpha, window=13 * LOANS)  # a window is a quarter
for week, rows in enumerate(np.split(np.arange(len(y)), WEEKS)):
    monitor.partial_fit(y[rows], p[rows], source=f"week {week}")
print(monitor.alarms_[0])
MonitorDisplay.from_monitor(monitor)
plt.show()

# %%
# Early alarms, or few false ones?
# --------------------------------
# The logistic test is for a fixed sample, here all loans since the drift begins. *Once* means in
# this week and in no other, *repeated* in this or an earlier week. A single test detects the drift
# earlier than the monitor, but the right week must be known in advance. Repeated every week, it has
# many false alarms for a calibrated model. The monitor is tested every week too, and has few.
after = np.arange(1, WEEKS - BEGIN + 1)


def alarms(y, p):
    """Whether the monitor, a test once and a repeated test reject, by weeks (3, n_weeks)."""
    found = [one.at for one in CalibrationMonitor(alpha=alpha, window=len(y)).fit(y, p).alarms_]
    ends = LOANS * (BEGIN + after)
    since = [slice(LOANS * BEGIN, end) for end in ends]
    once = np.array([logistic_calibration_test(y[rows], p[rows]).rejects() for rows in since])
    return np.array([min(found, default=np.inf) <= ends, once, np.logical_or.accumulate(once)])


names = ("Monitor", "Test, once", "Test, repeated")
_, axes = plt.subplots(1, 2, figsize=(8.4, 3.8), sharey=True, layout="constrained")
for ax, drift, title in zip(axes, (True, False), ("The slope drifts", "Calibrated"), strict=True):
    share = np.mean([alarms(*three_years(seed, drift=drift)) for seed in range(15)], axis=0)
    for values, name, style in zip(share, names, ("-", ":", "-."), strict=True):
        ax.plot(after, values, style, label=name, linewidth=2)
    ax.axhline(0.05, color="0.35", linestyle="--", linewidth=1, label=".05")
    ax.set(title=title, xlabel="Weeks after the first year")
axes[0].set_ylabel("Share of 15 histories with an alarm")
axes[1].legend()
plt.show()
