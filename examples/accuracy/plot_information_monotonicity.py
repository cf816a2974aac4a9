"""
How much information does each layer of a network contain?
==========================================================

Sharpness is the part of the uncertainty about the label that a representation resolves. P24
(theorem 6.2) shows that no layer can increase it, as a layer is a function of the layer before. A
layer can only make the information easier to extract.

Estimates need not follow this order. Sharpness is estimated here by a probe: a classifier that is
trained on the layer and may miss information. Each bar is a lower bound, in expectation. A linear
probe finds little in the coordinates of two interleaved spirals, and everything in the layers that
unroll them; a nearest-neighbour probe finds as much in the coordinates. The *largest* bound of a
layer also holds for all layers before it (dashed line).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import sharpness
from skcalib.scores import LogLoss

rng = np.random.default_rng(0)
y = rng.integers(0, 2, 4000)
angle = 3 * np.pi * np.sqrt(rng.random(4000))
direction = np.column_stack([np.cos(angle + np.pi * y), np.sin(angle + np.pi * y)])
X = angle[:, None] * direction + rng.normal(scale=0.7, size=(4000, 2))

train, test = slice(0, 2000), slice(2000, None)
network = MLPClassifier((32, 32, 4), alpha=1e-3, max_iter=2000, random_state=0)
network.fit(X[train], y[train])


def layers(x):
    """The input, each hidden layer, and the output."""
    yield "input", x
    for number, (weight, bias) in enumerate(zip(network.coefs_, network.intercepts_, strict=True)):
        x = x @ weight + bias
        if number < len(network.coefs_) - 1:
            x = np.maximum(x, 0)
            yield f"hidden {number + 1}\n({x.shape[1]} units)", x
    yield "output", x


READERS = {"linear": LogisticRegression(max_iter=1000), "neighbours": KNeighborsClassifier(50)}

# %%
# The probe's out-of-fold forecast is itself a function of the layer, and `sharpness` measures what
# *its* calibrated version resolves, at most as much as the layer does.

names = [name for name, _ in layers(X[:1])]
found = {}
for reader, classifier in READERS.items():
    model = make_pipeline(StandardScaler(), classifier)
    found[reader] = [
        sharpness(
            y[test],
            cross_val_predict(model, z, y[test], cv=5, method="predict_proba"),
            loss=LogLoss(),
        )
        for _, z in layers(X[test])
    ]

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
position = np.arange(len(names))
for shift, color, reader in zip((-0.2, 0.2), ("#56b4e9", "#0072b2"), READERS, strict=True):
    ax.bar(position + shift, found[reader], 0.38, color=color, label=f"reader: {reader}")
best = np.maximum.accumulate(np.max(list(found.values()), axis=0)[::-1])[::-1]
ax.plot(position, best, "k--", marker="D", markersize=4, label="lower bound of what is there")
ax.axhline(np.log(2), color="0.6", label="all there is to know, ln 2")
ax.set(xticks=position, xticklabels=names, ylabel="sharpness (nats)")
ax.set_ylim(0, 0.95)
ax.legend(ncols=2, loc="upper left", fontsize="small")
plt.show()
