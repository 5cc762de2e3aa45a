"""What the commands share: a parser with complaints of one line, numbers, exit codes."""

import argparse
import math
from typing import NoReturn

__all__ = [
    "INTERRUPTED",
    "LAYOUT",
    "MISTAKE",
    "Parser",
    "natural",
    "positive",
    "tolerance",
    "whole",
]

MISTAKE, INTERRUPTED = 2, 130
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
