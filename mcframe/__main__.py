"""The command line: ``mcframe``, or ``python -m mcframe``."""

import sys
from collections.abc import Sequence

from mcframe import __version__
from mcframe.commands.demo import add_demo
from mcframe.commands.parsing import LAYOUT, Parser, run_command
from mcframe.commands.ratings import add_ratings
from mcframe.commands.verbs import add_verbs

ABOUT = """\
Complete tables with missing entries, with a certificate or a posterior.

    mcframe impute table.csv --out done.csv

Each command has a page of its own: mcframe impute --help
"""


def parser() -> Parser:
    """Declare all commands and their arguments."""
    top = Parser(prog="mcframe", description=ABOUT, formatter_class=LAYOUT)
    top.add_argument("--version", action="version", version=f"mcframe {__version__}")
    commands = top.add_subparsers(dest="command", metavar="command", title="commands")
    add_verbs(commands)
    add_ratings(commands)
    add_demo(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; mistakes of the user become one line."""
    return run_command(parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
