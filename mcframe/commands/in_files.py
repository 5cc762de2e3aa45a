"""How messages of commands write what a user gives: as files of models and options have it."""

import json
import shlex
from collections.abc import Mapping, Sequence

import attrs

from mcframe.contracts.wording import row_number


class InFiles:
    """JSON, as files of models have it, and options of the commands."""

    def value(self, value: object) -> str:
        """A value as JSON; texts stay between single quotes, and what JSON lacks as it is."""
        if isinstance(value, str):
            return repr(value)
        try:
            return json.dumps(value, default=word_arguments, ensure_ascii=False)
        except (TypeError, ValueError):
            return repr(value)

    def word(self, name: str, *needed: str, **arguments: object) -> str:
        """An object of JSON, where ``...`` is a value to choose."""
        chosen = [f'"{argument}": ...' for argument in needed]
        valued = [
            f'"{argument}": {"..." if value is ... else json.dumps(value, default=word_arguments)}'
            for argument, value in arguments.items()
        ]
        parts = ", ".join([f'"is": "{name}"', *chosen, *valued])
        return f"{{{parts}}}"

    def block(self, name: str | None = None, **arguments: object) -> str:
        """Lines of a block, in TOML."""
        of_block = "of a block" if name is None else f"of block {name!r}"
        lines = [self.argument(argument, value) for argument, value in arguments.items()]
        return f"{' and '.join(lines)} {of_block}"

    def argument(self, name: str, value: object) -> str:
        """A name and a value, as in TOML."""
        return f"{name} = {'...' if value is ... else self.value(value)}"

    def types(self, column: object, kind: object) -> str:
        """The option ``--types``."""
        text = kind if isinstance(kind, str) else self.value(kind)
        return f"--types {shlex.quote(f'{column}={text}')}"

    def types_of_any(self, kind: str = "kind") -> str:
        """The option ``--types`` of any column."""
        return f"--types name={kind}"

    def refused_type(self, column: object, kind: object) -> str:
        """The option ``--types`` at the beginning of a message."""
        return f"{self.types(column, kind)}:"

    def gaps(self, option: str, gaps: Mapping[object, Sequence[object]]) -> str:
        """The option ``--missing``, once for each value; without one where there is none."""
        pairs = [f"{name}={value}" for name, values in gaps.items() for value in values or [""]]
        return " ".join(f"--missing {shlex.quote(pair)}" for pair in pairs)

    def row(self, row: int) -> str:
        """The number of the row, since files have lines."""
        return f"row {row_number(row)} (counted from 0, without the header)"

    def how_rows_count(self) -> str:
        """A clause that rows are counted from 0, without the header."""
        return " (rows are counted from 0, without the header)"

    def either(self, *, python: str, command: str) -> str:
        """The way of a command."""
        return command


def word_arguments(instance: object) -> dict[str, object]:
    """The class of a word and the arguments that have a value, or a ``TypeError``."""
    kind = type(instance)
    if not attrs.has(kind):
        raise TypeError(f"{kind.__name__} is no value of JSON")
    values = {}
    for field in attrs.fields(kind):
        value = getattr(instance, field.name)
        if field.init and (value is not None or field.default is not None):
            values[field.alias or field.name] = value
    return {"is": kind.__name__, **values}
