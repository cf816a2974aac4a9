"""
Monitor a credit model for three years
======================================

A model forecasts the probability of default. It is calibrated in its first year. Then the slope of
its logit drifts: high forecasts are too high and low ones too low. The bank tests it every week.
How soon is there an alarm, and how many false alarms does an earlier one cost?
"""

# %%
# Three years of forecasts
# ------------------------
# Each week has 60 loans, and the true logit has a slope that decreases from 1 to .5 in the second
# and third year. A test at level .05 that is repeated every week would reject a calibrated model
# sooner or later; the statistic of the monitor may be looked at as often as one likes.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from skcalib import CalibrationMonitor, MonitorDisplay

WEEKS, LOANS = 156, 60


def three_years(rng, *, drift=True):
    """Forecasts and defaults of all weeks, in their order."""
    week = np.repeat(np.arange(WEEKS), LOANS)
    z = rng.normal(0, 1.2, WEEKS * LOANS)
    slope = 1 - 0.5 * np.clip((week - 52) / 104, 0, 1) * drift
    mean = -1.5
    return (rng.random(len(z)) < expit(mean + slope * z)).astype(int), expit(mean + z), week


# %%
# The test of every week
# ----------------------
# ``alpha`` is one over the mean number of samples between two false alarms: here 32 years of loans.
y, p, week = three_years(np.random.default_rng(0))
monitor = CalibrationMonitor(alpha=1e-5, window=13 * LOANS)  # a window is a quarter
for now in range(WEEKS):
    before = monitor.n_alarms_ if now else 0
    monitor.partial_fit(y[week == now], p[week == now], source=f"week {now}")
    if monitor.n_alarms_ > before == 0:
        print(f"week {now}: {monitor.alarms_[0]}")
MonitorDisplay.from_monitor(monitor)
plt.show()

# %%
# Early alarms, or few false ones?
# --------------------------------
# A larger ``alpha`` finds the drift earlier and has more false alarms. Streams with the drift show
# the weeks to the first alarm after its beginning, and streams without it the false alarms.
alphas = 10.0 ** np.array([-3, -3.5, -4, -5])
delay, false = [], []
for alpha in alphas:
    first, alarms = [], []
    for seed in range(15):
        y, p, _ = three_years(np.random.default_rng(seed))
        found = [one.at for one in CalibrationMonitor(alpha=alpha, window=5000).fit(y, p).alarms_]
        after = [at for at in found if at > 52 * LOANS]
        first.append((after[0] if after else np.inf) / LOANS - 52)
        y, p, _ = three_years(np.random.default_rng(seed), drift=False)
        alarms.append(CalibrationMonitor(alpha=alpha, window=5000).fit(y, p).n_alarms_)
    delay.append(np.median(first))
    false.append(np.mean(alarms))

_, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.plot(delay, false, "o-", color="#0072b2", label="Mean of 15 streams")
ax.plot(delay, alphas * WEEKS * LOANS, ":", color="0.35", label="Guarantee: at most")
for x, height, alpha in zip(delay, false, alphas, strict=True):
    ax.annotate(f"alpha = 10$^{{{np.log10(alpha):g}}}$", (x, height), (6, 6),
                textcoords="offset points", fontsize="small")  # fmt: skip
ax.set(xlabel="Median delay after the drift begins (weeks)",
       ylabel="False alarms in three years", yscale="log", xlim=(0, 70))  # fmt: skip
ax.legend()
plt.show()
