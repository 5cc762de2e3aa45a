"""Ways to fill a table of numbers, categories and levels: mcframe, its peers, and constants.

Each takes a DataFrame with holes and returns one without them. Peers have the best of the settings
that were tried on the tables used in development, which are said with each. Needs numpy and pandas
alone at import, so that it runs in the interpreter of any peer.
"""

import os
import sys
import types
import warnings

import numpy as np
import pandas as pd

__all__ = ["METHODS", "Imputer", "method"]

# Columns of at most so many values are levels to gcimpute. Its own rule fails on some columns.
MOST_LEVELS = 20


class Imputer:
    """A way to fill a table."""

    name = ""
    package = "sklearn"  # what has to be importable, and the NAME in --python NAME=PATH
    ours = False  # kept from the tables set aside until it is finished
    note = ""

    def filled(self, frame):
        """The table without holes."""
        raise NotImplementedError

    def warm_up(self, frame):
        """Import and compile what it needs."""
        self.filled(frame)


class Forests(Imputer):
    """A way that grows many trees, and warms up with one."""

    def __init__(self, n_trees):
        self.n_trees = n_trees

    def warm_up(self, frame):
        """Import what it needs."""
        type(self)(1).filled(frame)


class Design:
    """A table as a matrix: numbers and levels in standard units, a column of 0 and 1 a category.

    Of two categories the second has a column, of more each one; of one none has.
    """

    def __init__(self, frame, standardized=True):
        self.frame = frame
        self.parts, columns = [], []
        for name in frame:
            made, part = coded(frame[name], standardized)
            self.parts.append(part)
            columns.append(made)
        self.matrix = np.hstack(columns)

    def back(self, matrix):
        """The table with its holes filled by a matrix of the same columns."""
        filled, first = {}, 0
        for (name, series), (width, decoded) in zip(self.frame.items(), self.parts, strict=True):
            filled[name] = with_holes_filled(series, decoded(matrix[:, first : first + width]))
            first += width
        return pd.DataFrame(filled)


def coded(series, standardized):
    """The columns of one column, their number and the way back from them."""
    if not isinstance(series.dtype, pd.CategoricalDtype):
        values = series.to_numpy(float)
        centre, spread = centre_and_spread(values) if standardized else (0.0, 1.0)
        column = (values - centre) / spread
        return column[:, None], (1, lambda part: part[:, 0] * spread + centre)
    values = series.cat.codes.to_numpy(float)
    values[values < 0] = np.nan
    categories = np.asarray(series.cat.categories, dtype=object)
    if series.cat.ordered:
        centre, spread = centre_and_spread(values) if standardized else (0.0, 1.0)
        lowest, highest = np.nanmin(values), np.nanmax(values)

        def level(part):
            found = np.clip(np.round(part[:, 0] * spread + centre), lowest, highest)
            return categories[found.astype(int)]

        return ((values - centre) / spread)[:, None], (1, level)
    if categories.size == 1:
        return np.zeros((len(series), 0)), (0, lambda part: np.repeat(categories, len(part)))
    if categories.size == 2:
        return values[:, None], (1, lambda part: categories[(part[:, 0] > 0.5).astype(int)])
    one_hot = (values[:, None] == np.arange(categories.size)).astype(float)
    one_hot[np.isnan(values)] = np.nan
    return one_hot, (categories.size, lambda part: categories[np.argmax(part, axis=1)])


def centre_and_spread(values):
    """The mean and the standard deviation of what is observed, 1 where that is 0."""
    return np.nanmean(values), np.nanstd(values) or 1.0


def with_holes_filled(series, values):
    """A column with values where it had holes, of its dtype."""
    whole = np.where(series.isna(), values, series.to_numpy(dtype=object))
    return pd.Series(whole, index=series.index).astype(series.dtype)


class Constant(Imputer):
    """The mean of numbers, the median of levels, the mode of categories."""

    name = "mean and mode"
    package = "pandas"

    def filled(self, frame):
        """What the scores are measured by."""
        return pd.DataFrame(
            {name: series.fillna(best_constant(series)) for name, series in frame.items()}
        )


def best_constant(series):
    """The mean, the lower median or the mode of what is observed."""
    if not isinstance(series.dtype, pd.CategoricalDtype):
        return series.mean()
    if series.cat.ordered:
        codes = series.cat.codes[series.notna()]
        return series.cat.categories[int(codes.quantile(0.5, interpolation="lower"))]
    return series.mode().iloc[0]


class Neighbours(Imputer):
    """scikit-learn's nearest neighbours in the design, as many as fill a tenth best."""

    name = "KNNImputer"
    note = "standardised, one-hot; k of 3, 5, 10, 20 by a tenth of the entries"

    def filled(self, frame):
        """k is chosen, then all entries are used."""
        from sklearn.impute import KNNImputer

        design = Design(frame)
        seen = np.argwhere(~np.isnan(design.matrix))
        chosen = seen[np.random.default_rng(0).random(len(seen)) < 0.1]
        checked = tuple(chosen.T)
        less = design.matrix.copy()
        less[checked] = np.nan
        errors = {}
        for k in (3, 5, 10, 20):
            found = KNNImputer(n_neighbors=k, keep_empty_features=True).fit_transform(less)
            errors[k] = np.mean((found[checked] - design.matrix[checked]) ** 2)
        best = min(errors, key=errors.get)
        return design.back(KNNImputer(n_neighbors=best).fit_transform(design.matrix))


class Iterative(Imputer):
    """scikit-learn's chained regressions in the design, with their defaults."""

    name = "IterativeImputer"
    note = "BayesianRidge, the default; standardised, one-hot"

    def estimator(self):
        """What predicts a column from the others."""
        return

    def filled(self, frame):
        """Ten rounds at most."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        design = Design(frame)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            imputer = IterativeImputer(self.estimator(), random_state=0)
            return design.back(imputer.fit_transform(design.matrix))


class IterativeForest(Forests, Iterative):
    """The same with forests, which look at a third of the columns for a split."""

    name = "IterativeImputer, forests"
    note = "RandomForestRegressor, 50 trees; standardised, one-hot"

    def estimator(self):
        """A forest."""
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(self.n_trees, max_features=1 / 3, random_state=0)


class IterativeBoosting(Iterative):
    """Chained regressions by boosted trees.

    On five of the tables used in development the mean score, of which less is better, was .592;
    with three other sizes of trees .594 to .608, and with the defaults .615.
    """

    name = "IterativeImputer, boosting"
    note = "HistGradientBoostingRegressor, 100 trees of 6 leaves; standardised, one-hot"

    def estimator(self):
        """Trees one after the other."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor(
            learning_rate=0.05,
            max_iter=100,
            max_leaf_nodes=6,
            min_samples_leaf=10,
            random_state=0,
        )


class MissForest(Forests):
    """Stekhoven and Bühlmann (2012), by scikit-learn's forests.

    Columns from the one with the fewest holes on, a forest each: a classifier for
    categories, a regressor for numbers and levels, on the others one-hot; round after round until
    the answer moves more than in the round before, ten at most.
    """

    name = "missForest"
    note = "by scikit-learn's forests of 100 trees"

    def filled(self, frame):
        """The round before the one that moves more again."""
        answer, moved = Constant().filled(frame), None
        order = frame.isna().sum().sort_values(kind="stable").index
        for _ in range(10):
            after = self.one_round(frame, answer, order)
            moves = movement(answer, after)
            if moved is not None and all(
                new >= old for new, old in zip(moves, moved, strict=True)
            ):
                return answer
            answer, moved = after, moves
        return answer

    def one_round(self, frame, answer, order):
        """Each column with holes predicted anew."""
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        answer = answer.copy()
        for name in order:
            series, missing = frame[name], frame[name].isna().to_numpy()
            if not missing.any():
                continue
            others = Design(answer.drop(columns=[name])).matrix
            kind = isinstance(series.dtype, pd.CategoricalDtype) and not series.cat.ordered
            forest = RandomForestClassifier if kind else RandomForestRegressor
            forest = forest(self.n_trees, max_features="sqrt", random_state=0)
            target = series if not hasattr(series, "cat") else series.cat.codes
            found = np.full(len(frame), np.nan)
            forest.fit(others[~missing], target[~missing].to_numpy())
            found[missing] = forest.predict(others[missing])
            if hasattr(series, "cat"):
                places = np.nan_to_num(np.round(found)).astype(int)
                found = np.asarray(series.cat.categories, dtype=object)[places]
            answer[name] = with_holes_filled(series, found)
        return answer


def movement(before, after):
    """How far numbers moved, relative to their squares, and how many categories changed."""
    numbers = before.select_dtypes("number").columns
    apart = ((after[numbers] - before[numbers]) ** 2).to_numpy().sum()
    others = before.columns.difference(numbers)
    changed = (after[others].astype(object) != before[others].astype(object)).to_numpy().sum()
    size = (after[numbers] ** 2).to_numpy().sum()
    return (apart / size if size else 0.0), changed


class MiceForest(Imputer):
    """Chained LightGBM without mean matching: five data sets of five rounds, averaged.

    Predictions are better by it: on three tables of those used in development the mean score was
    .542 with, .531 without, and .520 with leaves of 5 rows for 20. Below 100 rows it diverges, and
    the defaults are better.
    """

    name = "miceforest"
    package = "miceforest"
    note = "mean, mode of 5 data sets; no mean matching, leaves of 5; defaults below 100 rows"

    def filled(self, frame):
        """Levels as numbers, which are rounded."""
        import miceforest

        levels = {n: s for n, s in frame.items() if hasattr(s, "cat") and s.cat.ordered}
        given = frame.copy()
        for name, series in levels.items():
            given[name] = codes_or_numbers(series)
        # LightGBM takes no names with signs of JSON.
        given.columns = [f"c{k}" for k in range(given.shape[1])]
        candidates, leaf = (5, 20) if len(frame) < 100 else (0, 5)
        kernel = miceforest.ImputationKernel(
            given, num_datasets=5, mean_match_candidates=candidates, random_state=0
        )
        kernel.mice(5, verbose=False, num_threads=1, min_data_in_leaf=leaf)
        drawn = [kernel.complete_data(k) for k in range(5)]
        answer = {}
        for place, (name, series) in enumerate(frame.items()):
            columns = pd.concat([each.iloc[:, place].astype(object) for each in drawn], axis=1)
            if hasattr(series, "cat") and name not in levels:
                values = columns.mode(axis=1).iloc[:, 0]
            else:
                values = columns.astype(float).mean(axis=1)
            if name in levels:
                places = np.round(values.to_numpy(float)).astype(int)
                values = np.asarray(series.cat.categories, dtype=object)[places]
            answer[name] = with_holes_filled(series, np.asarray(values))
        return pd.DataFrame(answer)


class Copula(Imputer):
    """The Gaussian copula of Zhao and Udell (2020); categories one-hot."""

    name = "gcimpute"
    package = "gcimpute"
    note = "columns of at most 20 values as levels; one-hot"

    def filled(self, frame):
        """Numbers and levels by the copula, and the category farthest above its threshold.

        One-hot columns without that of the most frequent category, since a copula of columns that
        add up to 1 breaks down. Its own answers for the others are 0 and 1, often several or none
        of a row, so that its latent means decide; the most frequent one has none above 0.
        """
        from gcimpute.gaussian_copula import GaussianCopula
        from scipy.stats import norm

        design = Design(frame, standardized=False)  # ranks alone count
        widths = [width for width, _ in design.parts]
        several = np.repeat([width > 1 for width in widths], widths)
        shares = np.nanmean(design.matrix, axis=0)
        kept = np.ones(shares.size, dtype=bool)
        for start, width in zip(np.cumsum(widths) - widths, widths, strict=True):
            if width > 1:
                kept[start + np.argmax(shares[start : start + width])] = False
        copula = GaussianCopula(verbose=0)
        found = np.zeros(design.matrix.shape)
        given = design.matrix[:, kept]
        n_values = np.array([np.unique(column[~np.isnan(column)]).size for column in given.T])
        kinds = {"continuous": n_values > MOST_LEVELS, "ordinal": n_values <= MOST_LEVELS}
        declared = {kind: np.flatnonzero(at) for kind, at in kinds.items() if at.any()}
        found[:, kept] = copula.fit_transform(given, **declared)
        latent = np.zeros(design.matrix.shape)
        latent[:, kept] = copula._latent_Zimp
        above = several & kept
        found[:, above] = latent[:, above] - norm.ppf(1.0 - shares[above])
        return design.back(found)


class HyperImpute(Imputer):
    """Jarrett et al. (2022), with its defaults: a model of its choice for each column.

    Categories are their codes, as it codes them itself. On two tables of those used in development
    the score of categories was .32 and 1.00 with codes, .34 and 1.19 with all of them one-hot, .32
    and 1.54 with those of four values or more one-hot. Torch is for neural networks alone, which
    it tries where there is a GPU: an empty module stands in where torch is absent.
    """

    name = "HyperImpute"
    package = "hyperimpute"
    note = "defaults, categories and levels as codes; seed 0 and 30 % alone"

    def filled(self, frame):
        """Codes that are rounded, within those that occur."""
        # Its processor time is that of one process.
        os.environ["LOKY_MAX_CPU_COUNT"] = "1"
        try:
            import torch  # noqa: F401
        except ImportError:
            sys.modules["torch"] = torch_without_networks()
        coded = {name: codes_or_numbers(series) for name, series in frame.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from hyperimpute.plugins.imputers import Imputers

            imputer = Imputers().get("hyperimpute", random_state=0)
            matrix = np.asarray(imputer.fit_transform(pd.DataFrame(coded)), dtype=float)
        answer = {}
        for (name, series), values in zip(frame.items(), matrix.T, strict=True):
            if hasattr(series, "cat"):
                places = np.round(np.clip(values, 0, len(series.cat.categories) - 1)).astype(int)
                values = np.asarray(series.cat.categories, dtype=object)[places]
            answer[name] = with_holes_filled(series, values)
        return pd.DataFrame(answer)


def codes_or_numbers(series):
    """A column as numbers, of categories and levels their codes."""
    if not hasattr(series, "cat"):
        return series.astype(float)
    return series.cat.codes.astype(float).where(series.notna())


def torch_without_networks():
    """A module that has what HyperImpute uses of torch where there is no GPU."""
    module = types.ModuleType("torch")
    module.cuda = types.SimpleNamespace(is_available=lambda: False)
    module.manual_seed = lambda seed: None
    return module


class Complete(Imputer):
    """``mc.complete`` with its defaults."""

    name = "mc.complete"
    package = "mcframe"
    ours = True
    options = types.MappingProxyType({})

    def filled(self, frame):
        """One line."""
        return completed(frame, **self.options).table


class CompleteWithoutTrees(Complete):
    """The same without its correction by trees."""

    name = "mc.complete, nonlinear=False"
    options = types.MappingProxyType({"nonlinear": False})


def completed(frame, **options):
    """What ``mc.complete`` returns."""
    import mcframe as mc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        return mc.complete(frame, **options)


METHODS = (
    Complete(),
    CompleteWithoutTrees(),
    Constant(),
    Neighbours(),
    Iterative(),
    IterativeForest(50),
    IterativeBoosting(),
    MissForest(100),
    MiceForest(),
    Copula(),
    HyperImpute(),
)


def method(name):
    """The method of this name."""
    return next(m for m in METHODS if m.name == name)
