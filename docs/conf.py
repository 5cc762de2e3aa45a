"""Sphinx settings: ``sphinx-build -W -b html docs docs/_build/html``."""

import re
import sys
from pathlib import Path
from typing import Any

import mathjax  # the files of MathJax, of the package django-static-mathjax

import mcframe

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1] / "examples"))  # reproductions, the gallery
from plain_text import escaped  # it stands beside this file

project = "mcframe"
author = "the mcframe authors"
copyright = "the mcframe authors"  # noqa: A001  # the name that Sphinx reads
release = version = mcframe.__version__

extensions = [
    *("myst_parser", "sphinx_design", "matplotlib.sphinxext.plot_directive"),
    *("sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "sphinx.ext.napoleon"),
    *("sphinx.ext.viewcode", "sphinx_copybutton"),
    *("words", "offline"),  # they stand beside this file
]
exclude_patterns = ["_build"]
html_theme = "furo"
# MathJax with its fonts is one file, so that formulas need no network.
mathjax_path = "tex-svg.js"
html_static_path = [
    "_static",
    str(Path(mathjax.__file__).parent / "static" / "mathjax" / "es5" / mathjax_path),
]
html_css_files = ["wide.css"]
html_title = f"mcframe {release}"
html_show_sphinx = False

html_theme_options = {"navigation_with_keys": True}

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
# Code is copied without prompts, and outputs are not copied.
copybutton_selector = "div.highlight:not(.highlight-text *) pre"
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
plot_formats = ["svg"]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_pre_code = "import numpy as np\nimport mcframe as mc"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

before_napoleon: dict[str, list[str]] = {}


def as_plain_text(_app: Any, what: str, name: str, *event: Any) -> None:
    """Escape what reStructuredText would take for markup: docstrings are plain text.

    They say |x|, ||Z||_* and Z_k as a reader at a terminal expects. The floor of a package is for
    readers of its code.
    """
    lines: list[str] = event[-1]
    if what == "module":
        lines[0] = re.sub(r"Floor \d: (.)", lambda found: found[1].upper(), lines[0])
    lines[:] = escaped("\n".join(lines)).split("\n")
    before_napoleon[name] = list(lines)


def without_types(_app: Any, what: str, name: str, *event: Any) -> None:
    """Undo napoleon on properties, where it takes what stands before a colon for a type."""
    if what in ("attribute", "property"):
        event[-1][:] = before_napoleon[name]


def setup(app: Any) -> None:
    """Run before and after napoleon, which has priority 500."""
    app.connect("autodoc-process-docstring", as_plain_text, priority=400)
    app.connect("autodoc-process-docstring", without_types, priority=600)
