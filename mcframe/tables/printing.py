"""Rows of text as lines of aligned columns."""

from collections.abc import Sequence

__all__ = ["lines_of"]

# How many rows are printed; the rest is counted.
SHOWN = 60


def lines_of(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a header and rows as lines, columns aligned; of very many rows the first ones."""
    header, *body = rows
    kept = [header, *body[:SHOWN]]
    widths = [max(map(len, column)) for column in zip(*kept, strict=True)]
    lines = [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in kept
    ]
    if len(body) > SHOWN:
        lines.append(f"  and {len(body) - SHOWN} more")
    return lines
