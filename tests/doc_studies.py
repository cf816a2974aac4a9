"""Modules of the folder doc/studies, which is no package and may be absent."""

import importlib
import importlib.util
import sys
from contextlib import contextmanager
from pathlib import Path

STUDIES = Path(__file__).parents[1] / "doc" / "studies"


@contextmanager
def imported(name, *others):
    """The module of a study that imports `others` from its folder, all forgotten afterwards."""
    sys.path.insert(0, str(STUDIES))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(STUDIES))
        for one in (name, *others):
            sys.modules.pop(one, None)


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
