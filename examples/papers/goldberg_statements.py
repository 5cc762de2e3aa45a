"""What Goldberg et al. (2010) say in words about their tables, computed from the stored trials."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import ttest_ind, ttest_rel

from papers.goldberg_contest import FEATURE, LABEL, LARGEST, POSTERIOR
from papers.goldberg_figures import META_AVERAGES
from papers.pages import Numbers
from papers.picture import Bars
from papers.report import ruled

__all__ = ["GLANCE", "PAGE"]

LEVEL = 0.05
# A test needs so many trials of both.
FEWEST = 3
SHARES = ("10%", "20%", "40%")
NUMBERS = Numbers()


def average(name: str, measure: str, ending: str = "") -> float:
    """Return the mean over the settings of a table with that ending that have been computed."""
    settings = [
        each for each in NUMBERS.report(name).experiment.settings() if each.endswith(ending)
    ]
    found = [NUMBERS.values(name, setting, measure) for setting in settings]
    means = [float(np.mean(list(each.values()))) for each in found if each]
    return float(np.mean(means)) if means else np.nan


def ties_said() -> str:
    """Say what the largest of equally good C changes, in the draws that have both."""
    name, said = "goldberg-table1", []
    for method in ("Mean+SVM", "Zero+SVM"):
        gaps = []
        for setting in NUMBERS.report(name).experiment.settings():
            largest = NUMBERS.values(name, setting, f"{method}{LARGEST} {LABEL}")
            smallest = NUMBERS.values(name, setting, f"{method} {LABEL}")
            gaps += [largest[k] - smallest[k] for k in sorted(largest.keys() & smallest.keys())]
        if len(gaps) > 1:
            error = np.std(gaps, ddof=1) / np.sqrt(len(gaps))
            said.append(f"{np.mean(gaps):+.1f} ± {error:.1f} points ({method}, {len(gaps)} draws)")
    return f"In the same draws the largest of them changes the errors by {' and by '.join(said)}."


def worst_gap(method: str, other: str, share: str) -> float:
    """Return the largest difference of mean label errors over the settings with that share."""
    name = "goldberg-table1"
    return max(
        NUMBERS.mean(name, setting, f"{method} {LABEL}")
        - NUMBERS.mean(name, setting, f"{other} {LABEL}")
        for setting in NUMBERS.report(name).experiment.settings()
        if setting.endswith(f", {share}")
    )


def by_share(name: str, kind: str, methods: Sequence[str]) -> str:
    """Write the means over the settings with the same share observed."""
    lines = [
        [method, *(f"{average(name, f'{method} {kind}', f', {s}'):.3g}" for s in SHARES)]
        for method in methods
    ]
    return "\n".join(ruled(["method", *SHARES], lines))


def spread(name: str, method: str, kind: str) -> float:
    """Return the paper's deviation over trials divided by ours, in the geometric mean."""
    published, ratios = NUMBERS.report(name).experiment.published(), []
    for setting in NUMBERS.report(name).experiment.settings():
        found = list(NUMBERS.values(name, setting, f"{method} {kind}").values())
        theirs = published.get((setting, f"{method.partition(',')[0]} {kind}"))
        if theirs and theirs.deviation and len(found) >= FEWEST:
            ratios.append(np.log(theirs.deviation / np.std(found, ddof=1)))
    return float(np.exp(np.mean(ratios))) if ratios else np.nan


def meta_averages(name: str, kind: str, variants: Sequence[str] = ()) -> str:
    """Write the paper's averages over all settings beside ours, as many as have been computed.

    The difference is the mean over the settings, ± its standard error; the spread is the paper's
    standard deviation over trials divided by ours, in the geometric mean. A variant of a method,
    such as EM as published, is compared with what the paper prints for the method.
    """
    report, lines = NUMBERS.report(name), []
    published, decimals = report.experiment.published(), 1 if kind == LABEL else 2
    posteriors = [f"{model}{POSTERIOR}" for model in ("MC-b", "MC-1")]
    for method in (*META_AVERAGES[kind], *variants, *posteriors):
        ours, gaps = [], []
        for setting in report.experiment.settings():
            found = list(NUMBERS.values(name, setting, f"{method} {kind}").values())
            ours += [np.mean(found)] if found else []
            theirs = published.get((setting, f"{method.partition(',')[0]} {kind}"))
            if found and theirs and method not in posteriors:
                gaps.append(ours[-1] - theirs.mean)
        printed = META_AVERAGES[kind].get(method)
        line = [method, "" if printed is None else f"{printed:.{decimals}f}"]
        line += [f"{np.mean(ours):.{decimals}f}" if ours else ""]
        error = np.std(gaps, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
        told = f"{np.mean(gaps):+.{decimals}f} ± {error:.{decimals}f}" if len(gaps) > 1 else ""
        ratio = np.nan if method in posteriors else spread(name, method, kind)
        line += [told, "" if np.isnan(ratio) else f"{ratio:.2f}"]
        lines.append([*line, str(len(ours))])
    headings = ("method", "paper", "ours", "ours - paper", "spread, paper / ours", "settings")
    return "\n".join(ruled(headings, lines))


def best_methods(name: str, kind: str, methods: Sequence[str]) -> str:
    """Write in how many settings each method is the best, or not significantly different.

    As the paper's bold entries: by paired two-sided t-tests at the level 0.05.
    """
    wins, settings = dict.fromkeys(methods, 0), 0
    for setting in NUMBERS.report(name).experiment.settings():
        found = [NUMBERS.values(name, setting, f"{method} {kind}") for method in methods]
        common = sorted(set.intersection(*(set(each) for each in found)))
        if len(common) < FEWEST:
            continue
        settings += 1
        table = np.array([[each[number] for number in common] for each in found])
        best = table[int(np.argmin(table.mean(axis=1)))]
        for method, row in zip(methods, table, strict=True):
            same = np.allclose(row, best) or ttest_rel(row, best).pvalue > LEVEL
            wins[method] += int(same)
    if not settings:
        return f"No setting has {FEWEST} trials of all of these yet, so nothing is tested."
    lines = [[method, f"{count} of {settings}"] for method, count in wins.items()]
    return "\n".join(ruled(["method", "best, or not significantly different"], lines))


def bias_said() -> str:
    """Say by how much the model without a bias differs from MC-b and MC-1 in each setting."""
    name, said = "goldberg-nobias", []
    for setting in NUMBERS.report(name).experiment.settings():
        bare, biased, ones = (
            NUMBERS.values(name, setting, f"{model} {LABEL}")
            for model in ("MC without a bias", "MC-b", "MC-1")
        )
        if bare:
            gaps = [np.mean([bare[k] - other[k] for k in bare]) for other in (biased, ones)]
            than = [
                f"{abs(gap):.1f} points {'lower' if gap < 0 else 'higher'} than that of {model}"
                for gap, model in zip(gaps, ("MC-b", "MC-1"), strict=True)
            ]
            trials = f"{len(bare)} trial{'s' * (len(bare) > 1)}"
            said.append(f"with {setting} it is {' and '.join(than)} ({trials})")
    return f"The label error of the model without a bias: {'; '.join(said)}."


def bias_verdict() -> str:
    """Say where the label errors of the model without a bias are significantly different."""
    name, said, trials = "goldberg-nobias", [], 0
    for setting in NUMBERS.report(name).experiment.settings():
        bare = NUMBERS.values(name, setting, f"MC without a bias {LABEL}")
        trials = len(bare)
        if trials < FEWEST:
            return f"{trials} trials do not decide this."
        for model in ("MC-b", "MC-1"):
            other = NUMBERS.values(name, setting, f"{model} {LABEL}")
            first, second = ([each[k] for k in sorted(bare)] for each in (bare, other))
            p, gap = float(ttest_rel(first, second).pvalue), np.mean(np.subtract(first, second))
            if p <= LEVEL:
                said.append(f"{verdict(p, float(gap))} than that of {model} with {setting}")
    if not said:
        return f"In {trials} trials no difference of label errors is significant."
    found = " and ".join(said)
    return f"In {trials} trials its label error is {found}. Nothing else is significant."


def verdict(probability: float, difference: float) -> str:
    """Say which sign a difference has, if it is significant."""
    said = "not significant" if probability > LEVEL else "lower" if difference < 0 else "higher"
    return f"{said} (p = {probability:.2g})"


def against(name: str, reference: str, methods: Sequence[str]) -> str:
    """Write paired tests of the label errors of methods against those of another one."""
    lines = []
    for setting in NUMBERS.report(name).experiment.settings():
        theirs = NUMBERS.values(name, setting, f"{reference} {LABEL}")
        for method in methods:
            own = NUMBERS.values(name, setting, f"{method} {LABEL}")
            common = sorted(own.keys() & theirs.keys())
            first, second = [own[k] for k in common], [theirs[k] for k in common]
            difference = float(np.mean(np.subtract(first, second))) if common else np.nan
            said = "too few trials"
            if len(common) >= FEWEST:
                said = verdict(float(ttest_rel(first, second).pvalue), difference)
            lines.append([setting, method, f"{difference:+.2f}", str(len(common)), said])
    headings = ("observed", "method", f"method - {reference}, points", "trials", "its error is")
    return "\n".join(ruled(headings, lines))


def more_tasks(methods: Sequence[str]) -> str:
    """Write two-sample tests of ten labels against two."""
    lines, name = [], "goldberg-table3"
    for method in methods:
        for kind in (LABEL, FEATURE):
            two, ten = (
                list(NUMBERS.values(name, f"t = {t}", f"{method} {kind}").values())
                for t in (2, 10)
            )
            if min(len(two), len(ten)) < FEWEST:
                lines.append([method, kind, "", "", "too few trials"])
                continue
            p, difference = float(ttest_ind(ten, two).pvalue), np.mean(ten) - np.mean(two)
            said = verdict(p, float(difference))
            lines.append([method, kind, f"{np.mean(two):.3g}", f"{np.mean(ten):.3g}", said])
    return "\n".join(ruled(["method", "error", "t = 2", "t = 10", "with ten it is"], lines))


def optimum_columns(model: str) -> dict[str, str]:
    """Return the measures of a model in the table of optima, by their headings."""
    headings = {
        "excess at 1e-5": "excess % at their rule",
        "excess at 1e-8": "excess % at 1e-08",
        "own gap": "own gap % at their rule",
        "gap, solved": "gap % solved",
        "iterations at 1e-5": "iterations at their rule",
        "iterations at 1e-8": "iterations at 1e-08",
        "label error, theirs": "label error % at their rule",
        "label error, solved": "label error % solved",
    }
    return {heading: f"{model}: {measure}" for heading, measure in headings.items()}


def paper_rows(name: str, methods: Sequence[str]) -> str:
    """Write label and feature errors of methods in each setting, as words in a sentence.

    A variant is called by the name of its method, since the sentence says which variant it is.
    """
    said = []
    for method in methods:
        found = []
        for setting in NUMBERS.report(name).experiment.settings():
            cells = [
                NUMBERS.values(name, setting, f"{method} {kind}") for kind in (LABEL, FEATURE)
            ]
            if all(cells):
                label, feature = (float(np.mean(list(each.values()))) for each in cells)
                share = setting.replace("%", " %")
                found.append(f"{label:.1f} % and {feature:.2f} at {share} observed")
        model = method.partition(",")[0]
        said.append(f"{model} has {', '.join(found)}" if found else f"{model} has not been run")
    return "; ".join(said)


def glance() -> list[Bars]:
    """Label errors of all methods: the mean of the synthetic settings, emotions, yeast."""
    methods = list(META_AVERAGES[LABEL])
    panels = [
        Bars(
            "synthetic, mean of settings: label error %",
            [*methods, "MC-b, posterior"],
            {
                "paper": [*META_AVERAGES[LABEL].values(), np.nan],
                "ours": [
                    average("goldberg-table1", f"{method} {LABEL}")
                    for method in (*methods, f"MC-b{POSTERIOR}")
                ],
            },
        )
    ]
    for name, title, setting in (
        ("goldberg-table4", "emotions, 80 % observed", "80%"),
        ("goldberg-table5", "yeast, 40 % observed", "40%"),
    ):
        rows = {
            row.measure.removesuffix(LABEL).strip(): row
            for row in NUMBERS.report(name).rows
            if row.setting == setting and row.measure.endswith(LABEL) and row.published
        }
        both = {method: row for method, row in rows.items() if not row.aside}
        theirs = [row.published.mean if row.published else np.nan for row in both.values()]
        ours = [row.measured.mean if row.measured else np.nan for row in both.values()]
        panels.append(Bars(f"{title}: label error %", list(both), {"paper": theirs, "ours": ours}))
    return panels


GLANCE = glance
PAGE = {
    "optimum_columns": optimum_columns,
    "paper_rows": paper_rows,
    "META": META_AVERAGES[LABEL],
    "average": average,
    "ties_said": ties_said,
    "bias_said": bias_said,
    "by_share": by_share,
    "meta_averages": meta_averages,
    "best_methods": best_methods,
    "against": against,
    "worst_gap": worst_gap,
    "bias_verdict": bias_verdict,
    "spread": spread,
    "more_tasks": more_tasks,
}
