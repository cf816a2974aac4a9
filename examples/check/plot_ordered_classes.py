r"""
Grades: is each threshold calibrated?
=====================================

Four grades follow from a score with three thresholds. The forecast uses both, but takes the score
for more informative than it is. Each panel shows one event of ``notion="cumulative"``, that the
grade is at most k: the frequency of this event among the cases with the same cumulative
probability. The black curve is the truth.

The forecast is over-confident at each threshold. Recalibration by :class:`~skcalib.PlattScaling`
reduces the ranked probability score, the sum of the Brier scores of the three events, and nearly
all of its calibration error. Both are printed, with the truth.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

import skcalib as sk

SLOPE, N_SAMPLES = 1.8, 4000
thresholds = np.array([-1.2, 0.3, 1.5])
rng = np.random.default_rng(0)
score = 1.5 * rng.standard_normal((N_SAMPLES, 1))


def grades(slope):
    """Probabilities (n, 4) of the grades 1 to 4, from those of the grades up to each threshold."""
    up_to = expit(slope * (thresholds - score))
    return np.diff(up_to, axis=1, prepend=0, append=1)


truth, forecast = grades(1.0), grades(SLOPE)
grade = 1 + (rng.random((N_SAMPLES, 1)) > truth.cumsum(axis=1)[:, :-1]).sum(axis=1)

display = sk.ReliabilityDisplay.from_predictions(
    grade, forecast, notion="cumulative", name="Forecast"
)
line = np.linspace(0.001, 0.999, 200)
for ax in display.ax_:
    ax.plot(line, expit(logit(line) / SLOPE), color="black", linewidth=1)

half = N_SAMPLES // 2
platt = sk.PlattScaling().fit(forecast[:half], grade[:half])
held_out = {"forecast": forecast[half:], "recalibrated": platt.predict_proba(forecast[half:])}
for name, proba in held_out.items():
    terms = sk.score_decomposition(grade[half:], proba, loss="rps")
    print(f"{name}: ranked probability score {terms.loss:.3f}, of which", end=" ")
    print(f"{terms.calibration:.3f} by miscalibration")
error = ((forecast.cumsum(axis=1) - truth.cumsum(axis=1)) ** 2).sum(axis=1).mean()
print(f"truth: {error:.3f} of the forecast by miscalibration")
plt.show()
