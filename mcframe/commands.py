"""The commands of ``python -m mcframe``: parsers, exit codes, and the demo."""

import argparse
import io
import math
import os
import sys
from collections.abc import Sequence
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
    demo.add_argument("--data", metavar="FILE", help="an npz file of yours instead of the digits")
    demo.add_argument(
        "--items", metavar="N", type=whole, help="take N random rows only (default: all)"
    )
    demo.add_argument(
        "--seed", metavar="N", type=whole, default=0, help="of all that is random (default: 0)"
    )
    demo.add_argument(
        "--weight",
        metavar="W",
        type=positive,
        help="weight of the nuclear norm (default: chosen on observed entries set aside)",
    )
    demo.add_argument(
        "--picture",
        metavar="FILE",
        help="where to write the picture of the digits: .png, .pdf or .svg (default: demo.png)",
    )
    demo.add_argument(
        "--tol",
        metavar="T",
        type=tolerance,
        default=1e-6,
        help="relative gap at which the fit is certified and stops (default: 1e-6)",
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
    from mcframe.demo.report import Demo, demonstrate

    check_picture(given.picture, given.data)
    answer = demonstrate(
        Demo(
            data=given.data,
            items=given.items,
            seed=given.seed,
            weight=given.weight,
            picture=given.picture,
            tol=given.tol,
        )
    )
    return CERTIFIED if answer.status == "certified" else UNCERTIFIED
