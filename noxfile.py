"""What a contributor runs, and what .ci/run and the workflows run: python -m nox -s quick

`python -m nox -l` lists the sessions. Each runs in the environment of the caller, for which
`pip install -e ".[dev]"` is enough, but for the sessions that name another extra. Arguments after
`--` are passed on to the program of the session.
"""

import os
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["quick"]

PYTEST = ("python", "-m", "pytest", "-n", "2")
# two processes on two cores: threads inside them would only get in each other's way
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
TEXTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "doc", "skcalib", "tests", "examples")


@nox.session
def quick(session):
    """Lint, and the tests of what has changed since the branch left main."""
    session.run("python", "-m", "ruff", "check", "--quiet", ".")
    lines = session.run("python", ".ci/changed.py", silent=True).split("\n")
    themselves, judges = (line.split() for line in lines[:2])
    if themselves:
        session.run(*PYTEST, "-q", "-rNfE", *themselves, *session.posargs)
    session.run(*PYTEST, "-q", "-rNfE", "--every", "8", *judges, *session.posargs)


@nox.session
def test(session):
    """The tests: of the instances of each every eighth. All of them: -- --every 1"""
    session.run(*PYTEST, *session.posargs)


@nox.session
def lint(session):
    """Style, order of imports, spelling, and the structure of docstrings."""
    session.run("python", "-m", "ruff", "check", ".")
    session.run("python", "-m", "ruff", "format", "--check", ".")
    session.run("python", "-m", "codespell_lib", *TEXTS, ".github", "conda")
    files = sorted(str(path) for path in Path("skcalib").rglob("*.py"))
    session.run("python", "-m", "numpydoc", "lint", *files, log=False)


@nox.session
def types(session):
    """Annotations, by mypy."""
    session.run("python", "-m", "mypy", *session.posargs)


@nox.session
def doctest(session):
    """The examples of docstrings, of the documentation, and of its start page."""
    session.run(*PYTEST, "-q", "--doctest-modules", "skcalib")
    session.run(*PYTEST, "-q", "--doctest-glob=*.rst", "doc", "--ignore=doc/_build")
    session.run("python", "doc/make_start_page.py", "--check")


@nox.session
def docs(session):
    """The documentation with its gallery (extra: doc), in doc/_build/html or after --"""
    target = session.posargs[0] if session.posargs else "doc/_build/html"
    strict = ("-q", "-W", "--keep-going")
    session.run("python", "-m", "sphinx", *strict, "-j", "2", "-b", "html", "doc", target)
    session.run("python", ".ci/check_pages.py", target)


@nox.session
def slow(session):
    """Long statistical studies (extra: test). All instances: about an hour."""
    session.run(*PYTEST, "--dist", "worksteal", "-m", "slow", "--durations=20", *session.posargs)


@nox.session
def mutants(session):
    """Do the tests notice wrong formulas? (extra: test, and mutmut) See .ci/mutants.py."""
    session.run("python", ".ci/mutants.py", *session.posargs)


@nox.session
def lowest(session):
    """Tests with the oldest versions that pyproject.toml allows, in an environment of their own."""
    session.run("bash", ".ci/lowest", *session.posargs, external=True)


@nox.session(name="all")
def everything(session):
    """What must pass before a change lands, from a clean checkout: about 25 minutes."""
    session.run("bash", ".ci/run", external=True)
