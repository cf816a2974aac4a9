"""
Stop boosting by refinement, and recalibrate
============================================

Boosting makes its forecasts over-confident. Its validation loss then begins to increase although
later stages still know more about the labels. The refinement is the loss that remains after
recalibration. Here a validation set chooses the number of stages by the one and by the other, and
fits a map to the forecasts of both. Stages chosen by refinement give the better forecasts on the
test samples once they are recalibrated, and the worse ones if they are not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from skcalib import refinement_loss
from skcalib.recalibration import ModelAverageScaling

X, y = make_classification(
    6000, 30, n_informative=10, n_redundant=0, n_classes=5, class_sep=1.5, flip_y=0.05,
    random_state=0,
)  # fmt: skip
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=1000, random_state=0)
X_val, X_test, y_val, y_test = train_test_split(X_rest, y_rest, train_size=600, random_state=0)

boosting = HistGradientBoostingClassifier(max_iter=150, early_stopping=False, random_state=0)
boosting.fit(X_train, y_train)
validation, test = (list(boosting.staged_predict_proba(one)) for one in (X_val, X_test))

# %%
# ``refinement_loss`` takes labels and forecasts, so it can be computed after each stage.

stages = np.arange(1, 151, 3)
loss = np.array([log_loss(y_val, validation[n - 1]) for n in stages])
refinement = np.array([refinement_loss(y_val, validation[n - 1], loss="log") for n in stages])

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, values, color in (("loss", loss, "black"), ("refinement", refinement, "#0072b2")):
    best = values.argmin()
    ax.plot(stages, values, color=color, label=name)
    ax.plot(stages[best], values[best], "v", color=color, markersize=9)
    chosen = stages[best] - 1
    scaling = ModelAverageScaling().fit(validation[chosen], y_val)
    proba = test[chosen], scaling.predict_proba(test[chosen])
    before, after = (log_loss(y_test, one) for one in proba)
    print(
        f"by {name:10}: {stages[best]:3} stages, test loss {before:.3f}, recalibrated {after:.3f}"
    )
ax.set(xlabel="stages", ylabel="validation log loss (nats)", ylim=(0.5, 1.2))
ax.legend()
plt.show()
