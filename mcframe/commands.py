"""The commands of ``python -m mcframe``: parsers, exit codes, and the demo."""

import argparse
import io
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from mcframe.contracts.errors import DataError, McframeError

DONE, UNFINISHED, MISTAKE, INTERRUPTED = 0, 1, 2, 130
LAYOUT = argparse.RawDescriptionHelpFormatter


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        """Complain in one line and leave."""
        self.exit(MISTAKE, f"{self.prog}: {message}; see {self.prog} --help\n")


def whole(text: str) -> int:
    """Read a count or a seed."""
    return int(number_from(text, int, lambda value: value >= 0, "whole number from 0"))


def natural(text: str) -> int:
    """Read a count of which there is at least one."""
    return int(number_from(text, int, lambda value: value >= 1, "whole number from 1"))


def positive(text: str) -> float:
    """Read a number above zero."""
    return number_from(text, float, lambda value: 0.0 < value < math.inf, "number above 0")


def tolerance(text: str) -> float:
    """Read a number between 0 and 1."""
    positive(text)
    return number_from(text, float, lambda value: value < 1.0, "number below 1")


def number_from(text: str, kind: Any, is_right: Callable[[float], bool], needed: str) -> float:
    """Read a number, or raise the error that says which one is needed."""
    try:
        value: float = kind(text)
    except ValueError:
        value = math.nan
    if not is_right(value):
        raise argparse.ArgumentTypeError(f"{text!r} was given; a {needed} is needed")
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


CERTIFIED, UNCERTIFIED = 0, 1
# What matplotlib writes without further packages.
FORMATS = (".png", ".pdf", ".svg")

DEMO = """\
Hide half of the features and three quarters of the labels of a table, fit a low-rank model
to the others, print its certificate, and compare its predictions of the hidden entries
with mean imputation and logistic regression. About 15 seconds on two cores.

Without --data the table is scikit-learn's 1797 handwritten digits, nothing is downloaded, and
a picture of hidden and completed digits is written if matplotlib is installed.
"""

NOTES = """\
your own data: an npz file with X (items x features, numbers) and Y (items x labels, 0 or 1),
NaN where missing, as numpy.savez("mine.npz", X=X, Y=Y) writes it. A relative path is also
searched for in the folder named by the environment variable MCFRAME_DATA.

Ctrl-C during the fit ends it with the best point so far and its certificate.

exit codes: 0 the fit is certified; 1 it is not, and says why; 2 a mistake in what was given;
130 interrupted before there was a fit
"""


def add_demo(commands: Any) -> None:
    """Declare the command among the others."""
    demo = commands.add_parser(
        "demo",
        help="complete a table with hidden entries and judge the result",
        description=DEMO,
        epilog=NOTES,
        formatter_class=LAYOUT,
    )
    demo.set_defaults(run=run_demo, interrupted="interrupted before there was a fit")
    for name, metavar, kind, default, told in OPTIONS:
        demo.add_argument(name, metavar=metavar, type=kind, default=default, help=told)


# The options of the demo: name, what stands for the value, how it is read, default, and help.
OPTIONS: tuple[tuple[str, str, Any, Any, str], ...] = (
    ("--data", "FILE", str, None, "an npz file of yours instead of the digits"),
    ("--items", "N", whole, None, "take N random rows only (default: all)"),
    ("--seed", "N", whole, 0, "of all that is random (default: 0)"),
    (
        *("--weight", "W", positive, None),
        "weight of the nuclear norm (default: chosen on observed entries set aside)",
    ),
    (
        *("--picture", "FILE", str, None),
        "where to write the picture of the digits: .png, .pdf or .svg (default: demo.png)",
    ),
    (
        *("--tol", "T", tolerance, 1e-6),
        "relative gap at which the fit is certified and stops (default: 1e-6)",
    ),
)


def check_picture(picture: str | None, data: str | None) -> None:
    """Refuse before the fit what would fail only after it."""
    if picture is None:
        return
    if data is not None:
        raise DataError("--picture draws digits, which --data replaces; leave one of them out")
    path = Path(picture)
    if path.suffix.lower() not in FORMATS:
        raise DataError(f"--picture {picture!r}: the ending {', '.join(FORMATS)} is needed")
    if not path.resolve().parent.is_dir():
        raise DataError(f"--picture {picture!r}: its folder does not exist; make it first")


def run_demo(given: argparse.Namespace) -> int:
    """Run the demo; the exit code says whether its fit is certified."""
    from mcframe.demo import demonstrate

    check_picture(given.picture, given.data)
    return CERTIFIED if demonstrate(given).status == "certified" else UNCERTIFIED
