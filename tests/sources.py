"""Syntax trees of the modules of the library, parsed once for all tests."""

import ast
from functools import cache
from pathlib import Path

import skcalib

ROOT = Path(skcalib.__file__).parent
PATHS = sorted(ROOT.rglob("*.py"))


@cache
def parsed(source):
    """The tree of a source; nothing may change it."""
    return ast.parse(source)


@cache
def text_of(path):
    """The source of a module."""
    return path.read_text(encoding="utf-8")


def tree_of(path):
    """The tree of a module; nothing may change it."""
    return parsed(text_of(path))


@cache
def nodes_of(path):
    """All nodes of a module, outer ones first."""
    return tuple(ast.walk(tree_of(path)))


def statements(nodes, top=True):
    """All statements and those inside of them, each with whether no function is around it."""
    for node in nodes:
        yield node, top
        inside = top and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            yield from statements(getattr(node, field, ()), inside)
