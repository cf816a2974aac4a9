"""Every public function, constructor, method and property says the types it takes and returns.

Whether the annotations are true is for a type checker: ``python -m mypy``, see CONTRIBUTING.md.
"""

import importlib
import inspect
import pkgutil
from typing import Literal, get_args, get_origin

import pytest

import skcalib
from skcalib import kernels, scores, smoothers
from skcalib._util import types
from skcalib.data import notions

#: Tells what a class inherits from its own library apart from what it inherits from others.
OURS = "skcalib"
SPECIAL = ("__init__", "__call__", "__add__", "__mul__", "__len__")


def public_modules():
    """Modules without a leading underscore anywhere in their path, and the root."""
    names = [module.name for module in pkgutil.walk_packages(skcalib.__path__, "skcalib.")]
    return ["skcalib", *(n for n in names if not any(p.startswith("_") for p in n.split(".")))]


def public_objects(module):
    """Functions and classes of `__all__`; without it, what is defined in the module."""
    defined_here = [
        n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
    ]
    names = getattr(module, "__all__", [name for name in defined_here if not name.startswith("_")])
    members = {name: getattr(module, name) for name in names}
    return {n: v for n, v in members.items() if inspect.isfunction(v) or inspect.isclass(v)}


def methods(kind):
    """Functions that a public class has of this library, by name; private ones left out."""
    for base in kind.__mro__:
        if not base.__module__.startswith(OURS):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") and name not in SPECIAL:
                continue
            if isinstance(value, property):
                yield f"{base.__name__}.{name}", value.fget, True
            elif isinstance(value, (staticmethod, classmethod)):
                yield f"{base.__name__}.{name}", value.__func__, isinstance(value, classmethod)
            elif inspect.isfunction(value) and value.__module__.startswith(OURS):
                yield f"{base.__name__}.{name}", value, True


def missing(function, *, bound=False):
    """Parameters without an annotation, and "return"."""
    function = inspect.unwrap(function)
    parameters = list(inspect.signature(function).parameters)[bound:]
    return [n for n in (*parameters, "return") if n not in function.__annotations__]


def missing_of(module_name):
    """Sentences about everything public of a module that lacks an annotation."""
    sentences = []
    for name, value in public_objects(importlib.import_module(module_name)).items():
        callables = [(name, value, False)] if inspect.isfunction(value) else methods(value)
        for where, function, bound in callables:
            if lacks := missing(function, bound=bound):
                sentences.append(f"{where} lacks {', '.join(lacks)}")
    return sentences


@pytest.mark.parametrize("module", public_modules())
def test_everything_public_is_annotated(module):
    assert missing_of(module) == []


def test_the_walk_finds_what_it_looks_for():
    modules = public_modules()
    assert len(modules) > 50 and "skcalib.errors.binned" in modules
    assert not any("._" in name for name in modules)
    seen = {name for name, *_ in methods(skcalib.PlattScaling)}
    assert {"PlattScaling.__init__", "Recalibrator.fit", "Recalibrator.predict_proba"} <= seen

    def bare(self, x, *, y: int = 0): ...

    assert missing(bare) == ["self", "x", "return"] and missing(bare, bound=True) == ["x", "return"]


@pytest.mark.parametrize(
    ("alias", "names"),
    [
        (scores.LossLike, scores.SCORES),
        (notions.NotionLike, notions.NOTIONS),
        (smoothers.SmootherLike, smoothers.SMOOTHERS),
        (kernels.KernelLike, kernels.KERNELS),
        (types.Method, scores.METHODS),
    ],
)
def test_the_names_in_types_are_those_in_tables(alias, names):
    parts = [alias] if get_origin(alias) is Literal else get_args(alias)
    literal = next(part for part in parts if get_origin(part) is Literal)
    assert set(get_args(literal)) == set(names)
