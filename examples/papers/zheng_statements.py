"""What the page of Zheng and Hastie (2015) shows of its trials."""

from collections.abc import Sequence

from papers.pages import Numbers
from papers.picture import Bars
from papers.report import ruled

__all__ = ["GLANCE", "PAGE"]

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


def glance() -> list[Bars]:
    """Errors on new rows; the paper prints none."""
    panels = []
    for setting in NUMBERS.report(RULE).experiment.settings():
        labels = ("rule", "refitting", "ridge regression", "label mean")
        found = [NUMBERS.values(RULE, setting, f"{label}, error") for label in labels]
        means = [sum(each.values()) / len(each) if each else float("nan") for each in found]
        panels.append(Bars(f"{setting}: error on new rows", labels, {"ours": means}))
    return panels


GLANCE = glance
PAGE = {"largest": largest, "by_lambda": by_lambda}
