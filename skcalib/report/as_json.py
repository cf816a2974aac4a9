"""Results of a report as values that JSON has."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_json(value: Any) -> Any:
    """Nested results with the types of JSON.

    Arrays and tuples become lists, numbers of numpy those of Python, NaN becomes None. Labels of
    other types, such as dates and bytes, become the text that reports show for them.
    """
    if isinstance(value, dict):
        return {str(key): as_json(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [as_json(one) for one in value]
    if isinstance(value, np.timedelta64):  # numpy calls it an integer
        return str(value)
    if isinstance(value, (np.bool_, np.integer)):
        return value.item()
    if isinstance(value, (float, np.floating)):
        return None if np.isnan(value) else float(value)
    if isinstance(value, (bool, int)) or value is None:
        return value
    return str(value)
