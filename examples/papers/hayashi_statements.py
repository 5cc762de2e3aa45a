"""What the page of Hayashi et al. (2018) shows of its trials."""

from collections.abc import Sequence

import numpy as np

from papers.hayashi_movielens import SETTING, HayashiAlpha
from papers.pages import Numbers
from papers.report import ruled
from papers.ternary import named_triple, parsed_triple

__all__ = ["PAGE"]

NUMBERS = Numbers()
EXPERIMENT = HayashiAlpha()
ALPHA = EXPERIMENT.name
RULES = ("0", "the average")


def names_of_points(name: str) -> dict[str, str]:
    """Return the points of a triangle by themselves."""
    found = dict.fromkeys(row.measure for row in NUMBERS.report(name).rows)
    return {point: point for point in found if parsed_triple(point)}


def computed_alphas() -> list[float]:
    """Return the values of alpha that have trials."""
    alphas = EXPERIMENT.alphas
    return [each for each in alphas if NUMBERS.values(ALPHA, SETTING, measure(each, 0, "0"))]


def measure(alpha: float, point: int, rule: str, kind: str = "validation") -> str:
    """Return the name of a measure; the first point is PN."""
    name = named_triple(EXPERIMENT.points[point])
    return f"alpha {alpha:g}, {name}, signs by {rule}, {kind}"


def by_alpha(kind: str) -> str:
    """Write the errors of PN and of the mixtures by alpha, by both readings of a sign."""
    points = EXPERIMENT.points
    lines = [
        [
            f"{alpha:g}",
            rule,
            *(
                NUMBERS.ours(ALPHA, SETTING, measure(alpha, point, rule, kind))
                for point in range(len(points))
            ),
        ]
        for alpha in computed_alphas()
        for rule in RULES
    ]
    return "\n".join(ruled(["alpha", "signs by", *map(named_triple, points)], lines))


def alpha_gains() -> str:
    """Write how much better mixtures are than PN at the same alpha, and PN at ratings 1 and 5."""
    points = EXPERIMENT.points
    lines = []
    for alpha in computed_alphas():
        for rule in RULES:
            gains = [
                NUMBERS.difference(
                    ALPHA, SETTING, measure(alpha, point, rule), measure(alpha, 0, rule), 4
                )
                for point in range(1, len(points))
            ]
            ratings = [
                NUMBERS.ours(ALPHA, SETTING, measure(alpha, 0, rule, f"rating {rating}"))
                for rating in (1, 5)
            ]
            lines.append([f"{alpha:g}", rule, *gains, *ratings])
    names = [f"{named_triple(point)} - PN" for point in points[1:]]
    return "\n".join(ruled(["alpha", "signs by", *names, "PN, rating 1", "PN, rating 5"], lines))


def alpha_said() -> str:
    """Say which alpha is best for PN and for the mixtures, and where the mixtures gain."""
    points = EXPERIMENT.points
    errors = {
        (alpha, point): NUMBERS.mean(ALPHA, SETTING, measure(alpha, point, rule))
        for alpha in computed_alphas()
        for point in range(len(points))
        for rule in RULES[:1]
    }
    pn, other = (
        min((key for key in errors if (key[1] == 0) == first), key=errors.__getitem__)
        for first in (True, False)
    )
    gains = [
        f"{alpha:g}"
        for alpha in computed_alphas()
        if errors[alpha, 0] > min(errors[alpha, k] for k in range(1, len(points)))
    ]
    return (
        f"By the sign of Z the least error of PN is {errors[pn]:.4f}, at alpha = {pn[0]:g}; that"
        f" of the mixtures is {errors[other]:.4f}, {named_triple(points[other[1]])} at alpha ="
        f" {other[0]:g}. At the same alpha some mixture is better than PN for alpha ="
        f" {', '.join(gains) or 'none of these'}."
    )


def by_width(name: str, widths: Sequence[int]) -> str:
    """Write risk, excess, gap and error of the algorithm at each width, beside the optimum."""
    share, lines = "share of the risk at Z = 0", []
    for setting in NUMBERS.report(name).experiment.settings():
        for k in widths:
            own = [f"k = {k}, {each}" for each in (share, "excess", "gap", "error")]
            found = [NUMBERS.mean(name, setting, each) for each in own]
            best = [NUMBERS.mean(name, setting, f"optimum, {each}") for each in (share, "error")]
            risk, excess, gap, error = (
                "inf" if np.isinf(value) else f"{value:.4g}" for value in found
            )
            line = [risk, f"{best[0]:.4g}", excess, gap, error, f"{best[1]:.4g}"]
            lines.append([setting, str(k), *line])
    headings = (share, "of the optimum", "excess", "gap of its own", "error", "of the optimum")
    return "\n".join(ruled(["instance", "k", *headings], lines))


PAGE = {
    "names_of_points": names_of_points,
    "by_alpha": by_alpha,
    "alpha_gains": alpha_gains,
    "alpha_said": alpha_said,
    "by_width": by_width,
}
