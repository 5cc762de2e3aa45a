"""The text of a model as LaTeX and as HTML; names of blocks may hold any character."""

import html
import re
from collections.abc import Sequence

from mcframe.contracts.showing import one_line

# In a text that is turned into LaTeX or HTML the name of block k is the character FIRST_NAME + k
# of Unicode's private use, which no formula has: nothing in a name is taken for mathematics.
FIRST_NAME = 0xE000
NAME = "[\ue000-\uf8ff]"
# The signs of formulas in LaTeX, and its functions.
SIGNS = {"−": "-", "°": r"^{\circ}", "⁻¹": "^{-1}", "²": "^2", "‖": r"\Vert", "≤": r"\le"}
SIGNS |= {"×": r"\times", "·": r"\cdot", "∈": r"\in", "∞": r"\infty", "√": r"\surd", "Σ": r"\sum"}
SIGNS |= {"θ": r"\theta", "ℓ": r"\ell", "π": r"\pi", "ρ": r"\rho", "σ": r"\sigma", "Φ": r"\Phi"}
SIGNS |= {"Ω": r"\Omega", "log": r"\log", "exp": r"\exp", "max": r"\max", "ᵀ": r"^{\top}"}
# What LaTeX and HTML write in another way: subscripts, names, signs and functions, words, and
# characters of their own.
BELOW = rf"_(?P<below>\([^()]*\)(?:∈{NAME})?|{NAME}|\*|[A-Za-z0-9Ω][A-Za-z0-9_]*)"
WORD = r"(?!(?:log|exp|max)\b)[A-Za-z]{2}\w*"
WORDS = rf"(?P<words>(?:(?<=[\w)\]\ue000-\uf8ff]) )?\b{WORD}(?: {WORD})* ?)"
TOKEN = re.compile(rf"{BELOW}|(?P<name>{NAME})|(?P<sign>{'|'.join(SIGNS)})|{WORDS}|[{{}}%&#$]")
HTML_TOKEN = re.compile(
    rf"{BELOW}|(?P<name>{NAME})|(?P<letter>(?<![A-Za-z])[A-Za-z](?![A-Za-z]))|[<>&]"
)
# Characters of names that LaTeX has no letter for, as it writes them in mathematics.
SPECIAL = {"\\": r"\backslash ", "^": r"{\wedge}", "~": r"{\sim}"}
SPECIAL |= {character: f"\\{character}" for character in "{}$&#_%"}
PART_OF_NAME = re.compile(r"[^\\^~{}$&#_%]+|.")


def name_in_formula(number: int) -> str:
    """Return the character that stands for the name of a block until the text is written."""
    return chr(FIRST_NAME + number)


def as_latex(text: str, names: Sequence[str]) -> str:
    """Return a formula as LaTeX, line by line."""

    def latex(match: re.Match[str]) -> str:
        token, subscript = match[0].replace("_", r"\_"), match["below"]
        if match["name"] is not None:
            return latex_name(match["name"], names)
        if subscript is not None:
            if len(subscript) > 2 and subscript not in SIGNS and "(" not in subscript:
                return rf"_{{\text{{{token[2:]}}}}}"
            inner = (
                TOKEN.sub(latex, subscript)
                if not subscript.isascii() or "(" in subscript
                else subscript
            )
            return f"_{inner}" if len(inner) == 1 else f"_{{{SIGNS.get(inner, inner)}}}"
        if match["sign"] is not None:
            return SIGNS[token] + " " * match.string[match.end() :][:1].isalpha()
        return rf"\text{{{token}}}" if match["words"] is not None else "\\" + token

    lines = [TOKEN.sub(latex, line.strip()) for line in text.splitlines()]
    return r"$\begin{aligned} & " + r" \\ & ".join(lines) + r" \end{aligned}$"


def latex_name(character: str, names: Sequence[str]) -> str:
    """Return the name that a character stands for, with what LaTeX takes for commands escaped."""
    parts = PART_OF_NAME.findall(one_line(names[ord(character) - FIRST_NAME]))
    return "".join(SPECIAL.get(part, rf"\text{{{part}}}") for part in parts)


def as_html(text: str, names: Sequence[str]) -> str:
    """Return a formula as HTML with subscripts and a line of text for each line.

    Spaces at the beginning of a line are not broken, since programs that rewrite HTML drop others.
    """

    def marked(match: re.Match[str]) -> str:
        if match["below"] is not None:
            inner = match["below"]
            several = inner.isalpha() and inner.isascii() and len(inner) == 2
            return f"<sub>{f'<i>{inner}</i>' if several else HTML_TOKEN.sub(marked, inner)}</sub>"
        if match["name"] is not None:
            return html.escape(one_line(names[ord(match["name"]) - FIRST_NAME]))
        return f"<i>{match[0]}</i>" if match["letter"] is not None else html.escape(match[0])

    indented = re.sub("^ +", lambda spaces: "\u00a0" * len(spaces[0]), text, flags=re.MULTILINE)
    return HTML_TOKEN.sub(marked, indented)
