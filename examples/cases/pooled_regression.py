"""Regression with missing values.

Question: what do gaps do to a coefficient and to its interval?

Data: 442 diabetes patients, scikit-learn's bundled table (Efron and others, 2004). The outcome is
the progression of the disease after a year. Patients whose disease progressed little missed
examinations more often (simulated here): body mass index, blood pressure and the logarithm of the
triglycerides (s5) are missing with a probability that depends on the outcome.

Model: ``mc.complete`` fits the joint distribution of all columns, the outcome included.
``draws`` gives 20 completed tables, each is analysed by least squares, and ``mc.pool`` combines
the answers by Rubin's rules. Plain alternatives: complete cases only, and filling with means.
"""

import numpy as np
import pandas as pd
from common import DATA, OURS, PLAIN, axes, save
from sklearn.datasets import load_diabetes

import mcframe as mc

frame = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "outcome"})
X = ["age", "sex", "bmi", "bp", "s5"]
GAPS = ["bmi", "bp", "s5"]
frame = frame[[*X, "outcome"]].assign(sex=frame["sex"] == 2.0)
spread = frame[X].astype(float).std()


def regression(table):
    """Coefficients per standard deviation of each column, and their variances."""
    design = np.column_stack([np.ones(len(table)), table[X].astype(float) / spread])
    y = table["outcome"].to_numpy()
    inverse = np.linalg.inv(design.T @ design)
    found = inverse @ design.T @ y
    noise = np.sum((y - design @ found) ** 2) / (len(y) - design.shape[1])
    return found[1:], noise * np.diag(inverse)[1:]


def with_gaps(seed):
    """The table with gaps that depend on the outcome, which stays observed."""
    rng = np.random.default_rng(seed)
    score = (frame["outcome"] - frame["outcome"].mean()) / frame["outcome"].std()
    share = 1.0 / (1.0 + np.exp(0.9 + 1.5 * score))
    gaps = rng.random((len(frame), len(GAPS))) < share.to_numpy()[:, np.newaxis]
    return frame.assign(**frame[GAPS].mask(gaps))


def three_ways(table):
    """Estimates and 95 % intervals from complete cases, filled means and multiple imputation."""
    completed = mc.complete(table)
    estimates, variances = zip(*map(regression, completed.draws(20)), strict=True)
    pooled = mc.pool(estimates, variances, complete_degrees_of_freedom=len(table) - len(X) - 1)
    answers = {"multiple imputation": (pooled.estimate, pooled.interval(0.95))}
    for name, used in (
        ("complete cases", table.dropna()),
        ("filled with means", table.fillna(table[GAPS].mean())),
    ):
        found, variance = regression(used)
        half = 1.96 * np.sqrt(variance)
        answers[name] = found, (found - half, found + half)
    return answers, pooled


truth, _ = regression(frame)
answers, pooled = three_ways(with_gaps(0))
print(f"complete rows: {len(with_gaps(0).dropna())} of {len(frame)}")
print(pooled)
table = pd.DataFrame({"all data": truth, **{k: v[0] for k, v in answers.items()}}, index=X)
print(table.round(1).to_string())

REPEATS = 5
errors = {name: [] for name in answers}
for seed in range(REPEATS):
    for name, (estimate, _) in three_ways(with_gaps(seed))[0].items():
        errors[name].append(estimate - truth)
print(f"root mean square distance from the coefficients of all data, {REPEATS} patterns of gaps:")
distance = {name: np.sqrt(np.mean(np.square(found))) for name, found in errors.items()}
for name, value in distance.items():
    print(f"  {name:<20} {value:.1f}")

axis = axes(xlabel="coefficient, per standard deviation")
places = np.arange(len(X))
axis.plot(truth, places, "|", color=DATA, markersize=26, label="all data")
colours = (OURS, PLAIN, "tab:green")
for shift, colour, (name, (found, ends)) in zip(
    (0.0, 0.2, -0.2), colours, answers.items(), strict=True
):
    axis.hlines(places + shift, *ends, color=colour)
    axis.plot(found, places + shift, "o", color=colour, label=name)
axis.set_yticks(places, X)
axis.legend(frameon=False, fontsize=8)
save(axis, "pooled_regression")
# Gaps that depend on the outcome bias complete cases, and filling with means distorts relations.
assert distance["multiple imputation"] < min(
    distance["complete cases"], distance["filled with means"]
)
