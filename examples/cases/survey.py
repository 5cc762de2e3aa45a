"""A survey with gaps.

Question: how wide must an interval be that holds a missing answer?

Data: the 943 users of MovieLens 100k, as a survey. They told age, sex, occupation and postcode;
the other columns describe the ratings that they gave. (No survey with true answers behind its
gaps is at hand. This table is complete, and a fifth of it is hidden here.)

Model: ``mc.complete``. Rows are draws from a Gaussian or a mixture, and the posterior gives an
interval for every missing number. The plain alternative fills with the mean or the mode, and its
interval is the mean plus and minus 1.645 standard deviations.
"""

import numpy as np
import pandas as pd
from common import DATA, OURS, PLAIN, axes, data_file, save

import mcframe as mc

ml = np.load(data_file("movielens100k.npz"))
GENRES = ["Action", "Children's", "Comedy", "Drama", "Horror", "Romance", "Sci-Fi", "Thriller"]
rated = pd.DataFrame({"user": ml["user"], "stars": ml["rating"]})
rated["year"] = np.where(ml["item_year"] > 0, ml["item_year"], np.nan)[ml["item"]]
shares = ml["item_genres"][ml["item"]][:, [list(ml["genre_names"]).index(g) for g in GENRES]]
rated[GENRES] = 100.0 * shares  # per cent of a user's films
by_user = rated.groupby("user")
survey = pd.DataFrame(
    {
        "age": ml["user_age"].astype(float),
        "sex": ml["user_sex"],
        "occupation": ml["user_occupation"],
        "region": pd.Series(ml["user_zip"]).str[0],  # the first sign of the postcode
        "log_ratings": np.log10(by_user.size()),
        "mean_stars": by_user["stars"].mean(),
    }
).join(by_user[["year", *GENRES]].mean())
hidden = pd.DataFrame(np.random.default_rng(0).random(survey.shape) < 0.2, columns=survey.columns)
# Postcodes look like numbers, so their type is declared.
completed = mc.complete(survey.mask(hidden), types={"region": "category"})
print(completed)

lower, upper = completed.interval(0.9)
lines = []
for name in survey.select_dtypes("number"):
    truth, gaps = survey[name], hidden[name]
    seen = truth[~gaps]
    half = 1.645 * seen.std()
    lines.append(
        {
            "column": name,
            "error": np.sqrt(np.mean((completed.table[name] - truth)[gaps] ** 2)),
            "error_of_mean": np.sqrt(np.mean((seen.mean() - truth)[gaps] ** 2)),
            "covered": ((lower[name] <= truth) & (truth <= upper[name]))[gaps].mean(),
            "covered_by_mean": ((truth - seen.mean()).abs() <= half)[gaps].mean(),
            "width": (upper[name] - lower[name])[gaps].mean() / (2.0 * half),
        }
    )
numbers = pd.DataFrame(lines).set_index("column")
print(numbers.round(3).to_string())
for name in ("sex", "occupation", "region"):
    gaps = hidden[name]
    wrong = (completed.table[name] != survey[name])[gaps].mean()
    mode = (survey[name][~gaps].mode()[0] != survey[name])[gaps].mean()
    print(f"{name:<10} wrong {wrong:.3f}, the most frequent value {mode:.3f}")
covered, width = numbers["covered"].mean(), numbers["width"].mean()
print(f"90 % intervals hold {covered:.1%} of the hidden numbers at {width:.0%} of the width")

axis = axes(xlabel="hidden answers, sorted by prediction", ylabel="per cent of films")
gaps = np.flatnonzero(hidden["Action"])
order = gaps[np.argsort(completed.table["Action"].to_numpy()[gaps])]
places = np.arange(order.size)
axis.vlines(places, lower["Action"][order], upper["Action"][order], color=OURS, alpha=0.35)
axis.plot(places, completed.table["Action"][order], color=OURS, label="mean and 90 % interval")
axis.plot(places, survey["Action"][order], ".", color=DATA, label="hidden answer: Action")
mean, sd = survey["Action"][~hidden["Action"]].agg(["mean", "std"])
for end in (-1.645, 1.645):
    axis.axhline(mean + end * sd, color=PLAIN, linestyle="--")
axis.legend(frameon=False)
save(axis, "survey")
# About 2,000 hidden numbers: the standard error of the coverage is 0.7 points.
assert 0.87 < covered < 0.94
assert width < 0.85
