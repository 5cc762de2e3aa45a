"""Lists of words for the pages, made from what the package says of itself when they are built.

``.. words:: mcframe.likelihoods`` is a table of one or more rooms: each word, and the first line
of its docstring. ``.. autowords:: mcframe.likelihoods`` documents each of them in full.
``.. thumbnails:: cases`` shows the sections of another page by their first pictures.
"""

import importlib
import re
from html import escape
from pathlib import Path
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


# The first picture of a section: a plot with this name, or a file beside the page.
PICTURE = re.compile(r":filename-prefix: (\w+)|\]\((?:[^)\s]*/)?([^)/\s]+\.png)\)")


def thumbnails_of(page: str) -> list[tuple[str, str]]:
    """Return the title of each section of a page that has a picture, and the picture's file."""
    found = []
    for section in page.split("\n## ")[1:]:
        picture = PICTURE.search(section)
        if picture:
            found.append((section.partition("\n")[0], picture[2] or f"{picture[1]}.svg"))
    return found


class Thumbnails(SphinxDirective):
    """``.. thumbnails:: page``: pictures that lead to the sections of a page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write them as HTML; the pictures are in the site since that page shows them."""
        page = self.arguments[0]
        path = Path(self.env.srcdir, f"{page}.md")
        self.env.note_dependency(str(path))
        links = []
        for title, picture in thumbnails_of(path.read_text(encoding="utf-8")):
            anchor = re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))
            links.append(
                f'<a href="{page}.html#{anchor}"><img src="_images/{picture}" alt=""'
                f' loading="lazy"><span>{escape(title)}</span></a>'
            )
        html = f'<div class="thumbnails">{"".join(links)}</div>'
        return [nodes.raw("", html, format="html")]


def setup(app: Any) -> dict[str, bool]:
    """Make them known to Sphinx."""
    app.add_directive("thumbnails", Thumbnails)
    app.add_directive("autowords", Autowords)
    app.add_directive("words", Words)
    return {"parallel_read_safe": True}
