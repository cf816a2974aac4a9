r"""
Jumps and confused classes
==========================

Two errors that no smooth map of the logits can express. On the left the true probability jumps:
it is three fifths of the forecast below one half, and as far from 1 above. The residuals of the
maps show the jump, so the interval of the calibration error holds the truth also with many samples,
where it is short. On the right a part of one class is another one: where the classifier is sure of
"cat" 15 % of the samples are dogs, and a tenth of the foxes are owls. The report lists the pairs
that it found.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

import skcalib as sk

rng = np.random.default_rng(0)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")

# A jump: intervals of the Brier calibration error by the number of samples.
sizes = np.array([500, 1000, 2000, 5000, 10_000, 20_000, 50_000])
score = expit(2 * rng.standard_normal(sizes[-1]))
true = np.where(score < 0.5, 0.6 * score, 1 - 0.6 * (1 - score))
y = (rng.random(sizes[-1]) < true).astype(int)
for n_samples in sizes:
    found = sk.calibration_error_interval(y[:n_samples], score[:n_samples], metric="brier")
    ends = [[found.estimate - found.low], [found.high - found.estimate]]
    left.errorbar(n_samples, found.estimate, np.maximum(ends, 0), fmt="o", color="#0072b2")
    print(f"{n_samples:6,} samples: {found.estimate:.4f} [{found.low:.4f}, {found.high:.4f}]")
left.axhline(np.mean((true - score) ** 2), color="black", linewidth=1, label="truth")
left.set(xscale="log", xlabel="samples", title="A jump at one half")
left.set(ylabel="Brier calibration error", ylim=(0, None))
left.set_xticks(sizes, [f"{n / 1000:g}k" for n in sizes])
left.minorticks_off()
left.legend()

# Confused classes: what is observed where a class is predicted.
names = np.array(["cat", "dog", "fox", "owl"])
forecast = rng.dirichlet(np.full(4, 0.3), size=6000)
posterior = forecast.copy()
for one, other, rate, least in ((0, 1, 0.15, 0.8), (2, 3, 0.1, 0.0)):
    mass = rate * forecast[:, one] * (forecast[:, one] >= least)
    posterior[:, one] -= mass
    posterior[:, other] += mass
drawn = (posterior.cumsum(axis=1) < rng.random((6000, 1))).sum(axis=1)
report = sk.CalibrationReport.from_predictions(names[drawn], forecast, name="animals")
print(report.verdict)
pairs = report.findings.confusions
for place, pair in enumerate(pairs):
    seen = pair.observed
    ends = [[seen.estimate - seen.low], [seen.high - seen.estimate]]
    labels = ("observed", "predicted") if place == 0 else (None, None)
    right.errorbar(seen.estimate, place, xerr=ends, fmt="o", color="#d55e00", label=labels[0])
    right.plot(pair.mean_score, place, "s", color="#0072b2", label=labels[1])
where = [f"has {p.at_least:.2f} and more" if p.at_least > 0 else "is predicted" for p in pairs]
texts = [f"{p.other}, where {p.predicted}\n{how}" for p, how in zip(pairs, where, strict=True)]
right.set(yticks=range(len(pairs)), yticklabels=texts, title="Confused classes")
right.set(xlabel="frequency", xlim=(0, None), ylim=(len(pairs) - 0.5, -0.5))
right.legend()
plt.show()
