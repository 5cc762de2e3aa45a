"""``python -m mcframe demo``: its arguments and its exit codes."""

import argparse
from pathlib import Path
from typing import Any

from mcframe.commands.arguments import LAYOUT, positive, tolerance, whole
from mcframe.contracts.errors import DataError

__all__ = ["add_demo"]

CERTIFIED, UNCERTIFIED = 0, 1
# What matplotlib writes without further packages.
FORMATS = (".png", ".pdf", ".svg")

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
