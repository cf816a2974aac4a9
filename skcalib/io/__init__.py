"""Predictions from files: arrays (.npz) and tables (.csv, .parquet).

`read_predictions` is the public function, and `Predictions` its result. No content of a file is
executed: arrays are loaded without pickle. Tables of any size are read block by block into compact
arrays, so that the text of a file is never in memory as a whole.
"""

from skcalib.io.files import Predictions, read_predictions

__all__ = ["Predictions", "read_predictions"]
