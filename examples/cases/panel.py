"""A panel with effects.

Question: what would a firm's returns have been after a date?

Data: monthly prices of eight firms and two indices, 1990 to 2022, which come with matplotlib
(Stocks.csv; source Yahoo Finance). Two firms were listed later, so gaps are part of the data. For
each firm and each of five dates the 24 months after the date are hidden, as if an event had
changed them; the true returns show how good the counterfactual is. Athey and others (2021) tested
their method on stock returns in this way.

Model: MC-NNM, unpenalised effects of months and of firms plus a low-rank matrix. Plain
alternatives: no change (0), both effects alone, and a ridge regression of the firm on the others
in the months before.
"""

import matplotlib.cbook
import numpy as np
import pandas as pd
from common import DATA, OURS, PLAIN, axes, save
from sklearn.linear_model import RidgeCV

import mcframe as mc
from mcframe.selection import RelativeError

prices = pd.read_csv(
    matplotlib.cbook.get_sample_data("Stocks.csv"), comment="#", index_col="Date", parse_dates=True
)
prices = prices[prices.index.day == 1]
returns = 100.0 * np.log(prices).diff().iloc[1:]  # per cent a month
firms = [name for name in returns if not name.startswith("^")]
DATES = pd.to_datetime(["2000-01-01", "2004-01-01", "2008-01-01", "2014-01-01", "2019-01-01"])
MONTHS = 24


def panel_model(weight):
    """Effects of months (rows) and of firms (columns), and a low-rank matrix of this weight."""
    block = mc.Block("r", mc.Gaussian(), bias=True, row_effects=True)
    return mc.Model([block], [mc.NuclearNorm(weight)])


def completed(panel, weight):
    """The predicted returns of the whole panel."""
    return mc.fit(panel_model(weight), {"r": panel}).predict("r")


def regression(panel, firm):
    """Predictions of the firm by a ridge regression on the others, whose gaps count as 0."""
    others, known = panel.drop(columns=firm).fillna(0.0), panel[firm].notna()
    fitted = RidgeCV(np.logspace(0, 5, 11)).fit(others[known], panel[firm][known])
    return pd.Series(fitted.predict(others), panel.index)


# The weight is chosen once, on the months before the first date, by randomly held-out entries.
early = returns.loc[returns.index < DATES[0], returns.notna().sum() > 290]
chosen = mc.cross_validate(
    panel_model(1.0),
    {"r": early},
    criterion=RelativeError("r"),
    weights=mc.selection.Grid(count=12, ratio=0.05),
)
print(chosen)
weight = chosen.best_weight
no_z = 10.0 * mc.weight_max(panel_model(1.0), {"r": returns})  # at which Z is 0

squares, example = [], None
for firm in firms:
    for date in DATES:
        before, after = returns.index < date, (returns.index >= date)
        after &= np.cumsum(after) <= MONTHS
        listed = returns.loc[before].notna().sum() >= 60  # months to learn from
        if not listed[firm]:
            continue
        panel = returns.loc[before | after, listed].copy()
        panel.loc[after[: len(panel)], firm] = np.nan
        truth = returns.loc[after, firm]
        found = {
            "no change": 0.0 * truth,
            "effects alone": completed(panel, no_z)[firm],
            "ridge regression": regression(panel, firm),
            "effects and low rank": completed(panel, weight)[firm],
        }
        squares.append(
            {k: np.mean((v.reindex(truth.index) - truth) ** 2) for k, v in found.items()}
        )
        if (firm, date) == ("IBM", DATES[2]):
            example = truth, found
error = np.sqrt(pd.DataFrame(squares).mean())
print(f"{len(squares)} pairs of firm and date; root mean square error, per cent a month:")
print(error.round(2).to_string())

truth, found = example
axis = axes(ylabel="sum of monthly returns of IBM, per cent")
axis.plot(truth.cumsum(), color=DATA, label="true, hidden from the fits")
for name, colour in (("effects and low rank", OURS), ("ridge regression", PLAIN)):
    axis.plot(found[name].reindex(truth.index).cumsum(), color=colour, label=name)
axis.legend(frameon=False)
axis.tick_params(axis="x", rotation=30)
save(axis, "panel")
# 744 hidden returns: two models that share the market's effect may tie, but both must see it.
assert error["effects and low rank"] < 0.9 * error["no change"]
assert error["effects and low rank"] < 1.03 * error["ridge regression"]
