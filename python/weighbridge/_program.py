"""The program `weighbridge`."""

from __future__ import annotations

import signal
import sys

from . import _native


def main() -> int:
    """Runs the program with the arguments of this process, and returns its exit status."""
    # Python's handler would only take note of Ctrl-C; the program has its own, or ends.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.run_program(["weighbridge", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
