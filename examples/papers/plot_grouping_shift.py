"""
Grouping diagrams with and without a shift (L23, figure 8)
==========================================================

A network is trained on handwritten digits. It is applied to new ones, and then to new ones of which
every second image lacks its lower half. This is a shift that it was not trained for. In both cases
the confidence in the predicted digit is recalibrated by an isotonic map on half of the new images,
and evaluated on the other half.

Recalibration puts the curve on the diagonal: forecasts are right on average. Without the shift this
is also true of the two regions that a tree finds among images of one confidence (grey: within the
noise). Under the shift it is not. Of the images with the same confidence, those in one region are
predicted correctly far more often than those in the other. No map of the confidence can correct
that, as it does not depend on the image.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skcalib import GroupingDisplay, IsotonicRecalibrator

rng = np.random.default_rng(0)
X, y = load_digits(return_X_y=True)
X_train, X_new, y_train, y_new = train_test_split(X, y, test_size=0.6, random_state=0, stratify=y)
network = MLPClassifier((64,), max_iter=200, random_state=0).fit(X_train, y_train)


def new_images(n_images, is_shifted):
    """Noisy copies of the images that were not trained on."""
    chosen = rng.integers(len(X_new), size=n_images)
    images = X_new[chosen] + rng.normal(0, 2, (n_images, 64))
    if is_shifted:
        images[rng.random(n_images) < 0.5, 32:] = 0
    return images, y_new[chosen]


fig, axes = plt.subplots(1, 2, figsize=(11, 8), layout="constrained")
for ax, is_shifted in zip(axes, (False, True), strict=True):
    images, digits = new_images(12_000, is_shifted)
    proba = network.predict_proba(images)
    confidence, is_right = proba.max(axis=1), network.classes_[proba.argmax(axis=1)] == digits
    fitted, shown = np.split(np.arange(len(images)), 2)
    isotonic = IsotonicRecalibrator().fit(confidence[fitted, None], is_right[fitted])
    recalibrated = isotonic.predict_proba(confidence[shown, None])[:, 1]
    name = "With noise, every second image cut" if is_shifted else "With noise"
    display = GroupingDisplay.from_predictions(
        is_right[shown], recalibrated, images[shown], ax=ax, name=name
    )
    found = display.diagrams[0]
    loss = found.grouping_loss
    at_least = f"at least {loss.estimate:.4f} [{loss.low:.4f}, {loss.high:.4f}]"
    print(
        f"{name}: accuracy {is_right.mean():.3f}, "
        f"calibration error {found.calibration_error:z.4f}, "
        f"grouping loss {at_least if loss.estimate > 0 else 'not detected'}"
    )
legend = axes[1].get_legend()  # one below both panels, where it covers no region
texts = [text.get_text() for text in legend.get_texts()]
fig.legend(
    legend.legend_handles, texts, fontsize="small", loc="outside lower left", ncols=2, frameon=False
)
for ax in axes:
    ax.get_legend().remove()
plt.show()
