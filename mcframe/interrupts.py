"""Ctrl-C while the command ``mcframe`` is being loaded, which ends it in one line.

The command has to import the package before it can catch anything, and that takes a second.
"""

import os
import signal
import sys


def leave(*_: object) -> None:
    """End the process with the exit code of an interruption."""
    os.write(2, b"\nmcframe: interrupted\n")
    os._exit(130)


def end_command_quietly() -> None:
    """Let Ctrl-C end a command without a traceback, where it would raise an exception.

    In a process that runs ``mcframe`` or ``python -m mcframe``, and is no worker of one.
    """
    started_as = sys.argv[0] if sys.argv else ""
    is_command = os.path.basename(started_as) == "mcframe" and started_as in sys.orig_argv
    if started_as == "-m":  # as long as Python loads the package
        is_command = "mcframe" in sys.orig_argv
    if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)


def raise_interruptions() -> None:
    """Let Ctrl-C raise ``KeyboardInterrupt`` again, which a command that is loaded catches."""
    if signal.getsignal(signal.SIGINT) is leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


end_command_quietly()
