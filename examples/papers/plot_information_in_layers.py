"""
Sharpness of each layer while a network trains (P24, figure 3)
==============================================================

A network with four hidden layers of nine units learns the handwritten digits. The sharpness of a
layer, in nats, is the information that it has about the digit. The true sharpness never increases
from a layer to the next (P24, theorem 6.2). The figure of the paper is redone with 899 held-out
images instead of 10,000.

Left, the estimator of the paper: eq. 15, with its bandwidth, .005. It averages so few neighbours
that the entropy of their labels is too small. After one epoch the estimate for the logits is larger
than that for layer 4, and that larger than for layer 3, which is impossible for the true sharpness.
With permuted labels (dashed) the truth is zero, and the estimate more than one nat. Grey: entropy.

Right, an estimate of a lower bound: the sharpness of out-of-fold forecasts by nearest neighbours in
the layer, which cannot have more information than the layer. It is about zero for permuted labels.
In both panels the sharpness increases in training, and most in the deeper layers.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import sharpness
from skcalib.smoothers import DirichletKernel

X, y = load_digits(return_X_y=True)
X_train, X_new, y_train, y_new = train_test_split(X / 16, y, test_size=0.5, random_state=0)
permuted = np.random.default_rng(0).permutation(y_new)


def layers(network, x):
    """The hidden layers and the logits."""
    for weight, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        x = np.maximum(x @ weight + bias, 0)
        yield x
    yield x @ network.coefs_[-1] + network.intercepts_[-1]


def of_the_paper(y, layer):
    with warnings.catch_warnings(action="ignore"):  # too few neighbours raise a warning
        kernel = DirichletKernel(0.005)
        return sharpness(y, layer, transform="simplex", loss="log", smoother=kernel)


def lower_bound(y, layer):
    model = make_pipeline(StandardScaler(), KNeighborsClassifier(20))
    return sharpness(y, cross_val_predict(model, layer, y, method="predict_proba"), loss="log")


EPOCHS = [1, 2, 4, 6, 9, 13, 20, 30, 40]
network = MLPClassifier((9, 9, 9, 9), learning_rate_init=3e-3, batch_size=32, random_state=0)
panels, found = {"P24's estimator": of_the_paper, "Lower bound": lower_bound}, {}
for epoch in range(1, EPOCHS[-1] + 1):
    network.partial_fit(X_train, y_train, classes=np.arange(10))
    z = list(layers(network, X_new))
    for title, of in panels.items() if epoch in EPOCHS else ():
        values = [*(of(y_new, layer) for layer in z), of(permuted, z[0])]
        found.setdefault(title, []).append(values)

fig, axes = plt.subplots(1, 2, figsize=(9, 4.5), sharey=True, layout="constrained")
NAMES = [*(f"hidden layer {k}" for k in (1, 2, 3, 4)), "logits", "layer 1, permuted labels"]
COLORS = ["#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#0072b2"]
for ax, (title, curves) in zip(axes, found.items(), strict=True):
    for name, color, curve in zip(NAMES, COLORS, np.transpose(curves), strict=True):
        ax.plot(EPOCHS, curve, "--" if "permuted" in name else "o-", color=color, label=name)
    ax.axhline(np.log(10), color="0.6", linewidth=1)
    ax.set(title=title, xscale="log", xlabel="epoch", xticks=EPOCHS, xticklabels=EPOCHS)
    ax.minorticks_off()
axes[0].set(ylabel="sharpness (nats)", ylim=(-0.1, 2.45))
axes[1].legend(fontsize="small", loc="center right", bbox_to_anchor=(1, 0.3))
plt.show()
