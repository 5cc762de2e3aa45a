"""What the commands share: a parser with complaints of one line, numbers, exit codes."""

import argparse
import io
import math
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from mcframe.contracts.errors import McframeError

__all__ = ["LAYOUT", "Parser", "natural", "positive", "run_command", "tolerance", "whole"]

DONE, UNFINISHED, MISTAKE, INTERRUPTED = 0, 1, 2, 130
LAYOUT = argparse.RawDescriptionHelpFormatter


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        """Complain in one line and leave."""
        self.exit(MISTAKE, f"{self.prog}: {message}; see {self.prog} --help\n")


def whole(text: str) -> int:
    """Read a count or a seed."""
    return count_from(text, 0)


def natural(text: str) -> int:
    """Read a count of which there is at least one."""
    return count_from(text, 1)


def count_from(text: str, least: int) -> int:
    """Read a whole number that is no smaller than ``least``."""
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(
            f"{text!r} was given; a whole number from {least} is needed"
        )
    return value


def positive(text: str) -> float:
    """Read a number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} was given; a number above 0 is needed")
    return value


def tolerance(text: str) -> float:
    """Read a number between 0 and 1."""
    value = positive(text)
    if value >= 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} was given; a number below 1 is needed")
    return value


def run_command(commands: Parser, arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments name and return its exit code; mistakes become one line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without mathematical signs shows question marks instead of a traceback.
        sys.stdout.reconfigure(errors="replace")
    given = commands.parse_args(arguments)
    if "run" not in given:
        commands.print_help()
        return DONE
    try:
        code: int = given.run(given)
        return code
    except McframeError as error:
        print(f"mcframe: {error}", file=sys.stderr)
        return MISTAKE
    except BrokenPipeError:
        # Whoever was reading, such as head, has left: the rest goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNFINISHED
    except KeyboardInterrupt:
        print(f"\nmcframe: {given.interrupted}", file=sys.stderr)
        return INTERRUPTED
