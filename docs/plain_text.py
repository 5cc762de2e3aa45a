"""Docstrings as reStructuredText: they are plain text, and say |x|, ||Z||_* and Z_k."""

import re

# What is left alone: double backticks, and examples up to the next empty line.
LITERAL = re.compile(r"(``.*?``|^ *>>>.*?(?:\n\s*\n|\Z))", re.DOTALL | re.MULTILINE)
MARKUP = re.compile(r"[|*\\]|(?<=\w)_(?!\w)")


def escaped(text: str) -> str:
    """Return the text with a backslash before what would be taken for markup."""
    parts = LITERAL.split(text)
    parts[::2] = [MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)
