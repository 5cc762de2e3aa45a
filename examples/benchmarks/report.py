"""The table and the pictures of a comparison, from its results alone.

python examples/benchmarks/report.py DIR
"""

import json
import pathlib
import statistics
import sys

import numpy as np

__all__ = ["processor", "write"]

LEVELS = (1e-2, 1e-4, 1e-6)
# A certified bound that is farther than this below the lowest objective is no yardstick.
LOOSE = 5e-7
UNITS = {"gaussian": "Gaussian", "labels": "labels", "counts": "counts"}


def processor():
    """The name of the processor, where the system tells it."""
    file = pathlib.Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def succeeded(record, method=None):
    """Runs that ended, of one method or all."""
    runs = [run for run in record["runs"] if "failed" not in run]
    return [run for run in runs if method is None or run["method"] == method]


def yardstick(record):
    """What gaps are measured from, and a sentence that says it."""
    points = [point for run in succeeded(record) for point in run.get("trace", [])]
    bound = max([record["reference"]["bound"], *(point[2] for point in points)])
    objectives = [run["objective"] for run in succeeded(record) if "objective" in run]
    lowest = min([record["reference"]["objective"], *objectives])
    apart = max(0.0, (lowest - bound) / abs(bound))
    if apart <= LOOSE:
        return bound, (
            f"Gaps are relative to {bound:.10g}, the best lower bound certified by mcframe;"
            f" the lowest objective of any method lies {apart:.0e} above it, so that a gap here"
            " is at most that much larger than the true one."
        )
    return lowest, (
        f"The best certified lower bound, {bound:.8g}, lies {apart:.0e} below the lowest objective"
        f" of any method, {lowest:.10g}. It is too loose to measure with: gaps are relative to"
        " that objective, and true ones may be larger by as much."
    )


def curve(run, zero):
    """Seconds and the lowest relative gap so far."""
    seconds = np.array([point[0] for point in run["trace"]])
    gaps = np.array([point[1] for point in run["trace"]]) / zero - 1.0
    return seconds, np.minimum.accumulate(np.maximum(gaps, 0.0))


def time_to(runs, level, zero):
    """The median time to a gap; where only counts of iterations were tried, a bracket."""
    by_count = {}
    for run in runs:
        by_count.setdefault(run["iterations"], []).append(run)
    missed = None
    for count in sorted(by_count):
        curves = [curve(run, zero) for run in by_count[count]]
        reached = [s[g <= level] for s, g in curves]
        if all(times.size for times in reached):
            seconds = statistics.median(float(times[0]) for times in reached)
            if count == 0:
                return f"{seconds:.3g}"
            return f"≤ {seconds:.3g}" if missed is None else f"{missed:.3g} – {seconds:.3g}"
        missed = statistics.median(float(s[-1]) for s, _ in curves)
    return "–"


def certified_time(runs):
    """The median time at which a method's own certificate says 1e-6."""
    times = []
    for run in runs:
        lowest, best = np.inf, -np.inf
        for seconds, objective, bound in run["trace"]:
            lowest, best = min(lowest, objective), max(best, bound)
            if best > -np.inf and lowest - best <= 1e-6 * max(abs(lowest), abs(best)):
                times.append(seconds)
                break
    return f"{statistics.median(times):.3g}" if times and len(times) == len(runs) else "–"


def longest(runs):
    """The runs with the most iterations."""
    most = max(run["iterations"] for run in runs)
    return [run for run in runs if run["iterations"] == most]


def median_of(runs, key):
    """The median of a number that runs report."""
    return statistics.median(run[key] for run in runs)


def errors_text(run):
    """Held-out errors by kind."""
    return ", ".join(
        f"{UNITS[kind]} {error:.4g}" if kind != "labels" else f"labels {error:.2%}"
        for kind, error in run.get("errors", {}).items()
    )


def rows_of(record):
    """One row a method that ran, in the order of the first runs."""
    zero = yardstick(record)[0]
    for method in dict.fromkeys(run["method"] for run in succeeded(record)):
        runs = succeeded(record, method)
        last = longest(runs)
        seconds = median_of(last, "seconds")
        cells = [method]
        if "objective" in last[0]:
            cells += [time_to(runs, level, zero) for level in LEVELS]
            cells.append(certified_time(runs))
            cells.append(f"{max(0.0, min(run['objective'] for run in last) / zero - 1):.1e}")
        else:
            cells += ["–"] * 5
        count = last[0]["iterations"]
        cells.append(f"{seconds:.3g}" + (f" ({count} it.)" if count else ""))
        if count and "objective" not in last[0]:
            cells[-1] += f", {seconds / count:.2g} each"
        cells += [errors_text(last[0]), f"{median_of(last, 'peak_mb'):.0f}", str(len(last))]
        yield [*cells, record["notes"].get(method, "")]


def rows_of_imputation(record):
    """One row a method: errors by kind, time, memory."""
    for method in dict.fromkeys(run["method"] for run in succeeded(record)):
        runs = succeeded(record, method)
        errors = runs[0]["errors"]
        cells = [f"{errors[kind]:.3g}" for kind in ("gaussian", "labels", "counts")]
        cells += [f"{median_of(runs, 'seconds'):.3g}", f"{median_of(runs, 'peak_mb'):.0f}"]
        yield [method, *cells, str(len(runs)), record["notes"].get(method, "")]


HEADER = [
    "method",
    *(f"s to {level:.0e}" for level in LEVELS),
    "s to certified 1e-06",
    "last gap",
    "s in all",
    "held-out error",
    "peak MB",
    "runs",
    "note",
]
IMPUTATION_HEADER = [
    "method",
    "MAE continuous",
    "wrong binary",
    "MAE counts",
    "seconds",
    "peak MB",
    "runs",
    "note",
]


def section(name, record):
    """The heading, the yardstick, and the table of a problem."""
    n_rows, n_columns = record["shape"]
    lines = [f"## {name}: {n_rows:,} × {n_columns:,}, {record['observed']:,} observed", ""]
    if "reference" in record:
        reference = record["reference"]
        lines += [
            f"Weight {record['weight']:.6g}; rank needed and told to peers {reference['rank']}.",
            yardstick(record)[1],
            "",
        ]
    header = HEADER if "reference" in record else IMPUTATION_HEADER
    rows = list(rows_of(record) if "reference" in record else rows_of_imputation(record))
    ran = {row[0] for row in rows}
    for run in record["runs"]:
        if "failed" in run and run["method"] not in ran:
            rows.append([run["method"], *[""] * (len(header) - 2), f"failed: {run['failed']}"])
            ran.add(run["method"])
    absent = {method: reason for method, reason in record["absent"].items() if method not in ran}
    rows += [[method, *[""] * (len(header) - 2), reason] for method, reason in absent.items()]
    left = {m: why for m, why in record["unsuitable"].items() if m not in {*ran, *absent}}
    table = [header, ["---"] * len(header), *rows]
    lines += ["| " + " | ".join(row) + " |" for row in table]
    reasons = "; ".join(f"{method} ({why})" for method, why in left.items())
    return [*lines, "", *([f"Not for it: {reasons}.", ""] if left else [])]


def beside(results):
    """What else ran while a method was measured."""
    count = results.get("busy", 0)
    if not count:
        return ""
    processes = (
        "1 process that only counts" if count == 1 else f"{count} processes that only count"
    )
    return f"; beside every method {processes}"


def introduction(results):
    """The machine, the versions, and how to read the table."""
    machine = results["machine"]
    threads = ", ".join(f"{k}={v}" for k, v in machine["threads"].items()) or "as many as cores"
    versions = ", ".join(f"{package} {text}" for package, text in results["versions"].items())
    return [
        "# mcframe and its peers",
        "",
        f"{machine['date']}, {machine['processor']}, {machine['cores']} cores,"
        f" {machine['system']}, Python {machine['python']}; threads: {threads}{beside(results)}.",
        f"Versions: {versions}.",
        "",
        "Seconds are medians over runs in turns. Of methods that are run for fixed counts of"
        " iterations, a – b means: not yet at a, the next count took b. – means not reached."
        " Held-out errors: relative error of Z against the noise-free truth; of labels, the share"
        " of wrong signs. Peak memory is that of the whole process, imports and data included.",
        "",
        *(
            ["**Tiny problems: these numbers test the command and compare nothing.**", ""]
            * results["quick"]
        ),
    ]


def write(results, folder):
    """``table.md``, and two pictures a problem where matplotlib is installed."""
    lines = introduction(results)
    records = results["problems"].values()
    methods = dict.fromkeys(run["method"] for record in records for run in record["runs"])
    colours = {method: f"C{place}" for place, method in enumerate(methods)}
    for name, record in results["problems"].items():
        if not record["runs"] and not record["absent"]:
            continue
        lines += section(name, record)
        lines += [f"![{name}]({picture})\n" for picture in pictures(name, record, folder, colours)]
    (folder / "table.md").write_text("\n".join(lines), encoding="utf-8")


def pictures(name, record, folder, colours):
    """The files of the pictures that could be drawn."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
    except ImportError:
        return []
    drawn = []
    if "reference" in record and any("objective" in run for run in succeeded(record)):
        drawn.append(draw_gaps(name, record, folder / f"gap-{name}.png", colours))
    if succeeded(record):
        drawn.append(draw_bars(name, record, folder / f"error-memory-{name}.png"))
    return drawn


def draw_gaps(name, record, path, colours):
    """Relative gap against time, both on logarithmic axes; dashed is what is certified."""
    from matplotlib import pyplot as plt

    zero = yardstick(record)[0]
    figure, axes = plt.subplots(figsize=(7.5, 5), layout="constrained")
    methods = dict.fromkeys(run["method"] for run in succeeded(record) if "objective" in run)
    for method in methods:
        runs, colour = succeeded(record, method), colours[method]
        if runs[0]["iterations"]:
            seconds, gaps = medians_by_count(runs, zero)
            axes.plot(seconds, np.maximum(gaps, 1e-10), "o--", color=colour, ms=4, label=method)
            continue
        run = sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]
        seconds, gaps = curve(run, zero)
        # Between two points nothing was looked at: steps, not gradients.
        drawn = {"color": colour, "drawstyle": "steps-post", "marker": ".", "ms": 4}
        axes.plot(seconds, np.maximum(gaps, 1e-10), "-", label=method, **drawn)
        certified = own_gaps(run)
        if certified is not None:
            axes.plot(seconds, certified, ":", label=f"{method}, certified gap", **drawn)
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="relative gap", title=name)
    axes.set_ylim(1e-9, 10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path.name


def medians_by_count(runs, zero):
    """Median seconds and gaps of each count of iterations."""
    counts = sorted({run["iterations"] for run in runs})
    grouped = [[run for run in runs if run["iterations"] == count] for count in counts]
    seconds = [median_of(group, "seconds") for group in grouped]
    return seconds, [median_of(group, "objective") / zero - 1.0 for group in grouped]


def own_gaps(run):
    """The certified gap at each point of a trace, None without certificates."""
    points = np.array(run["trace"])
    lowest, best = np.minimum.accumulate(points[:, 1]), np.maximum.accumulate(points[:, 2])
    return (lowest - best) / np.abs(lowest) if np.isfinite(best).any() else None


def draw_bars(name, record, path):
    """Held-out error by kind of column, and peak memory."""
    from matplotlib import pyplot as plt

    methods = list(dict.fromkeys(run["method"] for run in succeeded(record)))[::-1]
    last = {method: longest(succeeded(record, method)) for method in methods}
    kinds = list(
        dict.fromkeys(kind for runs in last.values() for kind in runs[0].get("errors", {}))
    )
    figure, panels = plt.subplots(
        1,
        len(kinds) + 1,
        figsize=(4 + 2.5 * len(kinds), 1 + 0.35 * len(methods)),
        sharey=True,
        layout="constrained",
        squeeze=False,
    )
    for axes, kind in zip(panels[0], kinds, strict=False):
        errors = [last[method][0].get("errors", {}).get(kind, 0.0) for method in methods]
        axes.barh(methods, errors, color="C0")
        axes.set_xlabel(f"held-out error, {UNITS[kind]}")
    panels[0][-1].barh(methods, [median_of(last[m], "peak_mb") for m in methods], color="C1")
    panels[0][-1].set_xlabel("peak memory, MB")
    figure.suptitle(name)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path.name


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    write(json.loads((target / "results.json").read_text()), target)
