"""Formulas of regressions, draws that keep their terms, and their pooled coefficients."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import mcframe as mc
from mcframe.tables.formula_terms import Formula
from mcframe.tables.regression import fitted


def frame_of(seed=0, n=200):
    """Numbers, a category, a label and dates, without gaps; y follows a square and a product."""
    rng = np.random.default_rng(seed)
    x1, x2, noise = rng.standard_normal((3, n))
    town = rng.choice(["a", "b", "c"], n)
    return pd.DataFrame(
        {
            "x1": x1,
            "x2": 2.0 + 0.5 * x1 + x2,
            "a b": rng.exponential(size=n),
            "town": town,
            "open": rng.random(n) < 0.4,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 90, n), "D"),
            "y": 1.0 + x1 + 0.7 * x1**2 + 0.5 * x1 * x2 + (town == "b") + noise,
        }
    )


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        ("y ~ x1 + I(x1**2) + x1:x2", ["Intercept", "x1", "I(x1 ** 2)", "x1:x2"]),
        ("y ~ x1 + x1**2", ["Intercept", "x1", "I(x1 ** 2)"]),
        ("y ~ `a b`^2 - 1", ["I(`a b` ** 2)"]),
        ("y ~ 0 + log(x1**2)", ["log(x1 ** 2)"]),
        ("y ~ (x1 + x2)**2", ["Intercept", "x1", "x2", "x1:x2"]),
        ("y ~ Q('a b') + x1:open", ["Intercept", "a b", "x1:open"]),
        ("open ~ sqrt(abs(x1)) + day", ["Intercept", "sqrt(abs(x1))", "day"]),
        ("y ~ poly(x1, 2)", ["Intercept", "poly(x1, 2)[1]", "poly(x1, 2)[2]"]),
        ("y ~ 1", ["Intercept"]),
        ("y ~ x1 + I(x1^2)", ["Intercept", "x1", "I(x1 ** 2)"]),
        ("y ~ sqrt(abs(x1))^2", ["Intercept", "I(sqrt(abs(x1)) ** 2)"]),
        ("y ~ I(exp(x1)^-0.5)", ["Intercept", "I(exp(x1) ** (-0.5))"]),
        ("y ~ as.factor(town)", ["Intercept", "C(town)[T.b]", "C(town)[T.c]"]),
        ("y ~ numpy.sin(x1) + log1p(`a b`)", ["Intercept", "numpy.sin(x1)", "log1p(`a b`)"]),
    ],
)
def test_formulas_have_the_terms_that_they_name(formula, names):
    read = Formula.of(formula)
    assert fitted(read, frame_of()).names == names


@pytest.mark.parametrize(
    ("formula", "columns"),
    [
        ("y ~ x1 + town + C(town)", []),
        ("y ~ x1 + np.log(x2)*town", [("x2",), ("x2", "town")]),
        ("y ~ bs(x2, df=4) + I(`a b` * x1)", [("x2",), ("x1", "a b")]),
    ],
)
def test_further_terms_are_those_that_are_no_column(formula, columns):
    assert [term.columns for term in Formula.of(formula).further_terms] == columns


def test_coefficients_are_those_of_least_squares():
    frame = frame_of()
    x1, x2 = frame["x1"], frame["x2"]
    design = np.column_stack([np.ones(200), x1, x1**2, frame["open"], x1 * x2])
    fit = fitted(Formula.of("y ~ x1 + x1**2 + x1:x2 + open"), frame)
    names, found, squares, n_rows = (
        fit.names,
        fit.coefficients,
        np.diag(fit.covariance),
        fit.n_rows,
    )
    expected, [rest], *_ = np.linalg.lstsq(design, frame["y"], rcond=None)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    inverse = np.linalg.inv(design.T @ design)
    np.testing.assert_allclose(squares, rest / 195 * np.diag(inverse), rtol=1e-9)
    assert (len(names), n_rows) == (5, 200)


def test_a_label_has_a_logistic_regression():
    frame = frame_of()
    formula = Formula.of("open ~ x1 + town")
    fit = fitted(formula, frame)
    found, squares = fit.coefficients, np.diag(fit.covariance)
    design = np.column_stack(
        [np.ones(200), frame["x1"], frame["town"] == "b", frame["town"] == "c"]
    )
    p = 1.0 / (1.0 + np.exp(-design @ found))
    np.testing.assert_allclose(design.T @ (frame["open"] - p), 0.0, atol=1e-8)
    information = (design.T * (p * (1.0 - p))) @ design
    np.testing.assert_allclose(squares, np.diag(np.linalg.inv(information)), rtol=1e-9)
    words = frame.assign(open=np.where(frame["open"], "yes", "no"))
    np.testing.assert_allclose(fitted(formula, words).coefficients, found, rtol=1e-9)


def test_a_table_of_any_library_has_the_same_coefficients():
    frame = frame_of()
    formula = Formula.of("y ~ x1 + x1**2 + town + open + day")
    fit = fitted(formula, frame)
    names, found = fit.names, fit.coefficients
    for table in (pl.from_pandas(frame), pl.from_pandas(frame).to_arrow()):
        other = fitted(formula, table)
        other_names, others = other.names, other.coefficients
        assert other_names == names
        np.testing.assert_allclose(others, found, rtol=1e-9)


@pytest.mark.parametrize(
    ("formula", "error", "message"),
    [
        ("y ~", mc.ModelError, "an outcome, '~' and terms are needed"),
        ("x1 + x2", mc.ModelError, "an outcome, '~' and terms are needed"),
        ("y ~ x1 +", mc.ModelError, "cannot be read"),
        ("y ~ I(x1**2", mc.ModelError, "cannot be read"),
        ("log(y) ~ x1", mc.ModelError, "has to be a column"),
        ("y + x1 ~ x2", mc.ModelError, "has to be a column"),
        ("y ~ x3", mc.ModelError, "names 'x3', which is no column; the columns are"),
        ("y ~ I(x3**2)", mc.ModelError, "names 'x3', which is no column"),
        ("y ~ I(2**3)", mc.ModelError, "names no column"),
        ("y ~ unknown(x1)", mc.ModelError, "calls 'unknown', which is not known; known are C, "),
        ("y ~ x1 + offset(x2)", mc.ModelError, "no offset; make the outcome less the offset"),
        ("y ~ foo.if(x1)", mc.ModelError, "cannot be read: invalid syntax"),
        ("y ~ x1.pow(2)", mc.ModelError, "has a method or an attribute; call a function"),
        ("y ~ x1 | town", mc.ModelError, r"parts that are separated by '\|'; give one part"),
        ("y ~ .", mc.ModelError, "'.' would be all other columns; name those"),
        ("y ~ 0", mc.ModelError, "has no terms; '1' is the intercept"),
        ("y ~ x1 + log(y)", mc.ModelError, "the outcome 'y' stands in a term, too"),
        ("y ~ town**2", mc.ModelError, "of categories, as 'town', take the values, as in C"),
        ("y ~ log(x1)", mc.DataError, "is not finite in every row"),
        ("town ~ x1", mc.ModelError, "more than two categories"),
        ("y ~ x1 + I(2 * x1)", mc.DataError, "are not determined"),
    ],
)
def test_wrong_formulas_are_named(formula, error, message):
    with pytest.raises(error, match=message):
        fitted(Formula.of(formula), frame_of())


def holes(frame, seed, share=0.3):
    """The table with gaps in y and x1."""
    rng = np.random.default_rng(seed)
    hidden = {name: frame[name].mask(rng.random(len(frame)) < share) for name in ("y", "x1")}
    return frame.assign(**hidden)[["x1", "x2", "town", "y"]]


@pytest.mark.slow(seconds=6)
def test_draws_stay_where_a_term_is_defined():
    """Draws of ages reach below the observed ones, where the logarithm has no value."""
    rng = np.random.default_rng(0)
    age = rng.normal(45.0, 18.0, 200).clip(18.0)
    pay = 2.0 * np.log(age - 17.0) + 0.3 * rng.standard_normal(200)
    hidden = rng.random(200)
    columns = {
        "age": np.where(hidden < 0.3, np.nan, age),
        "pay": np.where(hidden > 0.8, np.nan, pay),
    }
    completed = mc.complete(pd.DataFrame(columns))
    assert min(draw["age"].min() for draw in completed.draws(20)) < 17.0
    lower, upper = mc.pool.formula("pay ~ log(age - 17)", completed).interval(0.99)
    assert lower[1] < 2.0 < upper[1]
    drawn = completed.draws(5, terms=["log(age - 17)"])
    assert min(draw["age"].min() for draw in drawn) > 17.0


def test_draws_keep_the_terms_of_a_formula():
    """Without them the coefficients of the square and the product are drawn towards 0."""
    frame = holes(frame_of(n=400), 1)
    completed = mc.complete(frame)
    formula = "y ~ x1 + I(x1**2) + x1:x2 + town"
    pooled = mc.pool.formula(formula, completed, 10)
    assert pooled.names[2:4] == ("I(x1 ** 2)", "town[T.b]")
    assert pooled.names[-1] == "x1:x2"
    estimates = dict(zip(pooled.names, pooled.estimate, strict=True))
    assert abs(estimates["I(x1 ** 2)"] - 0.45) < 0.25  # x2 has 2 + x1 / 2 in it
    with pytest.warns(UserWarning, match="are biased towards 0: the tables were drawn without"):
        plain = mc.pool.formula(formula, completed.draws(10))
    others = dict(zip(plain.names, plain.estimate, strict=True))
    assert others["I(x1 ** 2)"] < estimates["I(x1 ** 2)"]
    drawn = completed.draws(10, terms=["x1**2", "x1:x2"])  # no warning: the terms are kept
    again = mc.pool.formula(formula, drawn)
    np.testing.assert_allclose(again.estimate, pooled.estimate, atol=0.3)
    for table in drawn:
        seen = ~frame["y"].isna()
        np.testing.assert_array_equal(table["y"][seen], frame["y"][seen])
        assert not table.isna().to_numpy().any()


@pytest.fixture(scope="module")
def completed_numbers():
    return mc.complete(holes(frame_of(), 1)[["x1", "x2", "y"]])


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([], "texts such as"),
        ([3], "texts such as"),
        ([""], "texts such as"),
        (["x9**2"], "names 'x9', which is no column"),
        (["x1:x2:y"], "none is left to be explained"),
    ],
)
def test_wrong_terms_are_named(terms, message, completed_numbers):
    with pytest.raises(mc.ModelError, match=message):
        completed_numbers.draws(2, terms=terms)


@pytest.mark.slow
def test_pooled_coefficients_of_squares_and_products_are_covered():
    """95 % intervals, with gaps in y and x1 that depend on x2, over tables of known truth."""
    truth = {"Intercept": 1.0, "x1": 1.0, "x2": -0.5, "I(x1 ** 2)": 0.7, "x1:x2": 0.5}
    covered = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x1, noise, other = rng.standard_normal((3, 200))
        x2 = 0.5 * x1 + other
        y = 1.0 + x1 - 0.5 * x2 + 0.7 * x1**2 + 0.5 * x1 * x2 + noise
        p = 1.0 / (1.0 + np.exp(1.0 - x2))
        frame = pd.DataFrame({"x1": x1, "x2": x2, "y": y})
        frame["y"] = frame["y"].mask(rng.random(200) < p)
        frame["x1"] = frame["x1"].mask(rng.random(200) < 0.5 * p)
        pooled = mc.pool.formula("y ~ x1 + x2 + I(x1**2) + x1:x2", mc.complete(frame))
        lower, upper = pooled.interval()
        values = np.array([truth[name] for name in pooled.names])
        covered.append((lower <= values) & (values <= upper))
    shares = np.mean(covered, axis=0)
    assert np.all(shares > 0.88), shares  # .95 less three Monte Carlo errors
    assert np.mean(shares) > 0.92


def test_swapped_arguments_are_one_error():
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0, 3.0], "y": [2.0, 1.0, np.nan, 4.0]})
    with pytest.raises(mc.ModelError, match="a text such as 'y ~ x1' is needed"):
        mc.pool.formula(mc.complete(frame), "y ~ x")


@pytest.mark.parametrize("given", [frame_of(), "frame_of()", None, 3, frame_of().to_numpy()])
def test_what_is_no_completed_table_has_a_message_that_says_how(given):
    with pytest.raises(mc.McframeError, match=r"was given.*(mc\.complete\(frame\)|DataFrame)"):
        mc.pool.formula("y ~ x1", given)
    with pytest.raises(mc.DataError, match=r"missing values; give tables that completed\.draws"):
        mc.pool.formula("y ~ x1", [frame_of().assign(x1=np.nan)] * 2)


@pytest.fixture(scope="module")
def completed_categories():
    frame = frame_of(n=120).drop(columns=["day", "a b"])
    frame.loc[::3, "y"] = np.nan
    frame["open"] = frame["open"].astype("boolean").mask(np.arange(120) % 5 == 1)
    return mc.complete(frame)


@pytest.mark.parametrize(
    "term", ["C(town, Treatment('b')):x1", "I(town == 'b'):x1", "open**2:x1", "I(x1^2):town"]
)
def test_terms_name_values_of_categories_in_draws_as_in_tables(term, completed_categories):
    """What a formula may be asked of a list of tables it may be asked of a completion."""
    completed = completed_categories
    pooled = mc.pool.formula(f"y ~ x1 + {term}", completed, m=2)
    tables = completed.draws(2, terms=[term])
    again = mc.pool.formula(f"y ~ x1 + {term}", tables)
    assert pooled.names == again.names
