"""A plugin of pytest: which tests reach each line of the library, and how long they take.

    python -m pytest -p reached_lines   # with .ci in PYTHONPATH, and a folder in REACHED_LINES

Each process writes a file of its own into the folder; `read` joins them. A test that fails is left
out: it says nothing about a changed line.
"""

import json
import os
import time
from collections import defaultdict
from pathlib import Path

import pytest


def pytest_configure(config):
    import coverage

    folder = Path(os.environ["REACHED_LINES"])
    config.reached = coverage.Coverage(
        data_file=str(folder / f"{os.getpid()}.coverage"),
        source_pkgs=["skcalib"],
        config_file=False,
    )
    config.reached_seconds, config.reached_failed = {}, set()
    config.reached.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    item.config.reached.switch_context(item.nodeid)
    started = time.perf_counter()
    try:
        return (yield)
    finally:
        if item.nodeid not in item.config.reached_failed:
            item.config.reached_seconds[item.nodeid] = time.perf_counter() - started
        item.config.reached.switch_context("")


def pytest_runtest_makereport(item, call):
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
        item.config.reached_failed.add(item.nodeid)


def pytest_unconfigure(config):
    config.reached.stop()
    config.reached.save()
    path = Path(os.environ["REACHED_LINES"]) / f"{os.getpid()}.json"
    path.write_text(json.dumps(config.reached_seconds), encoding="utf-8")


def read(folder):
    """Tests that pass and reach each line, {file: {line: {test, ...}}}, and their seconds."""
    from coverage import CoverageData

    seconds, found = {}, defaultdict(lambda: defaultdict(set))
    for path in Path(folder).glob("*.json"):
        seconds.update(json.loads(path.read_text(encoding="utf-8")))
    for path in Path(folder).glob("*.coverage"):
        data = CoverageData(str(path))
        data.read()
        for file in data.measured_files():
            name = file[file.rindex("/skcalib/") + 1 :]
            for line, contexts in data.contexts_by_lineno(file).items():
                found[name][line].update(one for one in contexts if one in seconds)
    return found, seconds
