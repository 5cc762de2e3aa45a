"""What all commands share: arguments, exit codes, and errors of one line."""

import argparse
import io
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from mcframe.commands.in_files import InFiles
from mcframe.commands.plugins import import_plugins
from mcframe.contracts.errors import McframeError
from mcframe.contracts.validators import meant
from mcframe.contracts.wording import worded
from mcframe.interrupts import raise_interruptions

DONE, UNFINISHED, MISTAKE, INTERRUPTED = 0, 1, 2, 130
LAYOUT = argparse.RawDescriptionHelpFormatter


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, and name what was probably meant."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.names: list[str] = []  # of its options
        super().__init__(*arguments, **options)
        self.set_defaults(parser=self)

    def add_argument(self, *names: Any, **options: Any) -> Any:
        """Declare an argument, and note its name if it is an option."""
        self.names += [name for name in names if name.startswith("--")]
        return super().add_argument(*names, **options)

    def error(self, message: str) -> NoReturn:
        """Complain in one line and leave."""
        mark = "" if message.endswith("?") else ";"
        self.exit(MISTAKE, f"{self.prog}: {message}{mark} see {self.prog} --help\n")

    def refuse(self, strange: Sequence[str]) -> NoReturn:
        """Complain of arguments that the command does not have."""
        options = [text for text in strange if text.startswith("-")]
        message = f"unrecognized arguments: {' '.join(strange)}"
        if options and self.names:
            message += f"; {meant(options[0].partition('=')[0], self.names, 'options')}"
        self.error(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Complain of a word that is none of the choices."""
        if action.choices is not None and value not in action.choices:
            what = "commands" if action.dest == "command" else "choices"
            hint = meant(str(value), list(action.choices), what)
            if what == "commands" and value == "complete":
                hint = "the verb complete of Python is 'impute' here"
            raise argparse.ArgumentError(action, f"{value!r} was given; {hint}")


def whole_number(text: str) -> int:
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
    return number_from(text, float, lambda value: 0.0 < value < 1.0, "number between 0 and 1")


def number_from(
    text: str, kind: Callable[[str], float], is_right: Callable[[float], bool], needed: str
) -> float:
    """Read a number, or raise the error that says which one is needed."""
    try:
        value: float = kind(text)
    except ValueError:
        value = math.nan
    if not is_right(value):
        raise argparse.ArgumentTypeError(f"{text!r} was given; a {needed} is needed")
    return value


Subparsers: TypeAlias = "argparse._SubParsersAction[Parser]"
# What a command has to say: the exit code, text for a person, and the same as the object that
# ``--json`` prints.
Report = tuple[int, str, Mapping[str, object]]
# What JSON holds, of which type checkers do not follow the parts.
Json: TypeAlias = dict[str, Any] | list[Any] | str | float | bool | None


def reporting(work: Callable[[argparse.Namespace], Report]) -> Callable[[argparse.Namespace], int]:
    """Return a command that prints a report, and warnings as lines on standard error."""

    def run(arguments: argparse.Namespace) -> int:
        warned: list[str] = []

        def show(message: Warning | str, *_: Any) -> None:
            line = in_one_line(message)
            if line not in warned:  # a table may be read for several answers
                warned.append(line)
                print(f"mcframe: warning: {line}", file=sys.stderr)

        with warnings.catch_warnings():
            warnings.filterwarnings("always", category=UserWarning)
            warnings.showwarning = show  # type: ignore[assignment]
            import_plugins(arguments.plugin)
            code, text, details = work(arguments)
        if arguments.json:
            facts = {"command": arguments.command, "exit_code": code, **details}
            print(json.dumps(as_json({**facts, "warnings": warned})))
        else:
            print(text)
        return code

    return run


def in_one_line(message: object) -> str:
    """Return a message in one line; a list behind an empty line stays one."""
    text, *others = str(message).split("\n\n", 1)
    return "\n\n".join([" ".join(text.split()), *others])


def as_json(value: object) -> Json:
    """A value without what JSON does not have: NaN and infinities are null."""
    if isinstance(value, Mapping):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | None) else str(value)


def run_command(commands: Parser, arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments name and return its exit code; mistakes become one line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without mathematical signs shows question marks instead of a traceback.
        sys.stdout.reconfigure(errors="replace")
    parsed, strange = commands.parse_known_args(arguments)
    if strange:
        parsed.parser.refuse(strange)
    if "run" not in parsed:
        commands.print_help()
        return DONE
    try:
        raise_interruptions()
        with worded(InFiles()):
            code: int = parsed.run(parsed)
        sys.stdout.flush()
        return code
    except McframeError as error:
        print(f"mcframe: {in_one_line(error)}", file=sys.stderr)
        return MISTAKE
    except MemoryError:
        print("mcframe: the memory is too small for this table", file=sys.stderr)
        return MISTAKE
    except BrokenPipeError:  # whoever was reading, such as head, has left
        drop_output()
        return UNFINISHED
    except OSError as error:  # of standard output, where it is a file on a full disk
        drop_output()
        reason = error.strerror or str(error)
        print(f"mcframe: the output cannot be written ({reason})", file=sys.stderr)
        return MISTAKE
    except KeyboardInterrupt:
        print(f"\nmcframe: {parsed.interrupted}", file=sys.stderr)
        return INTERRUPTED


def drop_output() -> None:
    """Send what is still to be printed nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
