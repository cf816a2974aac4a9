"""Syntax trees of the modules of the library, parsed once for all tests."""

import ast
from functools import cache
from pathlib import Path

import skcalib

ROOT = Path(skcalib.__file__).parent
PATHS = sorted(ROOT.rglob("*.py"))


@cache
def tree_of(path):
    """The tree of a module; nothing may change it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path):
    """All nodes of a module, outer ones first."""
    return tuple(ast.walk(tree_of(path)))
