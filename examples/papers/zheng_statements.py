"""What the page of Zheng and Hastie (2015) shows of its trials."""

from collections.abc import Sequence

from papers.pages import Numbers
from papers.report import ruled

__all__ = ["PAGE"]

NUMBERS = Numbers()
RULE = "zheng-rule"


def largest(measure: str) -> str:
    """Write the largest value of a measure over all trials."""
    settings = NUMBERS.report(RULE).experiment.settings()
    found = [v for each in settings for v in NUMBERS.values(RULE, each, measure).values()]
    return f"{max(found):.1e}"


def by_lambda(lambdas: Sequence[float]) -> str:
    """Write the error of the rule, and how far predictions are shrunk, by lambda."""
    lines = []
    for setting in NUMBERS.report(RULE).experiment.settings():
        for measure in ("rule, error", "labels / rule"):
            names = [f"{measure} at lambda {each:g}" for each in lambdas]
            lines.append([setting, measure, *(NUMBERS.ours(RULE, setting, n) for n in names)])
    return "\n".join(ruled(["setting", "lambda", *(f"{each:g}" for each in lambdas)], lines))


PAGE = {"largest": largest, "by_lambda": by_lambda}
