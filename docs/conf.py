"""Sphinx settings: ``sphinx-build -W -b html docs docs/_build/html``."""

import re
from typing import Any

import mcframe

project = "mcframe"
author = "the mcframe authors"
copyright = "the mcframe authors"  # noqa: A001  # the name that Sphinx reads
release = version = mcframe.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"mcframe {release}"
html_show_sphinx = False

myst_heading_anchors = 3
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

LITERAL = re.compile(r"(``.*?``)")
MARKUP = re.compile(r"[|*]|(?<=\w)_(?!\w)")


def as_plain_text(*event: Any) -> None:
    """Escape what reStructuredText would take for markup: docstrings are plain text.

    They say |x|, ||Z||_* and Z_k as a reader at a terminal expects. Double backticks and
    examples stay as they are.
    """
    lines: list[str] = event[-1]
    in_example = False
    for position, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if not in_example:
            parts = LITERAL.split(line)
            parts[::2] = [MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
            lines[position] = "".join(parts)


def setup(app: Any) -> None:
    """Run before napoleon, which turns sections into markup."""
    app.connect("autodoc-process-docstring", as_plain_text, priority=400)
