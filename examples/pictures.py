"""The pictures of the page docs/pictures.md, made by the code on it.

    python examples/pictures.py [FOLDER]

Runs the code blocks of the page one after the other, each of which saves its pictures, and writes
these to the folder, docs/ by default. Needs matplotlib, pandas and scikit-learn.
"""

import os
import pathlib
import re
import sys

import matplotlib as mpl

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main():
    """Write the pictures."""
    page = (DOCS / "pictures.md").read_text(encoding="utf-8")
    mpl.use("Agg")
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else DOCS)
    exec(compile("\n".join(BLOCK.findall(page)), "pictures.md", "exec"), {})


if __name__ == "__main__":
    main()
