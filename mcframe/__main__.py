"""The command line: ``python -m mcframe``."""

import io
import os
import sys
from collections.abc import Sequence

from mcframe import __version__
from mcframe.commands.arguments import INTERRUPTED, LAYOUT, MISTAKE, Parser
from mcframe.commands.demo import add_demo
from mcframe.commands.reproduce import add_reproduce
from mcframe.contracts.errors import McframeError

__all__ = ["main"]

DONE, UNFINISHED = 0, 1

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
    add_reproduce(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; mistakes of the user become one line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without mathematical signs shows question marks instead of a traceback.
        sys.stdout.reconfigure(errors="replace")
    commands = parser()
    given = commands.parse_args(arguments)
    if given.command is None:
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


if __name__ == "__main__":
    sys.exit(main())
