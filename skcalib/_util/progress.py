"""What runs, on standard error: the stages of a report, and what a long call computes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from numbers import Real
from time import perf_counter


def print_line(message: str) -> None:
    """Print a message as one line on standard error, if there is a place for it."""
    from skcalib._util.formatting import printable  # imports NumPy, which --help does not need

    with suppress(OSError):
        print(f"skcalib: {printable(' '.join(message.split()))}", file=sys.stderr, flush=True)


@contextmanager
def stage(part: str, verbose: int | bool, name: str) -> Iterator[None]:
    """Print the time of a part of the report if `verbose` is above 0."""
    start = perf_counter()
    yield
    if verbose:
        print_line(f"{name}: {part}, {perf_counter() - start:.1f} s")


def show_progress(seconds: float = 10.0) -> AbstractContextManager[None]:
    """Print what runs on standard error, while calls inside take long.

    A line every `seconds` has the time since the start, and the functions of skcalib that run: the
    one that was called, and the last two, which compute. Nothing is printed for faster calls.
    ``joblib.parallel_config(verbose=5)`` also counts the tasks of parallel loops.

    Parameters
    ----------
    seconds : float, default=10.0
        Time between two lines.

    Returns
    -------
    context manager
        Prints while it is active.

    See Also
    --------
    CalibrationReport : ``verbose`` prints the time of each stage.

    Examples
    --------
    >>> import skcalib
    >>> with skcalib.show_progress():
    ...     skcalib.calibration_error([0, 1, 1], [0.2, 0.7, 0.6]) > 0
    True
    """
    number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not (number and 0 < seconds <= threading.TIMEOUT_MAX):
        from skcalib._util.messages import shown  # imports NumPy, as above

        raise ValueError(f"seconds must be a number above 0, got {shown(seconds)}.")
    return _showing(seconds)


@contextmanager
def _showing(seconds):
    caller, done, start = threading.get_ident(), threading.Event(), perf_counter()

    def report():
        while not done.wait(seconds):
            if names := running_names(sys._current_frames().get(caller)):
                print_line(f"{perf_counter() - start:.0f} s, in {' > '.join(names)}")

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def running_names(frame):
    """Names of the functions of skcalib on the stack: the first one and the last two."""
    names = []
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("skcalib."):
            name = frame.f_code.co_qualname.removesuffix(".__init__")
            if "<" not in name and name not in names[-1:]:
                names.append(name)
        frame = frame.f_back
    return [*names[:2], *names[2:][-1:]][::-1]
