"""
Monitor a network while it trains
=================================

The validation loss of a network decreases to its minimum and then increases, which suggests
stopping. Its two parts behave differently. The calibration error increases first: the network gets
over-confident about its training samples. The refinement, which is the loss after the best
recalibration, continues to decrease. Stopping at *its* minimum and recalibrating with the
validation samples gives the better forecast.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skcalib import TemperatureScaling, score_decomposition

X, y = make_classification(
    6000, 40, n_informative=10, n_classes=5, n_clusters_per_class=4, class_sep=0.7, flip_y=0,
    random_state=0,
)  # fmt: skip
X = (X - X.mean(axis=0)) / X.std(axis=0)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.6, random_state=0)
X_val, X_test, y_val, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)

network = MLPClassifier(200, learning_rate_init=2e-3, batch_size=64, random_state=0)
EPOCHS = 40
history, test = [], []
for _ in range(EPOCHS):
    network.partial_fit(X_train, y_train, classes=np.arange(5))
    proba = network.predict_proba(X_val)
    history.append(score_decomposition(y_val, proba, loss="log"))
    temperature = TemperatureScaling().fit(proba, y_val)
    after = network.predict_proba(X_test)
    test.append([log_loss(y_test, p) for p in (after, temperature.predict_proba(after))])

# %%
# Three curves of the validation samples, then the loss on test samples at both stopping points.

epochs = np.arange(1, EPOCHS + 1)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
curves = {"loss": "black", "refinement": "#0072b2", "calibration": "#d55e00"}
for name, color in curves.items():
    values = np.array([getattr(part, name) for part in history])
    ax.plot(epochs, values, color=color, label=name)
    if name != "calibration":
        ax.plot(epochs[values.argmin()], values.min(), "v", color=color, markersize=9)
ax.set(xlabel="epoch", ylabel="validation log loss (nats)", ylim=(-0.05, 2.3))
ax.legend()
plt.show()

for name, column in (("loss", 0), ("refinement", 1)):
    best = int(np.argmin([getattr(part, name) for part in history]))
    how = "recalibrated" if column else "as it is"
    print(f"stopped by {name:10} after {best + 1:2} epochs, {how:12}: {test[best][column]:.3f}")
