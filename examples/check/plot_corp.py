r"""
Split a score without choosing bins
===================================

CORP splits the mean score of a forecast into miscalibration, discrimination and uncertainty by one
isotonic regression: no bins, no bandwidth, the same curve for every proper score. Two forecasts of
the same events illustrate each term, and the bands show the sampling variation.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ndtr, ndtri

from skcalib import corp_decomposition
from skcalib.errors import corp_bands, corp_test

# %%
# The event happens with probability :math:`\Phi(z_1 + z_2)`. The first forecast uses both features
# and is very over-confident. The second uses only :math:`z_1`, and is calibrated: :math:`\Phi(z_1 /
# \sqrt 2)`.

rng = np.random.default_rng(1)
z = rng.normal(size=(2000, 2))
y = (rng.random(2000) < ndtr(z.sum(axis=1))).astype(int)
forecasts = {
    "Informed, over-confident": ndtr(6 * z.sum(axis=1)),
    "Uninformed, calibrated": ndtr(z[:, 0] / np.sqrt(2)),
}

# %%
# The first has the lower Brier score, and the terms show how much lower it could be: more than half
# of its gain in discrimination is lost in miscalibration, which one map would remove. The second
# also shows some miscalibration, as every finite sample does, but no more than expected of
# calibrated forecasts.

for name, p in forecasts.items():
    terms, test = corp_decomposition(y, p), corp_test(y, p, random_state=0)
    print(
        f"{name}: score {terms.score:.3f} = {terms.miscalibration:.3f} (miscalibration)"
        f" - {terms.discrimination:.3f} (discrimination) + {terms.uncertainty:.3f} (uncertainty);"
        f" excess over chance {test.estimate:.3f}, p = {test.pvalue:.3f}"
    )

# %%
# The curve of the first leaves its *consistency* band, where the curve of calibrated forecasts
# would lie. The curve of the second hardly does. The *confidence* band lies around the curve, and
# contains the true curve. Both are pointwise.

fig, axes = plt.subplots(1, 2, figsize=(10, 5.2), sharey=True, layout="constrained")
score = np.linspace(0.001, 0.999, 500)
truth = (ndtr(ndtri(score) / 6), score)
for ax, (name, p), curve in zip(axes, forecasts.items(), truth, strict=True):
    (null,) = corp_bands(y, p, random_state=0)
    (around,) = corp_bands(y, p, band="confidence")
    ax.fill_between(null.forecast, null.low, null.high, alpha=0.3, label="95 % consistency band")
    ends = np.column_stack([around.low, around.high])
    ax.plot(around.forecast, ends, "tab:red", lw=0.8, label=["95 % confidence band", None])
    ax.plot(null.forecast, null.recalibrated, "tab:red", lw=2, label="Isotonic curve")
    ax.plot(score, curve, "k--", label="True curve")
    ax.set(title=name, xlabel="Forecast", aspect="equal", xlim=(0, 1), ylim=(0, 1))
axes[0].set_ylabel("Recalibrated forecast")
axes[0].legend(loc="upper left")
plt.show()
