"""The command line: ``python -m mcframe``."""

import sys
from collections.abc import Sequence

from mcframe import __version__
from mcframe.commands import LAYOUT, Parser, add_demo, run_command

ABOUT = """\
Complete incomplete tables of features and labels, with a certificate of optimality.

mcframe is a library; this command shows what it does. Begin with: python -m mcframe demo
"""


def parser() -> Parser:
    """Declare all commands and their arguments."""
    top = Parser(prog="python -m mcframe", description=ABOUT, formatter_class=LAYOUT)
    top.add_argument("--version", action="version", version=f"mcframe {__version__}")
    commands = top.add_subparsers(dest="command", metavar="command", title="commands")
    add_demo(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; mistakes of the user become one line."""
    return run_command(parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
