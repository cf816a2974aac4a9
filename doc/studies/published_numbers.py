"""Numbers that the five papers publish, beside the same numbers by this library.

Each record names the paper, the place, the published number, a function that computes ours, and the
largest difference that is explained by the printed digits or by Monte Carlo errors. Places:

- a table, figure, theorem or example of the paper. Numbers of W19's figures are those of the files
  that its figures are made of (github.com/devmotion/CalibrationPaper, version 0.2.0);
- "code": the published code of the paper computes the number from a simulation that the paper
  describes, but the paper does not print it.

W19's means are over 10,000 data sets, ours over `SETS`: the tolerance is four standard errors of
the difference. The numbers of F24 are those of version 2 on arXiv.

    python doc/studies/published_numbers.py            # formulas, seconds
    python doc/studies/published_numbers.py --slow     # simulations too, about a minute
    python doc/studies/published_numbers.py --predictions FOLDER

The last form compares W19's five error estimates and four p-values of 14 networks on CIFAR-10 with
ours. It needs their predictions, which are not part of this library: clone
github.com/devmotion/CalibrationPaper and pass its folder experiments/data/PyTorch-CIFAR10.
"""

import argparse
import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import permutations
from math import sqrt
from pathlib import Path

import numpy as np
from scipy.special import ndtr, softmax

from skcalib import (
    calibration_error,
    kernel_calibration_error,
    kernel_calibration_test,
    ks_calibration_error,
    optimal_n_bins,
)
from skcalib.datasets import make_grouping_problem, make_tempered_simplex, make_widmann
from skcalib.errors import simplex_calibration_error
from skcalib.kernels import LaplacianKernel
from skcalib.recalibration import LabelFrequency
from skcalib.scores import Brier, expected_divergence
from skcalib.significance import distribution_free_bound
from skcalib.smoothers import LevelSets, MedianCells, UniformBins
from skcalib.theory import ece_generalization_bound

SETS = 150  # data sets of a mean
TESTS = 400  # data sets of a share of rejections
THEIR_SETS = 10_000


@dataclass(frozen=True)
class Record:
    """A published number, and a function that returns ours or a mean with its standard error."""

    paper: str
    place: str
    what: str
    published: float
    compute: Callable[[], float | tuple[float, float]]
    tolerance: float = 0.0
    n_sets: int = 0  # ours, where the number is a mean over data sets

    def compare(self) -> tuple[float, float]:
        """Our number, and the largest difference that is explained."""
        if not self.n_sets:
            return float(self.compute()), self.tolerance
        mean, error = self.compute()
        return mean, self.tolerance + 4 * error * sqrt(1 + self.n_sets / THEIR_SETS)


# --- W19 ------------------------------------------------------------------------------------------

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the labels that do not depend on the forecasts
M2, M3 = "M2", "M3"  # where these labels are class 0, and where they are uniform

#: Mean estimates of the figures of the appendix, by estimator, labels and concentration of the
#: forecasts; a row for each number of classes, a column for each share.
MEANS = {
    ("uniform", M2, 1.0): {
        2: (0.06292972, 0.13570613, 0.25215872, 0.37486681, 0.49993117),
        10: (0.81515666, 0.83582906, 0.85683723, 0.87822796, 0.89993790),
        100: (0.25514213, 0.37601845, 0.54087597, 0.74995012, 0.98999271),
    },
    ("data-dependent", M3, 0.1): {
        2: (0.03336361, 0.13000197, 0.23317768, 0.33930164, 0.44775859),
        10: (0.25242997, 0.33602384, 0.43098932, 0.52961099, 0.63007191),
        100: (0.82676798, 0.84980692, 0.87399627, 0.89891258, 0.92467805),
    },
    ("biased", M2, 0.1): {
        2: (0.00033250, 0.02620620, 0.10203299, 0.22807586, 0.40368812),
        10: (0.00179107, 0.02663896, 0.09976616, 0.22055181, 0.38943781),
        100: (0.00360142, 0.02669121, 0.09591552, 0.21078670, 0.37166456),
    },
    ("unbiased", M3, 0.1): {
        2: (-0.00000104, 0.00961376, 0.03840775, 0.08614496, 0.15355700),
        10: (-0.00000862, 0.00095721, 0.00381924, 0.00853827, 0.01517050),
        100: (0.00000171, 0.00001072, 0.00004690, 0.00010172, 0.00018275),
    },
}
#: Mean estimates of figure 1 that are not above: estimator, model, mean.
FIGURE_1 = (
    ("uniform", "M1", 0.43951919),
    ("uniform", "M2", 0.66330841),
    ("uniform", "M3", 0.89177878),
    ("biased", "M3", 0.02051131),
    ("unbiased", "M2", 0.09655137),
    ("linear", "M1", 0.00016041),
    ("linear", "M2", 0.09655649),
    ("linear", "M3", 0.01505093),
)
#: True errors in total variation of the same figures, for concentration .1 and uniform labels.
TRUTHS = {
    2: (0.11039392373617116, 0.2207878474723423, 0.33118177120851344, 0.4415756949446846),
    10: (0.17766045030726066, 0.3553209006145213, 0.532981350921782, 0.7106418012290426),
    100: (0.18791046350579332, 0.37582092701158665, 0.56373139051738, 0.7516418540231733),
}
#: Shares of rejections in figure 2: method, statistic, model, level, share.
REJECTIONS = (
    ("bound", "biased", "M2", 0.05, 1 - 0.3706),
    ("asymptotic", "linear", "M1", 0.05, 0.0455),
    ("asymptotic", "linear", "M3", 0.05, 1 - 0.8141),
    ("spectral", "unbiased", "M1", 0.25, 0.2364),
)


def widmann_estimate(data, name, n_classes):
    """One estimate for one data set; their data-dependent bins cut every cell of ten samples."""
    labels = np.arange(n_classes)
    if name in ("biased", "unbiased", "linear"):
        return kernel_calibration_error(data.y, data.y_proba, statistic=name, labels=labels)
    bins = MedianCells(min_samples=5) if name == "data-dependent" else name
    return simplex_calibration_error(data.y, data.y_proba, bins=bins, labels=labels)


def widmann_mean(name, **model):
    """Mean estimate over data sets of 250 samples, and its standard error."""
    n_classes = model.get("n_classes", 10)
    found = [
        widmann_estimate(make_widmann(250, random_state=seed, **model), name, n_classes)
        for seed in range(SETS)
    ]
    return np.mean(found), np.std(found, ddof=1) / sqrt(SETS)


def widmann_rejections(method, statistic, model, level):
    """Share of 250-sample data sets with a p-value of at most the level, and its standard error."""
    draws = (make_widmann(250, model=model, random_state=seed) for seed in range(TESTS))
    tests = [
        kernel_calibration_test(
            d.y, d.y_proba, method=method, statistic=statistic, labels=np.arange(10)
        )
        for d in draws
    ]
    share = np.mean([test.pvalue <= level for test in tests])
    return share, sqrt(share * (1 - share) / TESTS)


def widmann_truth(**model):
    return make_widmann(1, random_state=0, **model).truth["total_variation"]


def widmann_records() -> Iterator[Record]:
    for n_classes, row in TRUTHS.items():
        for share, published in zip(SHARES[1:], row, strict=True):
            model = {"model": M3, "n_classes": n_classes, "mixture": share}
            what = f"true error, {n_classes} classes, share {share}"
            compute = partial(widmann_truth, **model)
            yield Record("W19", "appendix", what, published, compute, 1e-14)
    for (name, model, concentration), rows in MEANS.items():
        for n_classes, row in rows.items():
            for share, published in zip(SHARES, row, strict=True):
                compute = partial(
                    widmann_mean,
                    name,
                    model=model,
                    n_classes=n_classes,
                    concentration=concentration,
                    mixture=share,
                )
                what = f"{name}, {model}, {n_classes} classes, Dir({concentration}), share {share}"
                yield Record("W19", "appendix", what, published, compute, 5e-9, SETS)
    for name, model, published in FIGURE_1:
        compute = partial(widmann_mean, name, model=model)
        yield Record("W19", "figure 1", f"{name}, {model}", published, compute, 5e-9, SETS)
    for method, statistic, model, level, published in REJECTIONS:
        compute = partial(widmann_rejections, method, statistic, model, level)
        what = f"rejections at {level}, {statistic}, {method}, {model}"
        yield Record("W19", "figure 2", what, published, compute, 5e-5, TESTS)


# --- F24 ------------------------------------------------------------------------------------------


def futami_records() -> Iterator[Record]:
    """Table 1. Its two bounds for fresh samples are cut, not rounded: .84755 and 1.45578.

    The bounds for reused samples contain an estimate of information. Ours are without any, the
    minimum; .0285 nats in both terms of corollary 4 would give .1444.
    """
    fresh = partial(ece_generalization_bound, bound="recalibrated_fresh")
    reused = partial(ece_generalization_bound, bound="recalibrated_reused")
    rows = (
        ("MNIST, 100 fresh samples", 0.8475, partial(fresh, 100, 15), 1e-4),
        ("CIFAR-10, 100 fresh samples", 1.455, partial(fresh, 100, 27), 1e-3),
        ("MNIST, 4000 reused samples", 0.1444, partial(reused, 4000, 15), 2.5e-4),
        ("CIFAR-10, 20000 reused samples", 0.0865, partial(reused, 20_000, 27), 5e-5),
    )
    for what, published, compute, tolerance in rows:
        yield Record("F24", "table 1", f"bound, {what}", published, compute, tolerance)
    for n in (100, 10_000, 10**6):  # the formula of the legend, rounded down; ours has the minimum
        published = np.floor((2 * n * (1 + 1.5) ** 2 / np.log(2)) ** (1 / 3))
        compute = partial(optimal_n_bins, n, lipschitz=1.5)
        what = f"optimal number of bins, L = 1.5, n = {n}"
        yield Record("F24", "figure 1", what, published, compute, 0.05 * published)


# --- G22 ------------------------------------------------------------------------------------------


def six_permutations():
    """Labels and forecasts with exact class frequencies, of which the errors of one score are 0."""
    forecasts, labels = [], []
    for order in permutations(range(3)):
        forecast = np.empty(3)
        forecast[list(order)] = 0.5, 0.3, 0.2
        is_even = np.linalg.det(np.eye(3)[list(order)]) > 0
        for place, count in enumerate((5, 1, 4) if is_even else (5, 5, 0)):
            labels += [order[place]] * count
            forecasts += [forecast] * count
    return np.array(labels), np.array(forecasts)


def six_permutations_error(name):
    y, proba = six_permutations()
    if name == "CE_2":
        distance = "squared_euclidean"
        return sqrt(simplex_calibration_error(y, proba, distance=distance, bins=LevelSets()))
    if name == "KS":
        return ks_calibration_error(y, proba, notion="classwise", reduce="predicted")
    notion, norm = {"TCE_2": ("top_label", "l2"), "CWCE_2": ("classwise", "l2")}.get(
        name, ("top_label", "l1")
    )
    return calibration_error(y, proba, notion=notion, norm=norm, n_bins=10, strategy="uniform")


def label_frequency(name):
    """The map of appendix E.1 on its own samples: calibration error, or change of the accuracy."""
    data = make_tempered_simplex(2000, 3, random_state=0)
    mapped = LabelFrequency().fit(data.y_proba, data.y).predict_proba(data.y_proba)
    if name == "accuracy":
        right = [np.mean(p.argmax(axis=1) == data.y) for p in (data.y_proba, mapped)]
        return right[1] - right[0]
    return simplex_calibration_error(data.y, mapped, bins=LevelSets())


@cache
def gruber_logits():
    """Logits of the simulation of G22, from which labels are drawn: 100 classes, 500 of each.

    Given its class k a logit is normal with mean e_k and a covariance matrix that is drawn once per
    class from the inverse Wishart law with 100 degrees of freedom and scale 100 I: the inverse of
    G'G / 100 for a 100 x 100 matrix G of standard normal entries. Ours are other draws than theirs.
    Also returned is the probability that the predicted class is right.
    """
    rng = np.random.default_rng(1)
    parts = []
    for mean in np.eye(100):
        half, noise = rng.standard_normal((100, 100)), rng.standard_normal((100, 500))
        parts.append(mean + 10 * np.linalg.solve(half, noise).T)
    logits = np.concatenate(parts)
    return logits, softmax(logits, axis=1).max(axis=1)


def gruber_truth(scale):
    """Mean |E[right | score] - score|: the score is a function of one logit vector only."""
    logits, right = gruber_logits()
    return np.mean(np.abs(right - softmax(scale * logits, axis=1).max(axis=1)))


def gruber_ece(scale, n_samples, n_draws=400):
    """Mean ECE with 15 bins of the forecasts of which the logits are multiplied by the scale."""
    logits, right = gruber_logits()
    score = softmax(scale * logits, axis=1).max(axis=1)
    rng, errors = np.random.default_rng(0), []
    options = {"strategy": "uniform", "n_bins": 15, "notion": "canonical", "labels": [0, 1]}
    for _ in range(n_draws):
        rows = rng.integers(len(score), size=n_samples)
        y = (rng.random(n_samples) < right[rows]).astype(int)
        errors.append(calibration_error(y, score[rows], **options))
    return np.mean(errors), np.std(errors, ddof=1) / sqrt(n_draws)


def gruber_records() -> Iterator[Record]:
    """The simulation draws covariance matrices: 4 % is the spread between such draws."""
    for name in ("ECE", "TCE_2", "CWCE_2", "KS"):
        compute = partial(six_permutations_error, name)
        yield Record("G22", "counter-example", f"six permutations, {name}", 0.0, compute, 1e-12)
    compute = partial(six_permutations_error, "CE_2")
    yield Record("G22", "counter-example", "six permutations, CE_2", 0.2 * sqrt(2), compute, 1e-12)
    what = "class frequencies of each predicted class"
    for name in ("calibration error", "accuracy"):
        compute = partial(label_frequency, name)
        yield Record("G22", "appendix E.1", f"{what}, {name}", 0.0, compute, 1e-12)
    bad = partial(gruber_truth, 2.5)
    yield Record("G22", "code", "true error, over-confident", 0.0816, bad, 0.04 * 0.0816)
    for what, scale, n_samples, published in (
        ("calibrated", 1.0, 100, 0.074),
        ("calibrated", 1.0, 10_000, 0.0075),
        ("over-confident", 2.5, 100, 0.103),
        ("over-confident", 2.5, 10_000, 0.082),
    ):
        compute = partial(gruber_ece, scale, n_samples)
        what = f"ECE, {what}, n = {n_samples}"
        yield Record("G22", "code", what, published, compute, 0.04 * published, 400)


# --- P24 and L23 ----------------------------------------------------------------------------------


def tempered_truth(loss):
    """P24 sum both columns of the Brier error, we halve them."""
    truth = make_tempered_simplex(1, 2, random_state=0).truth[loss]
    return truth * (2 if loss == "brier" else 1)


def induced_by_binning(score, n_bins):
    """E D(S, S_B) of calibrated scores in bins of equal width, which is what binning induces."""
    forecast = np.column_stack([1 - score, score])
    binned = UniformBins(n_bins).fit(forecast, forecast).smooth()
    return expected_divergence(Brier(), forecast, binned)


def popordanoska_and_perez_lebel_records() -> Iterator[Record]:
    for loss, published in (("log", 0.0366030), ("brier", 0.0125925)):
        compute = partial(tempered_truth, loss)
        yield Record("P24", "code", f"true {loss} error, 2 classes", published, compute, 5e-8)
    truth = make_grouping_problem(2, random_state=0).truth
    yield Record(
        "L23", "code", "grouping loss of figure 4", 0.005862, lambda: truth["grouping_brier"], 5e-7
    )
    n_bins, n_scores = 15, 300_000
    uniform = (np.arange(n_scores) + 0.5) / n_scores
    edges = np.arange(n_bins) / n_bins
    at_the_ends = np.concatenate([edges + 1e-12, edges + 1 / n_bins - 1e-12])
    for what, score, published in (
        ("uniform scores, 15 bins", uniform, 1 / (12 * n_bins**2)),
        ("largest for 15 bins", at_the_ends, 1 / (4 * n_bins**2)),
    ):
        compute = partial(induced_by_binning, score, n_bins)
        yield Record("L23", "text", f"induced loss, {what}", published, compute, 1e-8 * published)


def records() -> list[Record]:
    """All of them; those with `n_sets` are simulations."""
    return [
        *popordanoska_and_perez_lebel_records(),
        *widmann_records(),
        *gruber_records(),
        *futami_records(),
    ]


# --- the networks of W19 --------------------------------------------------------------------------

ESTIMATES = ("ECE_uniform", "ECE_dynamic", "SKCEb_median", "SKCEuq_median", "SKCEul_median")
PVALUES = (*(f"{name}_distribution_free" for name in ESTIMATES[2:]), "SKCEul_median_asymptotic")
NUMBERS = (*ESTIMATES, *PVALUES)


def network_estimates(y, proba):
    """W19's estimates and p-values, by their names; the bandwidth is the median of all distances.

    The published p-values without resampling: the bounds, where a negative linear estimate has p =
    1 here and its square in the published code, and the normal one of the linear estimate, whose
    published variance is divided by the number of pairs m, ours by m - 1.
    """
    labels = np.arange(proba.shape[1])
    bins = ("uniform", MedianCells(min_samples=100))
    found = [simplex_calibration_error(y, proba, bins=b, labels=labels) for b in bins]
    kernel = LaplacianKernel("median", max_samples=None).for_data(proba)
    options, statistics = {"kernel": kernel, "labels": labels}, ("biased", "unbiased", "linear")
    found += [kernel_calibration_error(y, proba, statistic=s, **options) for s in statistics]
    found += [distribution_free_bound(y, proba, statistic=s, **options).pvalue for s in statistics]
    normal = kernel_calibration_test(y, proba, statistic="linear", method="asymptotic", **options)
    pairs = len(y) // 2
    found.append(ndtr(-normal.statistic * sqrt(pairs / (pairs - 1))))
    return dict(zip(NUMBERS, map(float, found), strict=True))


def network_records(folder: str | Path) -> Iterator[tuple[str, str, float, float]]:
    """(network, estimate, published, ours) for each network of errors.csv with predictions.

    The folder has errors.csv and pvalues.csv (a header and a row for each network), labels.csv (a
    class from 1 to K in each line) and for each network a file of its name with K probabilities in
    each line.
    """
    folder = Path(folder)
    y = np.loadtxt(folder / "labels.csv", dtype=int) - 1
    published: dict[str, dict[str, str]] = {}
    for table, names in (("errors.csv", ESTIMATES), ("pvalues.csv", PVALUES)):
        with (folder / table).open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                published.setdefault(row["model"], {}).update({name: row[name] for name in names})
    for network, numbers in published.items():
        path = folder / f"{network}.csv"
        if not path.exists():
            continue
        found = network_estimates(y, np.loadtxt(path, delimiter=","))
        for name, number in numbers.items():
            yield network, name, float(number), found[name]


# --- the table ------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slow", action="store_true", help="also the simulations")
    parser.add_argument("--predictions", metavar="FOLDER", help="predictions of W19's networks")
    options = parser.parse_args()
    if options.predictions:
        print(f"{'network':14}{'estimate':32}{'published':>14}{'ours':>14}{'difference':>12}")
        for network, name, published, ours in network_records(options.predictions):
            values = f"{published:14.10f}{ours:14.10f}{ours - published:12.1e}"
            print(f"{network:14}{name:32}{values}", flush=True)
        return
    print(f"{'':5}{'':17}{'':62}{'published':>12}{'ours':>12}{'tolerance':>12}")
    for record in records():
        if record.n_sets and not options.slow:
            continue
        ours, tolerance = record.compare()
        flag = "" if abs(ours - record.published) <= tolerance else "  DIFFERENT"
        values = f"{record.published:12.7f}{ours:12.7f}{tolerance:12.1e}{flag}"
        print(f"{record.paper:5}{record.place:17}{record.what:62}{values}", flush=True)


if __name__ == "__main__":
    main()
