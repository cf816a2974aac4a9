"""Docstrings of public names: they name their neighbours, and those of displays have a figure."""

import inspect
import re
from operator import attrgetter
from pathlib import Path

import pytest

import skcalib

REFERENCE = Path(__file__).parents[2] / "doc" / "api.rst"
pytestmark = pytest.mark.skipif(not REFERENCE.exists(), reason="needs the folder doc")
NAMES = re.findall(r"^   ([\w.]+)$", REFERENCE.read_text(), re.M) if REFERENCE.exists() else []


def neighbours(docstring):
    """Names and descriptions of the section "See Also"."""
    _, _, section = docstring.partition("See Also\n--------\n")
    section = re.split(r"\n\w[\w ]*\n-+\n", section)[0]
    return re.findall(r"^(\S+) : (\S.*)$", section, re.M)


def exists(name, beside):
    """Whether a name of ours is found at the root or beside a public name."""
    for home in ("", beside.rpartition(".")[0]):
        path = f"{home}.{name}" if home else name
        try:
            attrgetter(path.removeprefix("skcalib."))(skcalib)
        except AttributeError:
            continue
        return True
    return False


@pytest.mark.parametrize("name", NAMES)
def test_see_also(name):
    links = neighbours(inspect.getdoc(attrgetter(name)(skcalib)))
    assert links, f"{name} has no neighbour in a section See Also"
    ours = [neighbour for neighbour, _ in links if not neighbour.startswith("sklearn.")]
    lost = [neighbour for neighbour in ours if not exists(neighbour, name)]
    assert ours and not lost, f"See Also of {name} names {lost}"
    assert name not in ours, f"{name} is no neighbour of itself"


def test_neighbours_are_read():
    text = "Title.\n\nSee Also\n--------\nbrier : One.\nskcalib.lost : Two.\n\nNotes\n-----\nx : y"
    assert neighbours(text) == [("brier", "One."), ("skcalib.lost", "Two.")]
    assert not neighbours("Title.\n\nNotes\n-----\nbrier : One.\n")
    assert exists("skcalib.calibration_error", "scores.Brier") and exists("LogLoss", "scores.Brier")
    assert not exists("skcalib.lost", "scores.Brier") and not exists("LogLoss", "PlattScaling")


@pytest.mark.parametrize("name", skcalib.displays.__all__)
def test_displays_have_a_figure(name):
    text = inspect.getdoc(getattr(skcalib.displays, name))
    (example,) = re.findall(r"\.\. plot::\n    :alt: \S.*\.\n\n((?:    .*\n?)+)", text)
    assert ">>> " in example and f"{name}.from_" in example


def documented(name):
    """A public function or class, and the methods of ours that it has, by name."""
    owner = attrgetter(name)(skcalib)
    yield name, owner
    for key in dir(owner) if inspect.isclass(owner) else ():
        method = getattr(owner, key)
        ours = (getattr(method, "__module__", None) or "").startswith("skcalib")
        if callable(method) and ours and not key.startswith("_"):
            yield f"{name}.{key}", method


def entries(docstring):
    """Names of the parameters in the section "Parameters", or None without one."""
    _, heading, section = docstring.partition("Parameters\n----------\n")
    section = re.split(r"\n\w[\w ]*\n-+\n", section)[0]
    names = re.findall(r"^(\S.*?)(?: :.*)?$", section, re.M)
    return (
        [name.lstrip("*") for listed in names for name in listed.split(", ")] if heading else None
    )


@pytest.mark.parametrize("name", NAMES)
def test_all_parameters_have_entries(name):
    """Also those whose entries stand elsewhere; each once, and none of other parameters."""
    for where, function in documented(name):
        told = entries(inspect.getdoc(function) or "")
        taken = inspect.signature(function).parameters.keys() - {"self"} if told else ()
        assert told is None or sorted(told) == sorted(taken), where


def test_entries_that_stand_elsewhere_follow_the_signature():
    told = entries(inspect.getdoc(skcalib.decision_regret))
    assert told == [*inspect.signature(skcalib.decision_regret).parameters]
    text = inspect.getdoc(skcalib.MurphyDisplay.plot)
    assert entries(text)[:2] == ["ax", "name"] and entries("Title.\n") is None
    assert text.index("Parameters\n") < text.index("Returns\n") < text.index("Raises\n")
    assert entries(inspect.getdoc(skcalib.GroupRecalibrator.predict)) == ["X", "features"]
