"""Answers in notebooks: short HTML in which everything is escaped, and names on one line."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

__all__ = [
    "card",
    "facts_as_html",
    "facts_as_text",
    "one_line",
    "remarks",
    "scrolled",
    "table_as_html",
]

# Only inherited and translucent colours, so that the same rules suit light and dark themes.
STYLE = """<style>
.mcframe {line-height: 1.4; max-width: 100%;}
.mcframe .mc-scroll {overflow: auto; max-height: 26em; margin: .4em 0;}
.mcframe table {border-collapse: collapse; margin: 0; font-variant-numeric: tabular-nums;}
.mcframe th, .mcframe td {padding: .15em .7em; text-align: left; vertical-align: top;
 max-width: 28em; overflow-wrap: anywhere; border: 0;
 border-bottom: 1px solid rgba(128, 128, 128, .3);}
.mcframe .mc-number {text-align: right; white-space: nowrap;}
.mcframe .mc-chosen {font-weight: bold;}
.mcframe .mc-formula {white-space: pre; font-family: 'STIX Two Math', 'Cambria Math', serif;
 font-size: 1.1em;}
.mcframe p {margin: .3em 0;}
</style>"""
# Rows of a table, and characters of a cell, that are shown.
MOST_ROWS, MOST_CHARACTERS = 60, 200
# Classes that keep MathJax, version 2 and later ones, from reading $x$ in a name as a formula.
NO_MATHEMATICS = "mcframe tex2jax_ignore mathjax_ignore"


def one_line(value: object) -> str:
    """Return the text of a name on one line; a character that cannot be printed becomes �."""
    line = " ".join(str(value).split())
    return line if line.isprintable() else "".join(c if c.isprintable() else "�" for c in line)


def card(title: str, *parts: str) -> str:
    """Return the HTML of an answer: a title, which is escaped, then parts, which are HTML."""
    head = f"<strong>{escape(one_line(title))}</strong>"
    return f'<div class="{NO_MATHEMATICS}">{STYLE}{head}{"".join(parts)}</div>'


def table_as_html(
    header: Sequence[object], rows: Iterable[Sequence[object]], chosen: Iterable[Any] = ()
) -> str:
    """Return the HTML of a table that scrolls by itself.

    Cells that begin with a digit or a sign are aligned to the right. ``chosen`` are pairs (row,
    column) of cells in bold.
    """
    bold, body = set(chosen), list(rows)
    lines = [row_of("th", header)] if header else []
    lines += [
        row_of("td", row, {column for at, column in bold if at == place})
        for place, row in enumerate(body[:MOST_ROWS])
    ]
    more = len(body) - MOST_ROWS
    said = [f"and {more} more rows"] if more > 0 else []
    return scrolled(f"<table>{''.join(lines)}</table>") + remarks(said)


def row_of(tag: str, cells: Sequence[object], bold: Iterable[int] = ()) -> str:
    """Return the HTML of a row of a table."""
    found = []
    for place, cell in enumerate(cells):
        text = one_line(cell)
        text = text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
        number = text[:1].isdigit() or (text[:1] in "+-−." and text[1:2].isdigit())
        classes = ["mc-number"] * number + ["mc-chosen"] * (place in bold)
        own = f' class="{" ".join(classes)}"' if classes else ""
        found.append(f"<{tag}{own}>{escape(text)}</{tag}>")
    return f"<tr>{''.join(found)}</tr>"


def scrolled(inner: str) -> str:
    """Return HTML in a box that scrolls where it is wider than the page, or long."""
    return f'<div class="mc-scroll">{inner}</div>'


def facts_as_html(facts: Mapping[str, object]) -> str:
    """Return a table of names and values as HTML."""
    return table_as_html((), facts.items())


def facts_as_text(facts: Mapping[str, object]) -> list[str]:
    """Return names and values as aligned lines of text."""
    return [f"  {name:<10} {value}" for name, value in facts.items()]


def remarks(lines: Iterable[str]) -> str:
    """Return a paragraph of HTML for each sentence, which is escaped."""
    return "".join(f"<p>{escape(one_line(line))}</p>" for line in lines)
