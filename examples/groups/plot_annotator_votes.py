"""
What the votes of annotators reveal
===================================

Two models have the same loss, the same calibration error and the same diagram. One cannot be
improved: its cases are unclear, and experts disagree about them. The other misses a feature: its
cases are clear to every expert. Single labels do not distinguish the two, five votes do.
"""

# %%
# Two populations
# ---------------
# The forecasts are the same, and too extreme. In the first population the probability Q of the
# event given all features is the calibrated forecast C. In the second it is close to 0 or 1.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from skcalib import score_decomposition, soft_label_decomposition

rng = np.random.default_rng(0)
n_samples = 2000
calibrated = rng.beta(2, 2, n_samples)
forecast = expit(1.6 * logit(calibrated))
populations = {
    "unclear cases": calibrated,
    "a feature is missing": rng.beta(0.3 * calibrated, 0.3 * (1 - calibrated)),
}

# %%
# One label per sample
# --------------------
# Refinement is the loss that remains after recalibration. It is the same in both.
for name, q in populations.items():
    terms = score_decomposition(rng.binomial(1, q), forecast)
    print(f"{name}: calibration {terms.calibration:.3f}, refinement {terms.refinement:.3f}")

# %%
# Five votes per sample
# ---------------------
# Votes split the refinement: the grouping loss is what a better model would save, and the rest is
# irreducible.
votes = {name: rng.binomial(5, q) for name, q in populations.items()}
found = {
    name: soft_label_decomposition(np.column_stack([5 - yes, yes]), forecast)
    for name, yes in votes.items()
}
for name, parts in found.items():
    print(f"{name}\n{parts}")

# %%
# How many votes?
# ---------------
# The disagreement among few votes is smaller than among many. Without a correction two votes show
# half of the irreducible part. With it they show all of it, and more votes only shorten the
# interval.
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
colors = {"calibration": "#d55e00", "grouping": "#56b4e9", "irreducible": "#d9d9d9"}
for row, parts in enumerate(found.values()):
    start = 0.0
    for part, color in colors.items():
        one = getattr(parts, part)
        label = part.capitalize() if row == 0 else None
        left.barh(row, max(one.estimate, 0), left=start, color=color, height=0.5, label=label)
        start += max(one.estimate, 0)
left.set(yticks=[0, 1], yticklabels=list(populations), xlabel="Brier score", ylim=(-0.6, 1.9))
left.legend(loc="upper center", ncols=3, frameon=False, handlelength=1)

q = populations["unclear cases"]
for m in (2, 3, 5, 10, 20):
    yes = rng.binomial(m, q)
    one = soft_label_decomposition(np.column_stack([m - yes, yes]), forecast).irreducible
    right.plot([m, m], [one.low, one.high], color="#0072b2")
    corrected = right.plot(m, one.estimate, "o", color="#0072b2")
    naive = right.plot(m, np.mean(yes / m * (1 - yes / m)), "s", color="0.6")
truth = right.axhline(np.mean(q * (1 - q)), color="black", linestyle=":")
right.set(xlabel="Votes per sample", ylabel="Irreducible Brier score", ylim=(0, 0.24))
right.legend([*corrected, *naive, truth], ["Corrected", "Entropy of the shares", "Truth"])
plt.show()
