"""Which experiments there are, by name; a paper is imported when it is asked for."""

import difflib
from importlib import import_module

from mcframe.contracts.errors import DataError
from papers.experiment import Experiment

__all__ = ["PAPERS", "experiments", "find", "listing"]

# One module a paper, with a constant EXPERIMENTS, by what the names of its experiments begin with.
PAPERS: dict[str, str] = {
    "goldberg": "papers.goldberg",
    "coco": "papers.coco",
    "zheng": "papers.zheng",
    "tmcc": "papers.tmcc",
    "hayashi": "papers.hayashi",
}


def of_paper(paper: str) -> dict[str, type[Experiment]]:
    """Import the experiments of one paper, by name."""
    return {kind.name: kind for kind in import_module(PAPERS[paper]).EXPERIMENTS}


def experiments() -> dict[str, type[Experiment]]:
    """All experiments by name, in the order of the papers."""
    return {name: kind for paper in PAPERS for name, kind in of_paper(paper).items()}


def find(name: str) -> type[Experiment]:
    """Give the experiment of a name, and import no other paper's.

    Raises
    ------
    DataError
        Where there is none; it names all that there are.
    """
    paper = name.partition("-")[0]
    found = of_paper(paper).get(name) if paper in PAPERS else None
    if found is not None:
        return found
    near = difflib.get_close_matches(name, experiments(), n=1)
    hint = f"; did you mean {near[0]}?" if near else ";"
    raise DataError(f"there is no {name!r} to reproduce{hint} There are\n\n{listing().rstrip()}")


def listing() -> str:
    """Write every name with its title, its source and its number of trials."""
    return "".join(map(entry, experiments().values()))


def entry(kind: type[Experiment]) -> str:
    """Write what there is to know of one before it runs."""
    trials = "1 trial" if kind.default_trials == 1 else f"{kind.default_trials} trials"
    return f"{kind.name}\n    {kind.title}\n    {kind.source}; {trials}\n"
