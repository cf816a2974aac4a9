"""Data that several test files share; every generator asserts that its data are not degenerate."""

import gc
import os
import re
import time
import tracemalloc
from contextlib import ExitStack, contextmanager
from pathlib import Path

# Before numpy: the matrices of most tests are tiny, and threads for them cost tenfold.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import pytest
from engines import Engine
from scipy.special import expit, logit
from sklearn.datasets import make_classification

import skcalib
from skcalib.__main__ import main
from skcalib._util.sizes import sizes
from skcalib.report.rendering import Picture
from skcalib.scores import ProperScore

STARTED = time.monotonic()
gc.disable()  # until all tests are collected: what is imported stays


def pytest_addoption(parser):
    parser.addoption(
        "--every",
        type=int,
        metavar="N",
        help="of the instances of each test run the first and every Nth after it (default: 8 where "
        "no test is chosen by a path, -k or -m, else 1)",
    )
    parser.addoption(
        "--seconds",
        type=float,
        default=float("inf"),
        metavar="N",
        help="tests that would start after so many seconds are skipped",
    )
    parser.addoption(
        "--write-skipped",
        metavar="FILE",
        help="write the names of the tests that are skipped into a file, for a second run of them",
    )
    parser.addoption(
        "--allowed-skips",
        metavar="FILE",
        help="fail if a test is skipped for a reason that no line of a file begins",
    )


def pytest_configure(config):
    """Without a choice of tests thin them out, so that all functions are tested in minutes."""
    option = config.option
    if option.every is None:
        chosen = config.args_source != pytest.Config.ArgsSource.TESTPATHS or option.keyword
        option.every = 1 if chosen or option.markexpr != "not slow" else 8


def pytest_report_header(config):
    return f"instances of each test: 1 of {config.option.every} (--every 1: all)"


def pytest_runtest_setup(item):
    if time.monotonic() - STARTED > item.config.getoption("--seconds"):
        pytest.skip("the time for all tests is over")
    for argument in item.callspec.params.values() if hasattr(item, "callspec") else ():
        if isinstance(argument, Engine):
            argument.require()


def pytest_collection_modifyitems(config, items):
    """Thin the instances of tests out, as `--every` says."""
    step, seen, selected, left_out = config.option.every, {}, [], []
    for item in items:
        test = item.nodeid.partition("[")[0]
        (left_out if seen.get(test, 0) % step else selected).append(item)
        seen[test] = seen.get(test, 0) + 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = selected


def pytest_collection_finish():
    """Leave what is imported out of each search for unused objects."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter, config):
    """Write the names of the tests that were skipped, where `--write-skipped` asks for them."""
    if path := config.getoption("--write-skipped"):
        skipped = terminalreporter.stats.get("skipped", [])
        names = sorted({report.nodeid.partition("[")[0] for report in skipped})
        Path(path).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def pytest_sessionfinish(session):
    """Fail if a test was skipped for another reason than those of `--allowed-skips`."""
    path = session.config.getoption("--allowed-skips")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if path and reporter is not None:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        allowed = tuple(line for line in lines if line and not line.startswith("#"))
        reasons = [report.longrepr[2] for report in reporter.stats.get("skipped", [])]
        reasons = {reason.removeprefix("Skipped: ") for reason in reasons}
        if odd := sorted(reason for reason in reasons if not reason.startswith(allowed)):
            reporter.write_line(f"skipped for reasons that are not in {path}: {odd}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@contextmanager
def threads_of_dask():
    """A Dask cluster of two threads in this process, which listens to nobody else: its client."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=False,
            dashboard_address="127.0.0.1:0",
            protocol="inproc://",
            memory_limit=0,
        ) as cluster,
        distributed.Client(cluster, timeout="20s") as client,
    ):
        yield client


@contextmanager
def processes_of_dask(n_workers=2, threads_per_worker=1):
    """A Dask cluster of processes on this machine: its client."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=threads_per_worker,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        distributed.Client(cluster, timeout="30s") as client,
    ):
        yield client


def cut(size, *arrays):
    """The arrays in chunks of `size` rows."""
    starts = range(0, len(arrays[0]), size)
    return [tuple(array[start : start + size] for array in arrays) for start in starts]


def lazy(*arrays, rows):
    """The arrays as Dask arrays with blocks of so many rows and of two columns."""
    da = pytest.importorskip("dask.array")
    return tuple(da.from_array(a, chunks=(rows, 2)[: a.ndim]) for a in arrays)


def peak_memory(call):
    """The result of a call, and the most bytes that were in use during it."""
    tracemalloc.start()
    try:
        result = call()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def rule_holds(rule, frame):
    """Rows of a frame for which the text of a rule is true, as pandas reads it."""
    text = re.sub(r"(\w+) is not missing", r"(\1 == \1)", rule)
    text = re.sub(r"(\w+) is missing", r"(\1 != \1)", text)
    text = re.sub(r"(\w+) = (\w+)", r"(@frame.\1.astype('str') == '\2')", text)
    return frame.eval(text).to_numpy()


def whole(message):
    """A pattern of the whole message: no word more, none less."""
    return "^" + re.escape(message) + "$"


def pairs(p):
    """Forecasts of two classes, of which the last has the probability p."""
    p = np.asarray(p, dtype=float)
    return np.column_stack([1 - p, p])


def forty():
    """Forty predictions without random numbers, which R and other packages make as well."""
    i = np.arange(1, 41)
    p = (i * 17 % 41) / 42 + 0.01
    return ((i * i * 7 % 11) / 11 < p).astype(int), p


def on_a_line(n_samples, intercept=0.0, slope=1.0, seed=0):
    """Labels whose log odds are a line in those of the forecasts."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1.5, n_samples)
    y = (rng.random(n_samples) < expit(intercept + slope * x)).astype(int)
    return y, expit(x)


def follow_a_power(n, rng, *, power=1.0, n_classes=3):
    """Forecasts of several classes; labels follow a power of them."""
    forecast = rng.dirichlet(np.ones(n_classes), n)
    true = forecast**power
    true /= true.sum(axis=1, keepdims=True)
    y = (true.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(0, n_classes - 1)
    return y, forecast


def clustered(n_clusters, seed, temper=1.0, spread=1.3, size=20):
    """Labels with a random effect of their cluster on the log odds, and forecasts of their mean.

    Clusters have 1 to about five times `size` samples.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.geometric(1 / size, n_clusters) + rng.integers(0, size, n_clusters)
    cluster = np.repeat(np.arange(n_clusters), sizes)
    z = rng.normal(size=len(cluster)) + 0.5 * rng.normal(size=n_clusters)[cluster]
    effect = rng.normal(0, spread, n_clusters)[cluster]
    y = (rng.random(len(z)) < expit(z + effect)).astype(int)
    return y, expit(temper * logit(mean_frequency(z, spread))), cluster


def mean_frequency(log_odds, spread):
    """Mean probability (n,) over normal effects of clusters with this standard deviation."""
    nodes, mass = np.polynomial.hermite_e.hermegauss(41)
    return expit(log_odds[:, None] + spread * nodes) @ (mass / mass.sum())


def report_of(n_samples=2000, n_classes=2, temperature=0.6, **parameters):
    """A report of forecasts whose logits are multiplied."""
    sample = skcalib.datasets.make_tempered_simplex(
        n_samples, n_classes, score_temperature=temperature, random_state=0
    )
    return skcalib.CalibrationReport.from_predictions(
        sample.y, sample.y_proba, labels=np.arange(n_classes), **parameters
    )


class Trap:
    """Its pickle fails the test that opens it."""

    def __reduce__(self):
        return (pytest.fail, ("the pickle was executed",))


def make_forecasts(n_samples, n_classes, *, seed=0):
    """Labels 0..K-1 and miscalibrated forecasts (n, K) with ties and exact zeros and ones."""
    rng = np.random.default_rng(seed)
    posterior = rng.dirichlet(np.ones(n_classes), n_samples)
    y = (posterior.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    y[:n_classes] = np.arange(n_classes)
    y_proba = posterior**1.5 / np.sum(posterior**1.5, axis=1, keepdims=True)
    y_proba[:2] = np.eye(n_classes)[:2]  # exact, and right: the log loss stays finite
    y_proba[-4:-2] = y_proba[-2:]
    assert_not_degenerate(y, y_proba)
    return y, y_proba


def assert_not_degenerate(y, y_proba):
    """No constant column, every class present, a tie, exact 0 and 1, rows that sum to one."""
    assert np.ptp(y_proba, axis=0).min() > 0.5
    assert np.array_equal(np.unique(y), np.arange(y_proba.shape[1]))
    assert len(np.unique(y_proba, axis=0)) < len(y_proba)
    assert (y_proba == 0).any() and (y_proba == 1).any()
    np.testing.assert_allclose(y_proba.sum(axis=1), 1, rtol=0, atol=1e-12)


class Quartic(ProperScore):
    """A score of a user, entropy -sum p^4, without any closed form beside it."""

    infimum = -1.0

    def entropy(self, forecast):
        return -np.sum(forecast**4, axis=-1)

    def gradient(self, forecast):
        return -4 * forecast**3


@pytest.fixture
def set_sizes():
    """A function that sets `sizes`, by name, until the end of the test."""
    with ExitStack() as stack:
        yield lambda **values: stack.enter_context(sizes(**values))


@pytest.fixture
def few_maps(set_sizes):
    """Reports compare one map with none, as for many classes; no p-value needs 100 draws."""
    set_sizes(many_classes=1, drawn_numbers=0, labelings=99)


@pytest.fixture
def words_only(monkeypatch):
    """Pages have the words of pictures, which are not drawn."""
    monkeypatch.setattr("skcalib.report.page.Picture", lambda _, *words: Picture(str, *words))


@pytest.fixture
def forecasts():
    """The generator itself, for tests that choose the size."""
    return make_forecasts


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, in which the test works."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def printed(capsys):
    """Runs the command line, checks its exit status, and returns what it prints."""

    def run(arguments, status=0):
        assert main(arguments) == status
        return capsys.readouterr()

    return run


@pytest.fixture
def binary():
    """Labels 0 and 1, and forecasts (120, 2)."""
    return make_forecasts(120, 2)


@pytest.fixture
def multiclass():
    """Labels 0, 1, 2, and forecasts (150, 3)."""
    return make_forecasts(150, 3, seed=1)


@pytest.fixture
def within_standard_errors():
    """Assert that the mean of independent draws lies within some standard errors of a value."""

    def check(draws, value, n_errors=4.0):
        error = np.std(draws, ddof=1) / np.sqrt(len(draws))
        distance = (np.mean(draws) - value) / error
        assert abs(distance) < n_errors, (
            f"{np.mean(draws):.6g} is {distance:+.1f} errors from {value:.6g}"
        )

    return check


def in_clusters(n_clusters, seed, *, alike=False, gap=0.0, spread=1.3, size=20):
    """Features (two), labels with a random effect of their cluster, their frequencies, clusters.

    With `alike`, features are alike in a cluster, the second one equal; `gap` is its effect on y.
    """
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_clusters), rng.integers(1, 2 * size, n_clusters))
    X = rng.normal(size=(len(cluster), 2))
    if alike:
        X[:, 0] = 0.5 * X[:, 0] + rng.normal(size=n_clusters)[cluster]
        X[:, 1] = rng.normal(size=n_clusters)[cluster]
    effect = rng.normal(0, spread, n_clusters)[cluster]
    y = (rng.random(len(X)) < expit(X[:, 0] + gap * np.sign(X[:, 1]) + effect)).astype(int)
    both = [mean_frequency(X[:, 0] + step, spread) for step in (-gap, gap)]
    return X, y, np.mean(both, axis=0), cluster


@pytest.fixture(scope="session")
def train_and_test():
    """Features and labels of three classes: 270 samples that learn, 150 that judge."""
    X, y = make_classification(
        420, n_classes=3, n_informative=6, class_sep=0.7, flip_y=0.1, random_state=0
    )
    assert np.bincount(y).min() > 100
    return X[:270], y[:270], X[270:], y[270:]
