"""Packages of the extra `engines`: a test that uses one that is not installed is skipped."""

import os
from importlib import import_module
from importlib.util import find_spec

import pytest


class Engine:
    """A package that is imported when it is used.

    Where it is not installed, its functions skip the test that calls them. What they seem to return
    while tests are collected is this object: a test that has it as an argument is skipped.
    """

    def __init__(self, package):
        self._package = package

    def __getattr__(self, name):
        return getattr(import_module(self._package), name) if find_spec(self._package) else self

    def __call__(self, *arguments, **options):
        if "PYTEST_CURRENT_TEST" in os.environ:
            self.require()
        return self

    def require(self):
        return pytest.importorskip(self._package)


polars = Engine("polars")


def in_arrow(frame, dtype=None):
    """A frame of pandas with columns of pyarrow, of this type or of those that fit."""
    if not find_spec("pyarrow"):
        return Engine("pyarrow")()
    return frame.astype(dtype) if dtype else frame.convert_dtypes(dtype_backend="pyarrow")


def to_parquet(frame, path=None, **options):
    """Write a frame of pandas by pyarrow: the bytes, where there is no path."""
    pytest.importorskip("pyarrow")
    return frame.to_parquet(path, **options)
