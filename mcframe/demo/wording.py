"""What the demo says of scores and errors."""

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array
from mcframe.demo.baseline import Baseline
from mcframe.demo.choosing import Choice
from mcframe.demo.experiment import Errors, Experiment

__all__ = ["compare", "grid", "headline"]


def headline(text: str) -> None:
    """Print the line that begins a chapter."""
    print(f"\n{text}\n{'-' * len(text)}")


def grid(choice: Choice) -> str:
    """Write the scores as a table: a row for each scale, a column for each weight."""
    scales = list(dict.fromkeys(scale for scale, _ in choice.scores))
    weights = sorted({weight for _, weight in choice.scores}, reverse=True)
    lines = ["scale \\ weight" + "".join(f"{weight:>10.2g}" for weight in weights)]
    for scale in scales:
        cells = [choice.scores.get((scale, weight)) for weight in weights]
        shown = [
            "" if cell is None else f"{cell:.4f}" + "*" * ((scale, weight) == choice.best)
            for cell, weight in zip(cells, weights, strict=True)
        ]
        lines.append(f"{scale:<14g}" + "".join(f"{text:>10}" for text in shown).rstrip())
    return "\n".join(lines)


def compare(experiment: Experiment, answer: Fit, baseline: Baseline, seconds: Array) -> None:
    """Print the errors on hidden entries: of the fit, the baseline, and no learning at all."""
    ours = experiment.errors(answer.predict("features"), answer.predict("labels"))
    theirs = experiment.errors(baseline.features, baseline.probabilities)
    nothing = experiment.errors(experiment.constant("features"), experiment.constant("labels"))
    headline("Hidden entries: errors and seconds")
    print(f"{'':<34}{'label':>10}{'imputation':>12}{'choosing':>10}{'fitting':>9}")
    print(f"{'':<34}{'error':>10}{'error':>12}{'s':>10}{'s':>9}")
    print(line("mcframe", ours, seconds[0], seconds[1]))
    print(line("column means, logistic regression", theirs, seconds[2], seconds[3]))
    print(line("column means, commoner class", nothing))
    print(
        "label error: share of wrong 0/1 at threshold 0.5. imputation error: sum of squared errors"
        "\n/ sum of squares of the truth (Goldberg et al., 2010)"
        f"\nlogistic regression: one a label, C={baseline.strength:g} chosen on the same entries"
        " set aside"
    )
    if baseline.unconverged:
        print(f"note: {baseline.unconverged} of its regressions did not converge")
    print("\n" + verdict(ours, theirs))


def line(name: str, errors: Errors, *seconds: float) -> str:
    """Write one row of the table."""
    times = "".join(f"{s:>{width}.1f}" for s, width in zip(seconds, (10, 9), strict=False))
    return f"{name:<34}{errors.labels:>10.4f}{errors.features:>12.4f}{times}"


def verdict(ours: Errors, theirs: Errors) -> str:
    """Say in a sentence who is ahead."""
    labels = change(ours.labels, theirs.labels)
    features = change(ours.features, theirs.features)
    return (
        f"against the baseline, mcframe's label error is {labels}, its imputation error {features}"
    )


def change(ours: float, theirs: float) -> str:
    """Say how much lower or higher a number is."""
    if ours == theirs:
        return "the same"
    if theirs == 0.0:
        return "higher than its 0"
    return f"{abs(ours / theirs - 1):.0%} {'lower' if ours < theirs else 'higher'}"
