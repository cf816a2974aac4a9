"""
A risk model in twelve hospitals
================================

A model predicts readmission. Over all hospitals, the mean prediction is close to the observed rate.
Is it close in each hospital, and what can be done where it is not? Patients are admitted several
times, so their rows are not independent.
"""

# %%
# Twelve hospitals of different size
# ----------------------------------
# The risk depends on the patient, on the admission and on the hospital. The hospital is not a
# feature of the model. Each patient has one to eight admissions.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from skcalib import (
    GroupCalibrationDisplay,
    GroupRecalibrator,
    calibration_by_group,
    calibration_error_interval,
)

rng = np.random.default_rng(0)
n_patients = 4000
share = np.array([20, 15, 12, 10, 9, 8, 7, 6, 5, 4, 3, 1]) / 100
effect = np.array([0.0, 0.5, -0.5, 0.1, 0.0, -0.6, 0.4, 0.0, 0.1, 0.6, -0.1, 0.2])
hospital_of = rng.choice(12, n_patients, p=share)
patient = np.repeat(np.arange(n_patients), rng.integers(1, 9, n_patients))
hospital = hospital_of[patient]
predicted = expit(rng.normal(-1.5, 0.9, n_patients)[patient] + rng.normal(0, 0.5, len(patient)))
unknown = rng.normal(0, 0.7, n_patients)[patient]
risk = expit(logit(predicted) + effect[hospital] - 0.15 + unknown)
y = (rng.random(len(patient)) < risk).astype(int)
name = np.array([f"hospital {k:02d}" for k in hospital])
print(f"{len(y):,} admissions; predicted {predicted.mean():.1%}, observed {y.mean():.1%}")

# %%
# Overall
# -------
# The interval for independent rows is too narrow. With the patients as clusters it allows for the
# dependence of their admissions.
for groups in (None, patient):
    print(calibration_error_interval(y, predicted, groups=groups))

# %%
# By hospital
# -----------
# All intervals hold at once. Filled markers are differences found at a false discovery rate of .05.
# The shrunken differences are better estimates for the small hospitals.
half = patient % 2 == 0
found = calibration_by_group(y[half], predicted[half], name[half], groups=patient[half])
display = GroupCalibrationDisplay(found).plot(equal_scores=False, shrunk=True)
plt.show()

# %%
# A correction of each hospital
# -----------------------------
# A shift and a slope of each hospital are learned on one half of the patients and evaluated on the
# other. They are shrunk towards zero where there are few patients.
by_hospital = GroupRecalibrator().fit(predicted[half], y[half], features=name[half])
print(f"held-out gain of the log loss: {by_hospital.gain_}")
after = by_hospital.predict_proba(predicted[~half], features=name[~half])[:, 1]
rest = {"groups": patient[~half]}
before = calibration_by_group(y[~half], predicted[~half], name[~half], **rest)
corrected = calibration_by_group(y[~half], after, name[~half], **rest)
_, axes = plt.subplots(1, 2, figsize=(10, 5.5), layout="constrained", sharex=True)
for ax, one, title in zip(axes, (before, corrected), ("Before", "After"), strict=True):
    GroupCalibrationDisplay(one).plot(ax, equal_scores=False).ax_.set_title(title)
plt.show()
