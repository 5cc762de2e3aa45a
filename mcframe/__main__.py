"""The command line: ``python -m mcframe``."""

import argparse
import io
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from mcframe import __version__
from mcframe.contracts.errors import DataError, McframeError

__all__ = ["main"]

CERTIFIED, UNCERTIFIED, MISTAKE, INTERRUPTED = 0, 1, 2, 130
# What matplotlib writes without further packages.
FORMATS = (".png", ".pdf", ".svg")

ABOUT = """\
Complete incomplete tables of features and labels, with a certificate of optimality.

mcframe is a library; this command shows what it does. Begin with: python -m mcframe demo
"""

DEMO = """\
Hide half of the features and three quarters of the labels of a table, fit a low-rank model
to what is left, print its certificate, and judge what it predicts for the hidden entries
beside mean imputation with logistic regression. About 15 seconds on two cores.

Without --data the table is scikit-learn's 1797 handwritten digits, nothing is downloaded, and
a picture of hidden and completed digits is written if matplotlib is installed.
"""

NOTES = """\
your own data: an npz file with X (items x features, numbers) and Y (items x labels, 0 or 1),
NaN where missing, as numpy.savez("mine.npz", X=X, Y=Y) writes it. A relative path is also
looked for in the folder named by the environment variable MCFRAME_DATA.

Ctrl-C during the fit ends it with the best point so far and its certificate.

exit codes: 0 the fit is certified; 1 it is not, and says why; 2 a mistake in what was given;
130 interrupted before there was a fit
"""


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        """Complain in one line and leave."""
        self.exit(MISTAKE, f"{self.prog}: {message}; see {self.prog} --help\n")


def whole(text: str) -> int:
    """Read a count or a seed."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} was given; a whole number from 0 is needed")
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


def parser() -> Parser:
    """Declare all commands and their arguments."""
    layout = argparse.RawDescriptionHelpFormatter
    top = Parser(prog="python -m mcframe", description=ABOUT, formatter_class=layout)
    top.add_argument("--version", action="version", version=f"mcframe {__version__}")
    commands = top.add_subparsers(dest="command", metavar="command", title="commands")
    demo = commands.add_parser(
        "demo",
        help="complete a table with hidden entries and judge the result",
        description=DEMO,
        epilog=NOTES,
        formatter_class=layout,
    )
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
    return top


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
    from mcframe.demo import Demo, demonstrate

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; mistakes of the user become one line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without mathematical signs shows question marks instead of a traceback.
        sys.stdout.reconfigure(errors="replace")
    commands = parser()
    given = commands.parse_args(arguments)
    if given.command is None:
        commands.print_help()
        return CERTIFIED
    try:
        return run_demo(given)
    except McframeError as error:
        print(f"mcframe: {error}", file=sys.stderr)
        return MISTAKE
    except BrokenPipeError:
        # Whoever was reading, such as head, has left: the rest goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNCERTIFIED
    except KeyboardInterrupt:
        print("\nmcframe: interrupted before there was a fit", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
