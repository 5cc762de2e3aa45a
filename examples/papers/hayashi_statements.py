"""What the page of Hayashi et al. (2018) shows of its trials."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from papers.hayashi_movielens import AVERAGE, INSIDE, SETTING, WIDE, HayashiAlpha
from papers.pages import Numbers, listed, stored
from papers.picture import Bars
from papers.report import ruled
from papers.ternary import named_triple, parsed_triple

__all__ = ["GLANCE", "PAGE"]

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
    first = EXPERIMENT.steps[0]
    return [
        alpha
        for alpha in EXPERIMENT.alphas
        if NUMBERS.values(ALPHA, SETTING, measure(alpha, first, 0, "0"))
    ]


def measure(alpha: float, steps: int, point: int, rule: str, kind: str = "validation") -> str:
    """Return the name of a measure; the first point is PN."""
    name = named_triple(EXPERIMENT.points[point])
    return f"alpha {alpha:g}, {steps} steps, {name}, signs by {rule}, {kind}"


def by_alpha() -> str:
    """Write the errors of PN, what mixtures gain on it, and PN at the ratings 1 and 5."""
    lines = []
    for alpha, steps, rule in product(computed_alphas(), EXPERIMENT.steps, RULES):
        names = [measure(alpha, steps, place, rule) for place in range(len(EXPERIMENT.points))]
        gains = [NUMBERS.difference(ALPHA, SETTING, name, names[0], 4) for name in names[1:]]
        kinds = ("validation", "test", "rating 1", "rating 5")
        pn = [NUMBERS.ours(ALPHA, SETTING, measure(alpha, steps, 0, rule, k)) for k in kinds]
        lines.append([f"{alpha:g}", str(steps), rule, *pn, *gains])
    headings = ("alpha", "steps", "signs by", "PN", "PN, test", "PN, rating 1", "PN, rating 5")
    names = [f"{named_triple(point)} - PN" for point in EXPERIMENT.points[1:]]
    return "\n".join(ruled([*headings, *names], lines))


def alpha_said() -> str:
    """Say which alpha is best for PN and for the mixtures, and where the mixtures gain."""
    places = range(len(EXPERIMENT.points))
    errors = {
        (alpha, steps, place): NUMBERS.mean(ALPHA, SETTING, measure(alpha, steps, place, "0"))
        for alpha, steps, place in product(computed_alphas(), EXPERIMENT.steps, places)
    }
    pn, other = (
        min((key for key in errors if (key[2] == 0) == first), key=errors.__getitem__)
        for first in (True, False)
    )
    gains = [
        f"{alpha:g} ({steps} steps)"
        for alpha, steps in product(computed_alphas(), EXPERIMENT.steps)
        if errors[alpha, steps, 0] > min(errors[alpha, steps, k] for k in places[1:])
    ]
    splits = len(NUMBERS.values(ALPHA, SETTING, measure(*pn[:2], 0, "0")))
    return (
        f"With the sign of Z the smallest error of PN is {errors[pn]:.4f}, at alpha = {pn[0]:g}"
        f" with {pn[1]} steps. The smallest error of the mixtures is {errors[other]:.4f}, that of"
        f" {named_triple(EXPERIMENT.points[other[2]])} at alpha = {other[0]:g} with {other[1]}"
        f" steps. In the means over {splits} splits, some mixture is better than PN with the same"
        f" alpha and number of steps at alpha = {', '.join(gains) or 'none of these'}."
    )


def agreeing(method: str, near: bool = True) -> str:
    """Write where a row of the wide class is within two standard errors of the paper, or not."""
    start = f"{method}, alpha {WIDE:g}, {AVERAGE}, "
    rows = [
        row
        for row in NUMBERS.report("hayashi-table1").rows
        if row.measure.startswith(start) and row.distance is not None
    ]
    found = [row.measure.removeprefix(start) for row in rows if row.is_far != near]
    return listed(found) if found else "none"


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


def methods_of(kind: str) -> dict[str, str]:
    """Return one kind of error of each method from ones alone, under the method's name."""
    rows = NUMBERS.report("hayashi-positives").rows
    found = dict.fromkeys(row.measure for row in rows)
    return {name.removesuffix(f", {kind}"): name for name in found if name.endswith(f", {kind}")}


def measures_of_bound() -> dict[str, str]:
    """Return all that is measured of Theorem 3.5, by itself."""
    rows = NUMBERS.report("hayashi-positives-bound").rows
    return {row.measure: row.measure for row in rows}


def bound_said() -> str:
    """Say which slopes the errors of Theorem 3.5 have, by size, share and rank."""
    name = "hayashi-positives-bound"
    settings = stored(name).experiment.settings()
    slopes = {
        kind: [NUMBERS.mean(name, setting, f"slope by {kind}") for setting in settings]
        for kind in ("size", "share")
    }
    loose = [setting for setting in settings if setting.endswith("sqrt(r) d")]
    ranks = [int(setting.split(",")[0].removeprefix("rank ")) for setting in loose]
    errors = [NUMBERS.mean(name, setting, "size 100") for setting in loose]
    return (
        f"By size the slopes are from {min(slopes['size']):.2f} to {max(slopes['size']):.2f}: the"
        " errors fall at least as fast as the bound. By the share of ones observed they are from"
        f" {min(slopes['share']):.2f} to {max(slopes['share']):.2f}: with fewer ones the errors"
        " rise, but less steeply than 1 / (1 - rho), as the bound allows. By rank, at size 100"
        f" with t = sqrt(r) d, the slope is {NUMBERS.order(ranks, errors):.2f}, and that of the"
        " bound 1/2. So nothing contradicts the theorem, and its order in 1 - rho is not reached"
        " on these draws."
    )


def glance() -> list[Bars]:
    """Overall errors of Table 1, in the tuned class and a wide one; PN and a mixture by alpha."""
    name, methods = "hayashi-table1", ("PN", "proposed")
    published = NUMBERS.report(name).experiment.published()
    overall = [f"{method}, overall" for method in methods]
    theirs = [published[SETTING, measure].mean for measure in overall]
    ours = [NUMBERS.mean(name, SETTING, measure) for measure in overall]
    part = f"alpha {WIDE:g}, {AVERAGE}"
    rows = [f"{method}, {part}, overall" for method in ("PN", named_triple(INSIDE))]
    wide = [NUMBERS.mean(name, SETTING, measure) for measure in rows]
    series = {"paper": theirs, "ours, tuned": ours, f"ours, alpha {WIDE:g}": wide}
    alphas = computed_alphas()
    errors = {
        named_triple(EXPERIMENT.points[point]): [
            NUMBERS.mean(ALPHA, SETTING, measure(alpha, EXPERIMENT.steps[0], point, "0"))
            for alpha in alphas
        ]
        for point in (0, 1)
    }
    return [
        Bars("Table 1: share of wrong signs", methods, series, 0.25),
        Bars("ours by alpha: share of wrong signs", [f"{a:g}" for a in alphas], errors, 0.25),
    ]


GLANCE = glance
PAGE = {
    "names_of_points": names_of_points,
    "by_alpha": by_alpha,
    "agreeing": agreeing,
    "alpha_said": alpha_said,
    "by_width": by_width,
    "methods_of": methods_of,
    "measures_of_bound": measures_of_bound,
    "bound_said": bound_said,
}
