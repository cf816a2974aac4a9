r"""
The bins decide the ranking
===========================

Two binary forecasts are evaluated on 500 samples. One takes all values between 0 and 1 and is
calibrated. The other is between .45 and .55 and is .04 too high. The curves are means, and the
bands the central 90 %, of 150 data sets, against the number of bins of equal width. Dashed lines
are the truth.

With ten bins or more the ECE prefers the forecast that is wrong: scattered forecasts fill more
bins, and every bin adds its noise. Debiased squares are right on average with every number of bins,
but less precise with more bins. The proper error, which has no bins, is near the truth (printed
below).
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import calibration_error, proper_calibration_error

N_SAMPLES, REPETITIONS, BIAS = 500, 150, 0.04
BINS = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50]
MODELS = {
    "calibrated, scattered": ("#0072b2", 0, 1, 0),
    "wrong by .04": ("#d55e00", 0.45, 0.1, BIAS),
}
rng = np.random.default_rng(0)

fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for name, (color, low, width, bias) in MODELS.items():
    errors, proper = np.empty((2, REPETITIONS, len(BINS))), []
    for r in range(REPETITIONS):
        score = low + width * rng.random(N_SAMPLES)
        y = rng.random(N_SAMPLES) < score - bias
        for b, n_bins in enumerate(BINS):
            options = {"n_bins": n_bins, "strategy": "uniform", "notion": "canonical"}
            debiased = {"norm": "l2", "squared": True, "debiased": True}
            errors[0, r, b] = calibration_error(y, score, **options)
            errors[1, r, b] = calibration_error(y, score, **options, **debiased)
        proper.append(proper_calibration_error(y, score))
    for ax, values, truth in zip(axes, errors, (bias, bias**2), strict=True):
        ax.fill_between(
            BINS, *np.percentile(values, [5, 95], axis=0), color=color, alpha=0.18, lw=0
        )
        ax.plot(BINS, values.mean(axis=0), "o-", markersize=3.5, color=color, label=name)
        ax.axhline(truth, color=color, linestyle="--", linewidth=1)
    print(
        f"{name}: ECE with 15 bins {errors[0, :, BINS.index(15)].mean():.3f} (truth {bias:.3f}), "
        f"proper error {np.mean(proper):.4f} (truth {bias**2:.4f})"
    )
for ax, title in zip(axes, ("ECE", "Debiased squared error"), strict=True):
    ax.set(title=title, xscale="log", xlabel="bins of equal width", xticks=BINS, xticklabels=BINS)
    ax.minorticks_off()
axes[0].set_ylim(0, None)
axes[0].legend(loc="upper left")
plt.show()
