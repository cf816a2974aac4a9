"""Modules of the folder doc/studies, which is no package and may be absent."""

import importlib.util
import sys
from pathlib import Path

STUDIES = Path(__file__).parents[1] / "doc" / "studies"


def load(name):
    """The module of a study that imports no other study, or None without the folder."""
    path = STUDIES / f"{name}.py"
    if not path.exists():
        return None
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look themselves up
        spec.loader.exec_module(module)
    return sys.modules[name]
