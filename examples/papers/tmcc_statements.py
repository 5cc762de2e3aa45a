"""What the page of Wang et al. (TMCC) shows of its trials."""

from papers.pages import Numbers
from papers.report import ruled
from papers.tmcc import FEATURES, METHODS, TARGETS

__all__ = ["PAGE"]

NUMBERS = Numbers()
TRIALS = "tmcc-fig2"


def against(method: str) -> str:
    """Write the differences of a method's errors from those of each other one, within trials."""
    blocks, lines = (FEATURES, *TARGETS), []
    for setting in NUMBERS.report(TRIALS).experiment.settings():
        for other in (each for each in METHODS if each != method):
            pairs = [(f"{method}, {block}", f"{other}, {block}") for block in blocks]
            if not NUMBERS.values(TRIALS, setting, pairs[0][0]):
                continue
            cells = [NUMBERS.difference(TRIALS, setting, *pair, 4) for pair in pairs]
            lines.append([setting, f"{method} - {other}", *cells])
    return "\n".join(ruled(["setting", "difference", *blocks], lines))


def sizes(setting: str) -> str:
    """Write the root mean squares of the true blocks."""
    blocks = (*TARGETS, FEATURES)
    found = {block: NUMBERS.known(TRIALS, setting, f"size of {block}") for block in blocks}
    return ", ".join(f"{block} {value}" for block, value in found.items())


PAGE = {"against": against, "sizes": sizes}
