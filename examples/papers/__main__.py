"""``python examples/papers``: compute a table or a figure of one of the papers again."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mcframe.commands.parsing import LAYOUT, Parser, natural, run_command, whole_number

# The folder is imported as the package ``papers``, by worker processes too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

__all__ = ["main"]

REPRODUCE = """\
Compute a table or a figure of one of the papers again, and print it beside what the paper
prints. Without NAME, list what there is.

Each finished trial is stored at once in FOLDER/NAME.jsonl; the table goes to FOLDER/NAME.md
and, where the paper has a picture and matplotlib is installed, to FOLDER/NAME.png. The results
depend on the seed alone, not on the number of processes, nor on interruptions.
"""

NOTES = """\
--resume goes on after Ctrl-C or a crash, tries again what failed, and adds trials to a finished
run: the results are those of a run in one go.

real data are looked for in the folder named by the environment variable MCFRAME_DATA.

exit codes: 0 done; 1 some trials failed, and the others are reported; 2 a mistake in what was
given; 130 interrupted, what is finished is stored
"""


def parser() -> Parser:
    """Declare the arguments."""
    command = Parser(
        prog="python examples/papers", description=REPRODUCE, epilog=NOTES, formatter_class=LAYOUT
    )
    command.set_defaults(
        run=run_reproduce,
        interrupted="interrupted; what was finished is stored, and --resume goes on",
    )
    command.add_argument("name", metavar="NAME", nargs="?", help="such as goldberg-table1")
    command.add_argument(
        "--trials",
        metavar="T",
        type=natural,
        help="repetitions of each setting (default: as many as the paper has, or fewer where"
        " that takes hours; the list without NAME says how many)",
    )
    command.add_argument(
        "--jobs", metavar="J", type=natural, help="processes (default: one for each core)"
    )
    command.add_argument(
        "--seed",
        metavar="S",
        type=whole_number,
        default=0,
        help="of all that is random (default: 0)",
    )
    command.add_argument(
        "--resume", action="store_true", help="go on with the results that are stored"
    )
    command.add_argument(
        "--out",
        metavar="FOLDER",
        default="reproduction",
        help="where results, table and picture go (default: reproduction)",
    )
    command.add_argument(
        "--setting",
        metavar="SETTING",
        action="append",
        default=[],
        help="run this row of the table alone; may be given several times",
    )
    command.add_argument(
        "--part",
        metavar="PART",
        action="append",
        default=[],
        help="run this part of the trials alone, such as a method; may be given several times",
    )
    command.add_argument(
        "--tiny",
        action="store_true",
        help="the same in seconds and far smaller, to see that it runs (2 trials by default);"
        " it is stored as NAME-tiny",
    )
    command.add_argument(
        "--page",
        action="store_true",
        help="write the pages of the documentation from the trials that are stored there, and"
        " run nothing",
    )
    return command


def run_reproduce(given: argparse.Namespace) -> int:
    """Run the experiment, list all of them, or write the pages."""
    from papers import Run, listing, reproduce

    if given.page:
        from papers.pages import write_pages

        write_pages()
        return 0
    if given.name is None:
        print(listing(), end="")
        return 0
    return reproduce(
        Run(
            name=given.name,
            trials=given.trials,
            jobs=given.jobs,
            seed=given.seed,
            resume=given.resume,
            folder=given.out,
            tiny=given.tiny,
            settings=tuple(given.setting),
            parts=tuple(given.part),
        )
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; mistakes of the user become one line."""
    return run_command(parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
