"""Answers in notebooks: short HTML in which everything is escaped, and names on one line."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from mcframe.contracts.limits import MOST_CHARACTERS

# Only inherited and translucent colours, so that the same rules suit light and dark themes. The
# rules that notebooks have for tables are less specific than these.
STYLE = """<style>
.mcframe {line-height: 1.4; max-width: 100%;}
.mcframe p {margin: .3em 0;}
.mcframe div.mc-scroll {overflow: auto; max-height: 26em; margin: .4em 0;}
.mcframe .mc-scroll table {border-collapse: collapse; margin: 0;
 font-variant-numeric: tabular-nums;}
.mcframe .mc-scroll tr :is(th, td) {padding: .15em .7em; text-align: left; vertical-align: top;
 max-width: 28em; overflow-wrap: break-word; border: 0;
 border-bottom: 1px solid rgba(128, 128, 128, .3);}
.mcframe .mc-scroll .mc-table td {white-space: nowrap; overflow: hidden; text-overflow: ellipsis;}
.mcframe .mc-scroll tr .mc-number {text-align: right;}
.mcframe .mc-scroll tr .mc-chosen {font-weight: bold;}
.mcframe .mc-formula {white-space: pre; font-family: 'STIX Two Math', 'Cambria Math', serif;
 font-size: 1.1em;}
</style>"""
# Rows of a table that are shown.
MOST_ROWS = 60
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

    With a header, columns of numbers are aligned to the right. ``chosen`` are pairs (row, column)
    of cells in bold.
    """
    bold, texts = set(chosen), [[cut(cell) for cell in row] for row in rows]
    body = texts[:MOST_ROWS]
    right = {k for k, cells in enumerate(zip(*body, strict=True)) if all(map(is_number, cells))}
    lines = [row_of("th", [cut(title) for title in header], right)] if header else []
    for place, row in enumerate(body):
        cells = {column for at, column in bold if at == place}
        lines.append(row_of("td", row, right if header else set(), cells))
    notes = [f"and {len(texts) - MOST_ROWS} more rows"] if len(texts) > MOST_ROWS else []
    kind = ' class="mc-table"' if header else ""
    return scrolled(f"<table{kind}>{''.join(lines)}</table>") + remarks(notes)


def table_as_text(
    header: Sequence[str], rows: Sequence[Sequence[str]], most: int = MOST_ROWS
) -> list[str]:
    """Return lines of text with aligned columns; of very many rows the first ones."""
    kept = [header, *rows[:most]]
    widths = [max(map(len, column)) for column in zip(*kept, strict=True)]
    lines = [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in kept
    ]
    return [*lines, *[f"  and {len(rows) - most} more"] * (len(rows) > most)]


def percent(share: float) -> str:
    """Return a share in per cent, 0 and 100 only where it is nothing or all."""
    if 0.0 < share < 0.005 or 0.995 <= share < 1.0:
        return "<1%" if share < 0.5 else ">99%"
    return f"{share:.0%}"


def cut(value: object) -> str:
    """Return a text on one line, and of a long one its beginning."""
    text = one_line(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def is_number(text: str) -> bool:
    """Return True for a number, with what may follow it, and for none."""
    return text.lstrip("+-−.")[:1].isdigit() or text in ("", "-", "inf", "nan")


def row_of(tag: str, texts: Sequence[str], right: Iterable[int], bold: Iterable[int] = ()) -> str:
    """Return the HTML of a row of a table, some columns aligned to the right or in bold."""
    cells = []
    for place, text in enumerate(texts):
        classes = ["mc-number"] * (place in right) + ["mc-chosen"] * (place in bold)
        attribute = f' class="{" ".join(classes)}"' if classes else ""
        cells.append(f"<{tag}{attribute}>{escape(text)}</{tag}>")
    return f"<tr>{''.join(cells)}</tr>"


def scrolled(inner: str) -> str:
    """Return HTML in a box that scrolls where it is wider than the page, or long."""
    return f'<div class="mc-scroll">{inner}</div>'


def text_as_html(text: str) -> str:
    """Return the HTML of lines of text, which are escaped and keep their spaces."""
    return scrolled(f"<pre>{escape(text)}</pre>")


def remarks(lines: Iterable[str]) -> str:
    """Return a paragraph of HTML for each sentence, which is escaped."""
    return "".join(f"<p>{escape(one_line(line))}</p>" for line in lines)
