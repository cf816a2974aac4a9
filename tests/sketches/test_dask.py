"""The same results on a cluster: joblib's backend of dask, and every n_jobs."""

import gc
import os
import threading
from functools import cache, partial, reduce

import joblib
import numpy as np
import pytest
from conftest import processes_of_dask, threads_of_dask
from joblib.parallel import ThreadingBackend
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB

import skcalib as s
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.smoothers import CrossFitted, DirichletKernel

# joblib (1.6) forgets what it sent to Dask when a call ends, and then stumbles over arrays that die
# later: a KeyError inside of a weak reference, which Python reports and ignores.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <function _WeakKeyDictionary:"
    "pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module")
def client():
    """A cluster of two threads in this process, which listens to nobody else."""
    with threads_of_dask() as client:
        yield client
    gc.collect()  # what joblib left behind stays in this file


def simplex(n_samples, n_classes):
    """Labels and forecasts."""
    sample = make_tempered_simplex(n_samples, n_classes, random_state=0)
    return sample.y, sample.y_proba


SOME, FEW, PAIRS, MORE = simplex(200, 3), simplex(100, 3), simplex(60, 2), simplex(300, 4)
BY_DRAWS = {"metric": s.ks_calibration_error, "n_resamples": 8}
SCORES = np.random.default_rng(0).random((2, 5000))
UNIFORM = SCORES[1] < SCORES[0], SCORES[0]


def grouping(**options):
    sample = make_grouping_problem(400, random_state=0)
    estimator = s.GroupingLossEstimator(
        LogisticRegression(), cv=3, n_bins=4, n_permutations=10, random_state=0, **options
    ).fit(sample.X, sample.y)
    names = ("grouping_loss_", "confidence_interval_", "pvalue_", "calibration_error_")
    return [getattr(estimator, name) for name in names], estimator.regions_


def interval(**options):
    sample = make_grouping_problem(400, random_state=1)
    estimator = s.CalibrationErrorEstimator(LogisticRegression(), cv=3, **options)
    estimator.fit(sample.X, sample.y)
    return estimator.calibration_error_, estimator.confidence_interval_


def ensemble(**options):
    """Models of folds and their recalibrators: fitted, and asked, in parallel."""
    sample = make_grouping_problem(300, random_state=2)
    model = s.RecalibratedClassifierCV(GaussianNB(), "select", cv=3, ensemble=True, **options)
    model.set_params(candidates=[s.IdentityRecalibrator(), s.IsotonicRecalibrator()])
    return model.fit(sample.X, sample.y).predict_proba(sample.X)


def corp():
    options = {"n_resamples": 39, "random_state": 0, "notion": "classwise"}
    terms = s.corp_decomposition(*FEW, notion="classwise")
    bands, test = s.errors.corp_bands(*FEW, **options), s.errors.corp_test(*FEW, **options)
    return [terms.miscalibration, *(band.low for band in bands), test]


def stream_parts():
    """What a worker sends back is a few sums."""
    y, proba = simplex(3000, 3)
    sketch, bins = s.ForecastSketch(labels=[0, 1, 2]), {"strategy": "uniform", "n_bins": 15}
    rows = np.array_split(np.arange(3000), 6)
    read = joblib.delayed(lambda part: clone(sketch).fit(y[part], proba[part]))
    total = reduce(s.ForecastSketch.merge, joblib.Parallel()(read(part) for part in rows))
    error = s.calibration_error(total, **bins)
    assert error == pytest.approx(s.calibration_error(y, proba, **bins), abs=1e-14)
    return error


def kernels(**options):
    """Loops of threads: another backend must not lose what they would share."""
    y, proba = simplex(1200, 3)
    draws = {"method": "bootstrap", "n_resamples": 20, "random_state": 0}
    test = s.kernel_calibration_test(y, proba, **draws, **options)
    smoother = DirichletKernel(0.05, **options).fit(proba, np.eye(3)[y])
    return [test, smoother.smooth(), smoother.predict(proba[:50])]


TASKS = {
    "grouping": grouping,
    "grouping classwise": lambda **options: grouping(notion="classwise", swap=True, **options),
    "grouping k-means": lambda **options: grouping(partitioner="kmeans", **options),
    "grouping risk": lambda **options: grouping(method="risk", partitioner=Ridge(), **options),
    "ensemble": ensemble,
    "interval": interval,
    "resampled interval": lambda **options: [
        s.calibration_error_interval(*SOME, **BY_DRAWS, method=method, **options)
        for method in ("jackknife", "bootstrap")
    ],
    "consistency": partial(s.significance.consistency_test, *SOME, **BY_DRAWS, random_state=0),
    "kernels": kernels,
}
WITHOUT_N_JOBS = {
    "simulated": partial(
        s.significance.cumulative_test, *UNIFORM, n_resamples=3000, random_state=0
    ),
    "cross-fitted": lambda: [
        s.proper_calibration_error(*SOME, smoother=CrossFitted(LogisticRegression()), notion=notion)
        for notion in ("canonical", "classwise")
    ],
    "corp": corp,
    # each fold chooses the bandwidth that it is smoothed with
    "bandwidth": lambda: (
        DirichletKernel("risk").fit(PAIRS[1], np.eye(2)[PAIRS[0]]).smooth_held_out()
    ),
    "maps": lambda: [
        recalibrator.fit(MORE[1], MORE[0]).transform(MORE[1])
        for recalibrator in (s.PlattScaling(), s.recalibration.MatrixScaling(loss="brier"))
    ],
    "stream": stream_parts,
}
ALL = {**TASKS, **WITHOUT_N_JOBS}


@cache
def expected_of(name):
    """The result without a cluster, also where one is in use."""
    with joblib.parallel_config("sequential"):
        return ALL[name]()


WITH_JOBS = ("grouping risk", "ensemble", "resampled interval", "kernels")
CALLS = [*((name, {}) for name in ALL), *((name, {"n_jobs": 2}) for name in WITH_JOBS)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), CALLS)
def test_dask(name, options, client):
    with joblib.parallel_config("dask"):
        np.testing.assert_equal(ALL[name](**options), expected_of(name))


@pytest.mark.slow
def test_the_cluster_works(client):
    with joblib.parallel_config("dask"):
        threads = joblib.Parallel()(joblib.delayed(threading.get_ident)() for _ in range(4))
    assert threading.get_ident() not in threads


@pytest.mark.slow
def test_dask_in_another_process():
    """A worker that shares nothing: everything is pickled on its way there and back."""
    # With one thread, joblib does not ask the cluster.
    with processes_of_dask(1, threads_per_worker=2), joblib.parallel_config("dask"):
        assert os.getpid() not in joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(2))
        for name in ("grouping", "interval", "consistency", "ensemble", "stream"):
            np.testing.assert_equal(ALL[name](), expected_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*WITHOUT_N_JOBS, "kernels"])
def test_loops_without_n_jobs_go_to_processes(name):
    with joblib.parallel_config("loky", n_jobs=2):
        np.testing.assert_equal(ALL[name](), expected_of(name))


class Counting(ThreadingBackend):
    """Threads that count the tasks which loops share out."""

    tasks = 0

    def submit(self, func, callback=None):
        Counting.tasks += len(func)
        return super().submit(func, callback)


#: The least number of tasks of the loops: folds, classes, level sets, resamples.
#: What is nested in them gets one job from joblib, but on a cluster.
SHARED_OUT = {
    "grouping": 3 + 4,
    "grouping classwise": 3 + 2,
    "grouping risk": 3 + 5 + 5,
    "interval": 3,
    "resampled interval": 8 + 8,
    "consistency": 8,
    "ensemble": 3 + 2 * 3 + 3 + 3,
    "cross-fitted": 5 + 3,
    "corp": 3 + 3 * 1 + 39,
    "bandwidth": 5,
    "maps": 4 + 4 + 5 + 5,
    "stream": 6,
    "kernels": 3,
    "simulated": 2,
}


@pytest.mark.parametrize("name", SHARED_OUT)
def test_every_loop_is_shared_out(name):
    joblib.register_parallel_backend("counting", Counting)
    Counting.tasks = 0
    with joblib.parallel_config("counting", n_jobs=2):
        np.testing.assert_equal(ALL[name](), expected_of(name))
    assert Counting.tasks >= SHARED_OUT[name]
