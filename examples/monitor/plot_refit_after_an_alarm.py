"""
Refit a map after an alarm
==========================

After 60 weeks the log odds of the event fall by .7, so every forecast is too high. Three ways to
forecast each week before its labels are known: no map; a map of all samples so far; and a map of
the samples since the change, which begins with the alarm of a monitor. The figure has the log loss
of each way, minus that of the true probabilities.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from skcalib import CalibrationMonitor, PlattScaling

rng = np.random.default_rng(1)
n_weeks, size = 120, 200
z = rng.normal(0, 1.5, n_weeks * size)
changed = np.arange(len(z)) >= len(z) // 2
truth = expit(z - 0.7 * changed)
p, y = expit(z), (rng.random(len(z)) < truth).astype(int)

# %%
# The monitor sees the forecasts that were issued, with the labels of each week. After an alarm a
# new map learns the samples since the estimated change, and each week from then on. A new monitor
# sees its forecasts.

monitor, begin, after_alarm, all_samples = CalibrationMonitor(alpha=1e-5), 0, None, None
forecasts = {"no map": [], "all samples": [], "since the alarm": []}
for week in np.split(np.arange(len(z)), n_weeks):
    forecasts["no map"].append(p[week])
    for name, scaling in (("all samples", all_samples), ("since the alarm", after_alarm)):
        mapped = p[week] if scaling is None else scaling.predict_proba(p[week])[:, 1]
        forecasts[name].append(mapped)

    all_samples = all_samples or PlattScaling(labels=[0, 1])
    all_samples.partial_fit(p[week], y[week])
    if monitor.partial_fit(y[week], forecasts["since the alarm"][-1]).alarms_:
        since = begin + monitor.alarms_[0].since
        print(f"Alarm in week {week[0] // size}, change estimated in week {since // size}")
        recent = slice(since, week[-1] + 1)
        after_alarm = PlattScaling(labels=[0, 1]).partial_fit(p[recent], y[recent])
        monitor, begin = CalibrationMonitor(alpha=1e-5), recent.stop
    elif after_alarm is not None:
        after_alarm.partial_fit(p[week], y[week])

# %%
# The map of all samples still has the old forecasts in it at the end. That of the samples since the
# change is close to the truth within a few weeks.

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for (name, weeks), style in zip(forecasts.items(), (":", "--", "-"), strict=True):
    q = np.concatenate(weeks)
    excess = truth * np.log(truth / q) + (1 - truth) * np.log((1 - truth) / (1 - q))
    ax.plot(1000 * excess.reshape(n_weeks, size).mean(axis=1), style, label=name)
ax.axvline(n_weeks / 2, color="0.6", linewidth=1)
ax.text(n_weeks / 2 - 1, 40, "change", color="0.35", ha="right")
ax.set(xlabel="Week", ylabel="Excess of the log loss\n(thousandths of a nat)", ylim=(-1, None))
ax.legend(frameon=False, loc="center left")
plt.show()
