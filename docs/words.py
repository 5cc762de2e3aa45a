"""Lists of words for the pages, made from what the package says of itself when they are built.

``.. words:: mcframe.likelihoods`` is a table of one or more rooms: how each word is written, and
the first line of its docstring. ``.. autowords:: mcframe.likelihoods`` documents each of them in
full, with the options of ``autoclass``.
"""

import importlib
import inspect
from typing import Any, NamedTuple

from docutils import nodes
from docutils.parsers.rst import directives
from plain_text import escaped
from sphinx.util.docutils import SphinxDirective


class Word(NamedTuple):
    """A word of the vocabulary: its name, how it is written, and what it is in a line."""

    name: str
    written: str
    summary: str


def words(room: str) -> list[Word]:
    """Return the words that a room names in ``__all__``, in that order."""
    package = importlib.import_module(room)
    return [word_of(getattr(package, name)) for name in package.__all__]


def word_of(word: Any) -> Word:
    """Return what is to be read off a class or a function."""
    parameters = inspect.signature(word).parameters.values()
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    written = f"{word.__name__}({', '.join(map(str, bare))})"
    return Word(word.__name__, written, inspect.getdoc(word).partition("\n")[0])


def table_of(rooms: list[str]) -> list[str]:
    """Return a table in reStructuredText of the words of some rooms."""
    lines = [".. list-table::", "   :header-rows: 1", "", "   * - word", "     - what it is"]
    for word in (word for room in rooms for word in words(room)):
        lines += [f"   * - :py:class:`{word.written} <mcframe.{word.name}>`"]
        lines += [f"     - {escaped(word.summary)}"]
    return lines


class Autowords(SphinxDirective):
    """``.. autowords:: package`` with the options of ``autoclass``, for each of its words."""

    required_arguments = 1
    option_spec = {  # noqa: RUF012  # as docutils reads it
        "members": directives.flag,
        "inherited-members": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Parse one ``autoclass`` a word."""
        options = [f"   :{option}:" for option in self.options]
        lines: list[str] = []
        for word in words(self.arguments[0]):
            lines += [f".. autoclass:: mcframe.{word.name}", *options, ""]
        return self.parse_text_to_nodes("\n".join(lines))


class Words(SphinxDirective):
    """``.. words:: package ...``: a table of their words."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Parse the table."""
        return self.parse_text_to_nodes("\n".join(table_of(self.arguments[0].split())))


def setup(app: Any) -> dict[str, bool]:
    """Make both known to Sphinx."""
    app.add_directive("autowords", Autowords)
    app.add_directive("words", Words)
    return {"parallel_read_safe": True}
