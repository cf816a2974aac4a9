"""The page on migration: each row's call of ours is run, and held against another package's number.

The numbers were printed by `doc/studies/migration.py`, with scikit-learn and other packages of
these versions in an environment of their own.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from doc_studies import load

import skcalib
from skcalib.kernels import LaplacianKernel
from skcalib.scores import Brier
from skcalib.smoothers import UniformBins

study = load("migration")
pytestmark = pytest.mark.skipif(study is None, reason="needs the folder doc")

PRINTED = {
    "scikit-learn 1.9.1": {
        "sigmoid_of_scores.predict_proba([[0.8]])[0, 1]": 0.9408592569291715,
        "sigmoid.predict_proba([[0.8]])[0, 1]": 0.9463176748845515,
        "isotonic.predict_proba([[0.35]])[0, 1]": 0.2727272727272727,
        "temperature.predict_proba([[0.8]])[0, 1]": 0.9367594087758617,
        "beta": 1.9443779013305134,
        "beta_of_scores": 0.9721889439821829,
    },
    "netcal 1.4.0": {
        "ECE(15).measure(p, y)": 0.10428909952606634,
        "ECE(15).measure(P, y3)": 0.08799418118190479,
        "MCE(15).measure(p, y)": 0.1676995989792196,
        "ACE(15).measure(p, y)": 0.10416644966407998,
        "TemperatureScaling().fit(p, y).transform(np.array([0.8]))": 0.9367604518307021,
        "LogisticCalibration().fit(p, y).transform(np.array([0.8]))": 0.9540278647350421,
        "BetaCalibration().fit(p, y).transform(np.array([0.8]))": 0.962487654762167,
        "HistogramBinning(10).fit(p, y).transform(np.array([0.8]))": 0.9,
    },
    "mapie 1.6.0": {
        'expected_calibration_error(y, p, num_bins=16, split_strategy="uniform")': 0.1042890995261,
        "spiegelhalter_p_value(y, p)": 0.9998252116290778,
        "kolmogorov_smirnov_p_value(y, p)": 0.32516146913165866,
        "kuiper_p_value(y, p)": 0.050069659222556684,
    },
    "torchmetrics 1.9.0": {
        "binary_calibration_error(p, y, n_bins=15)": 0.10428909952606634,
        'binary_calibration_error(p, y, n_bins=15, norm="l2")': 0.11346204325420679,
        'binary_calibration_error(p, y, n_bins=15, norm="max")': 0.1676995989792196,
        "multiclass_calibration_error(P, y3, num_classes=3, n_bins=15)": 0.08799415826797485,
        "binary_calibration_error(*edge, n_bins=10)": 0.5249999761581421,
    },
    "uncertainty-calibration 0.1.4": {
        "cal.get_ece(p, y)": 0.10428909952606637,
        "cal.get_ece(P, y3)": 0.08799418118190476,
        "cal.get_calibration_error(P, y3)": 0.07032292086433117,
        "platt.calibrate([0.8])[0]": 0.9538876212029959,
    },
    "relplot 1.0.3": {
        "smECE(p, y)": 0.08902587510636736,
        "smECE_sigma(p, y, 0.1)": 0.08753766317097994,
    },
    "betacal 1.1.0": {
        'fitted("abm").predict([[0.8]])[0]': 0.962483992601555,
        'fitted("am").predict([[0.8]])[0]': 0.9538876212039412,
        'fitted("ab").predict([[0.8]])[0]': 0.9628731540012082,
    },
    "rms 6.5.0": {
        "C (ROC)": 0.927338418306,
        "U": 0.0852554206447,
        "U:p": 7.29641696176e-05,
        "D": 0.605259382724,
        "Q": 0.52000396208,
        "Brier": 0.120380606905,
        "Intercept": 0.296143184346,
        "Slope": 1.97395768839,
        "Eavg": 0.0820366057594,
        "S:z": -3.57548685451,
        "S:p": 0.000349576741844,
    },
    "R 4.2.2": {
        "mean(abs(fitted(loess(y ~ p)) - p))": 0.0917102469555,
        "100 * mean((fitted(loess(y ~ p)) - p)^2)": 1.02597169852,
        "coef(glm(y ~ offset(qlogis(p)), binomial))": 0.190883420455,
        "predict(glm(y ~ p, binomial), p = 0.8)": 0.955180767991,
        "miscalibration by isoreg(p, y)": 0.0199995614794,
        "discrimination by isoreg(p, y)": 0.148718954575,
    },
    "CalibrationErrors.jl, by definition": {
        "ECE(UniformBinning(5), TotalVariation())(P, y3)": 0.185758811846373,
        "ECE(UniformBinning(5), SqEuclidean())(P, y3)": 0.0894872337032797,
        "BiasedSKCE(ExponentialKernel() ⊗ WhiteKernel())(P, y3)": 0.0026534527860782504,
        "UnbiasedSKCE(ExponentialKernel() ⊗ WhiteKernel())(P, y3)": -4.561704306893113e-05,
    },
}
PAGE = Path(__file__).parents[2] / "doc" / "user_guide" / "migration.rst"
ROW = re.compile(
    r"^   \* - ``(.+)``\n     - ``(.+)``\n     - (\S+)\n     - (\S+)\n     - (.+)$", re.MULTILINE
)
SAME = 1e-5  # relative: where two optimisers stop


def rows():
    """(package, its call, our call, its number, our number, why they differ) of the page."""
    if study is None:
        return []
    table = []
    sections = re.split(r"\n(?=.+\n=+\n)", PAGE.read_text(encoding="utf-8"))
    for section in sections:
        named = [p for p in PRINTED if all(call in section for call in PRINTED[p])]
        table += [(named[0], *match) for match in ROW.findall(section)]
    return table


ROWS = rows()


@pytest.fixture(scope="module")
def names():
    """What our calls may use: the names at the root, and the data."""
    blocks = {"LaplacianKernel": LaplacianKernel, "UniformBins": UniformBins, "Brier": Brier}
    public = {name: getattr(skcalib, name) for name in skcalib.__all__}
    public |= {"errors": skcalib.errors, "significance": skcalib.significance}
    return public | blocks | {"np": np} | study.data()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0].split()[0]}, {row[1]}")
def test_row(row, names):
    """Numbers that are called the same are, and those that differ do."""
    package, theirs, ours, their_number, our_number, why = row
    printed, computed = PRINTED[package][theirs], float(eval(ours, dict(names)))
    assert float(their_number) == pytest.approx(printed, rel=6e-4)
    assert float(our_number) == pytest.approx(computed, rel=6e-4)
    assert (computed == pytest.approx(printed, rel=SAME)) == why.startswith("same")


def test_every_printed_number_is_on_the_page():
    listed = {(package, theirs) for package, theirs, *_ in ROWS}
    assert listed == {(package, call) for package in PRINTED for call in PRINTED[package]}


def test_data_are_those_of_the_page():
    """The lines of the page, run."""
    lines = re.findall(r"^>>> (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    namespace = {}
    exec("\n".join(lines), namespace)
    for name, expected in study.data().items():
        np.testing.assert_array_equal(namespace[name], expected)


@pytest.mark.slow
def test_numbers_of_installed_packages():
    """Those whose version is the printed one; scikit-learn is there, the others may be."""
    printed = study.printed(only=PRINTED)
    assert "CalibrationErrors.jl, by definition" in printed
    for package, numbers in printed.items():
        assert numbers == pytest.approx(PRINTED[package], rel=1e-6), package
