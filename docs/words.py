"""Lists of words for the pages, made from what the package says of itself when they are built.

``.. words:: mcframe.likelihoods`` is a table of one or more rooms: each word, and the first line
of its docstring. ``.. autowords:: mcframe.likelihoods`` documents each of them in full.
"""

import importlib
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


def words(room: str) -> list[str]:
    """Return the words that a room names in ``__all__``, in that order."""
    return list(importlib.import_module(room).__all__)


class Autowords(SphinxDirective):
    """``.. autowords:: package``: one ``autoclass`` for each of its words."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse them."""
        lines = [f".. autoclass:: mcframe.{word}" for word in words(self.arguments[0])]
        return self.parse_text_to_nodes("\n\n".join(lines))


class Words(SphinxDirective):
    """``.. words:: package ...``: a table of their words."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Parse the table."""
        listed = [f"   {word}" for room in self.arguments[0].split() for word in words(room)]
        lines = [".. autosummary::", "   :nosignatures:", "", *listed]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Any) -> dict[str, bool]:
    """Make both known to Sphinx."""
    app.add_directive("autowords", Autowords)
    app.add_directive("words", Words)
    return {"parallel_read_safe": True}
