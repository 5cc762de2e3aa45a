"""Tables as lines of text."""

from collections.abc import Sequence

# How many rows are printed; the rest is counted.
SHOWN = 60


def percent(share: float) -> str:
    """A share in per cent, 0 and 100 only where it is nothing or all."""
    if 0.0 < share < 0.005 or 0.995 <= share < 1.0:
        return "<1%" if share < 0.5 else ">99%"
    return f"{share:.0%}"


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
