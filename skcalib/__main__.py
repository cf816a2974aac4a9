"""The command line: ``skcalib``, or ``python -m skcalib``."""

from __future__ import annotations

import atexit
import gc
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path

from skcalib._util.files import file_error_text
from skcalib._util.progress import print_line
from skcalib.cli.parser import make_parser

# The imports make 200,000 objects that stay. By default Python searches them for garbage again and
# again, also when it ends, which would take a fifth of the time of a report. Only the command
# changes that, not an import of this module.
if __name__ == "__main__" or Path(sys.argv[0]).stem == "skcalib":
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, with the arguments of the process by default.

    Returns the exit status: 0; 1 after an alarm of the command monitor; 2 after an error, which is
    printed as one sentence; 130 after Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print_line("interrupted.")
        return 130
    except MemoryError as error:
        print_line(f"there is not enough memory ({error})." if str(error) else "no memory is left.")
    except (ValueError, OSError) as error:
        print_line(_sentence(error, arguments))
    return 2


def _sentence(error, arguments):
    """The message of an error; of one with choices, with the command that makes each of them."""
    if isinstance(error, OSError) and error.strerror:  # str would have the number of the error
        what = "a file" if error.filename is None else error.filename
        return f"{what} cannot be read or written: {file_error_text(error)}."
    if not hasattr(error, "choices"):
        return str(error)
    options = [
        [part for key, value in one.items() for part in (f"--{key.replace('_', '-')}", value)]
        for one in error.choices
    ]
    commands = [shlex.join(["skcalib", *arguments, *more]) for more in options]
    return f"{error.sentence}: {' or '.join(commands)}."


def _run(arguments):
    if arguments and not arguments[0].startswith("-") and arguments[0] not in ("report", "monitor"):
        from skcalib.cli.commands import is_predictions  # a second of imports, not for --help

        if is_predictions(arguments[0]):
            raise ValueError(f"which command? Try: skcalib report {arguments[0]}")
    with _standard_output():  # of --help and --version
        options = make_parser().parse_args(arguments)
    output = sys.stdout
    if options.command == "monitor":
        from skcalib.cli.commands import run_monitor

        def say(line):
            with redirect_stdout(output), _standard_output():
                print(_encodable(line))

        with redirect_stdout(sys.stderr):
            return run_monitor(options, say)
    from skcalib.cli.commands import run_report

    with redirect_stdout(sys.stderr):
        text, data = run_report(options)
    with _standard_output():
        if data:
            sys.stdout.buffer.write(data)
        else:
            print(_encodable(text))
    return 0


@contextmanager
def _standard_output():
    """Write out standard output; what cannot be written is discarded, without a second error."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # the reader, such as head, has seen enough
            raise OSError(f"standard output cannot be written: {error.strerror}.") from error


def _encodable(text):
    """Text for standard output: characters that it cannot encode are escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


if __name__ == "__main__":
    sys.exit(main())
