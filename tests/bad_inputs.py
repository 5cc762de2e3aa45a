"""Wrong and unusual inputs by verb; ``docs/mistakes-list.md`` has the names that they use.

A text alone raises an error of the package. A pair is an answer: its code is true, and its
sentence says what the answer means. ``python -m tests.bad_inputs`` writes the page again.
"""

import os
import re
import tempfile
import warnings
from pathlib import Path

import mcframe as mc
from mcframe.contracts import errors

DATA = [
    'fit("table.csv")',
    "fit(None)",
    "fit(3.0)",
    "fit(row for row in x)",
    "fit({1.0, 2.0})",
    "fit([])",
    "fit(np.empty((0, 3)))",
    "fit(np.empty((4, 0)))",
    "fit([[1, 2], [3]])",
    "fit(x[None])",
    "fit(1j * x)",
    "fit(x.astype(str))",
    'fit([["low", 1], [2, 3]])',
    'fit(np.array([[b"1"], [b"2"]]))',
    "fit([[Decimal(1), {}], [2, 3]])",
    'fit(np.zeros(4, dtype=[("a", float), ("b", float)]))',
    'fit(np.arange("2020-01-01", "2020-01-05", dtype="datetime64[D]"))',
    'fit(np.ones((4, 3), "timedelta64[s]"))',
    "fit([[dt.date(2020, 1, 1)], [None]])",
    "fit(np.where(np.isnan(x), inf, x))",
    "fit(np.full((4, 3), nan))",
    "fit(np.ma.masked_all((4, 3)))",
    "fit([[10**400, 1], [2, 3]])",
    "fit(1e200 * x)",
    "fit(1e-200 * x)",
    ("same(x.astype(object))", "objects that are numbers are read as numbers"),
    ("same([[None, 1, Decimal(2)], *x[1:].tolist()])", "None is missing, a Decimal a number"),
    ("same(np.ma.masked_array(whole, np.isnan(x)))", "masked entries are missing"),
    ('same(x.astype(">f4"))', "the byte order and the precision of an array do not matter"),
    ("same(np.asfortranarray(x)[::-1][::-1])", "nor does its order in memory"),
    ("same(np.broadcast_to(x, x.shape))", "a read-only array is only read"),
    ("same(np.array(x, dtype=np.longdouble))", "a longer float is rounded to 64 bits"),
    ('fit(x[:, 1]).predict("x").shape == (4, 1)', "an array of one dimension is one column"),
    ('fit(x > 3).predict("x").max() <= 1.5', "truth values are the numbers 0 and 1"),
    (
        'fit(np.array([[2**64 - 1], [2**63]], dtype=np.uint64)).status == "certified"',
        "whole numbers beyond 2^53 are rounded to 64-bit floats",
    ),
    (
        'all(fit(u * x, terms=mc.NuclearNorm(u)).status == "certified" for u in (1e-100, 1e100))',
        "a table in any unit is fitted: its squares must not overflow or vanish",
    ),
    (
        'fit(np.vstack([x, np.full((1, 3), nan)])).predict("x")[4].tolist() == [0, 0, 0]',
        "a row without an observed entry is predicted as Z = 0, with a warning",
    ),
    (
        'fit(np.column_stack([x, np.full(4, nan)])).predict("x")[:, 3].tolist() == [0] * 4',
        "a column without an observed entry likewise",
    ),
]

FRAMES = [
    "fit(pd.DataFrame(x, columns=['a', 'a', 'b']))",
    'fit(pd.DataFrame({"a": ["1.5", "2.5"]}))',
    'fit(pd.DataFrame({"a": ["red", "blue"]}, dtype="category"))',
    'fit(pd.DataFrame({"a": ["x", 1.0]}))',
    'fit(pd.DataFrame({"day": pd.date_range("2020-01-01", periods=4)}))',
    'fit(pd.DataFrame({"day": pd.date_range("2020-01-01", periods=4, tz="Asia/Tokyo")}))',
    'fit(pd.DataFrame({"month": pd.period_range("2020-01", periods=4, freq="M")}))',
    'fit(pd.DataFrame({"a": pd.interval_range(0, 4)}))',
    "fit(pd.DataFrame(whole).astype(pd.SparseDtype(float, 0.0)))",
    "fit(pd.DataFrame({'a': [[1.0, 2.0], [3.0]]}))",
    "fit(pd.DataFrame(index=range(4)))",
    "fit(pl.DataFrame(whole).lazy())",
    'fit(pl.DataFrame({"a": ["1.5", "2.5"]}))',
    'fit(pl.DataFrame({"a": [dt.datetime(2020, 1, 1)]}))',
    'mc.fit(mc.Model([mc.Block("x", gaussian), mc.Block("y", gaussian)], term),'
    ' {"x": pd.DataFrame(x), "y": pd.DataFrame(x, index=[3, 2, 1, 0])})',
    ("same(pd.DataFrame(x).convert_dtypes())", "pandas.NA in nullable columns is missing"),
    ("same(pd.DataFrame(x).convert_dtypes(dtype_backend='pyarrow'))", "so is null in Arrow's"),
    ("same(pl.DataFrame(x).fill_nan(None))", "so is null in polars"),
    ("same(pa.Table.from_pandas(pd.DataFrame(x)))", "and in a table of pyarrow"),
    ("same(pd.DataFrame(x).astype(pd.SparseDtype(float, nan)))", "a sparse column of NaN is read"),
    (
        "same(pd.DataFrame(x, columns=pd.MultiIndex.from_product([['u'], names])))",
        "labels of columns may be tuples",
    ),
    ("same(pd.DataFrame(x, columns=['x', 'row', 'predicted']))", "no column name is reserved"),
    ("same(pd.DataFrame(x, columns=['', None, 0]))", "names may be anything"),
    ("same(pd.DataFrame(x, index=[0, 0, 0, 0]))", "row labels may repeat"),
]

SPARSE = [
    "fit(sp.coo_array(np.ones(3)))",
    "fit(sp.coo_array((np.ones(2), ([0, 0], [1, 1])), shape=(4, 3)))",
    "fit(sp.csr_array((4, 3)))",
    "fit(sp.csr_array((0, 3)))",
    "fit(sp.csr_array(1j * whole))",
    "fit(sp.csr_array(np.where(whole > 10, inf, whole)))",
    "fit(sp.bsr_array(np.tril(whole), blocksize=(2, 3)))",
    "fit(sp.dia_array((np.array([[1.0, 0.0, 2.0]]), [0]), (4, 3)))",
    "fit(broken)",
    (
        "fit(sp.csr_array(([0.0, 2.0], ([0, 1], [0, 1])), shape=(2, 2)))"
        '.problem.tables["x"].n_observed == 2',
        "a zero that is stored is observed, and what is not stored is missing",
    ),
    ("same(sp.lil_array(whole))", "every format is read"),
    ("same(sp.csr_array(x))", "a stored NaN is missing"),
]

VALUES = [
    "fit([[1, 2], [2, 1]], mc.Bernoulli())",
    "fit([[-1, 1], [1, -1]], mc.Bernoulli())",
    "fit([[0.5, 1], [1, 0]], mc.Bernoulli())",
    'fit([["yes"], ["no"]], mc.Bernoulli())',
    "fit([[1, 2], [2, 1]], mc.Hinge())",
    "fit([[-1.0], [2.0]], mc.Poisson())",
    "fit([[0.5], [2.0]], mc.Poisson())",
    "fit([[1.5], [2.0]], mc.NegativeBinomial(1.0))",
    "fit([[0.0], [2.0]], mc.Gamma())",
    "fit([[-1.0], [2.0]], mc.Exponential())",
    "fit([[0], [5]], mc.Ordinal(levels=5))",
    "fit([[1], [6]], mc.Ordinal(levels=5))",
    "fit([[1.5], [2]], mc.Ordinal(levels=5))",
    "fit([[0], [3]], mc.Multinomial(3))",
    "fit([[-1], [2]], mc.Multinomial(3))",
    "fit([[0.5], [2]], mc.Multinomial(3))",
    (
        "fit([[0], [1], [0]], mc.Multinomial(3)).predict('x')[0].argmax() == 0",
        "a class that no entry has is less likely than those that there are",
    ),
    (
        "fit([[1], [1], [1]], mc.Bernoulli()).predict('x').min() > 0.5",
        "labels that are all alike are fitted",
    ),
]

DICTS = [
    "mc.fit(model(), x)",
    "mc.fit(mc.declare(frame), x)",
    "mc.fit(model(), None)",
    'mc.fit(model(), [("x", x)])',
    "mc.fit(model(), {})",
    "mc.fit(model(), {0: x})",
    'mc.fit(model(), {"x": x, "y": x})',
    'mc.fit({"x": gaussian}, {"x": x})',
    'mc.fit("model", {"x": x})',
    'mc.fit(mc.Model([mc.Block("x", gaussian), mc.Block("y", gaussian)], term),'
    ' {"x": x, "y": x[:3]})',
]

OBSERVATIONS = [
    "with_weights(-1.0)",
    "with_weights(nan)",
    "with_weights(inf)",
    "with_weights(0.0)",
    "with_weights(1e308)",
    "with_weights(1j)",
    'with_weights("heavy")',
    "with_weights(np.ones(5))",
    "with_weights(np.ones((1, 4, 3)))",
    "with_weights([[1, 2], [3]])",
    "with_weights(sp.coo_array((np.ones(2), ([0, 0], [1, 1])), shape=(4, 3)))",
    "fit(mc.Observations(x[:3], weights=np.ones(3)))",
    "fit(mc.Observations(pd.DataFrame(x), weights=pd.DataFrame(whole, index=[3, 2, 1, 0])))",
    "fit(mc.Observations(x, offset=nan))",
    "fit(mc.Observations(x, offset=1e200))",
    "fit(mc.Observations(x, exposure=2.0))",
    "fit(mc.Observations(x, exposure=0.0), mc.Poisson())",
    "fit(mc.Observations(x, exposure=-1.0), mc.Poisson())",
    "fit(mc.Observations(x, exposure=inf), mc.Poisson())",
    "mc.Observations(x, offset=1.0, exposure=1.0)",
    "mc.Observations(mc.Observations(x))",
    "fit(mc.Observations(None))",
    "fit(mc.Observations(x, lower=0.0))",
    "fit(mc.Observations(x, lower=10.0), mc.Censored(mc.Gaussian()))",
    "fit(mc.Observations(x, upper=np.where(np.isnan(x), -inf, nan)), mc.Censored(mc.Gaussian()))",
    "fit(mc.Observations(x * nan, lower=2.0, upper=1.0), mc.Censored(mc.Gaussian()))",
    "fit(mc.Observations(x * nan, lower=1e200), mc.Censored(mc.Gaussian()))",
    'fit(mc.Observations(x * nan, lower="low"), mc.Censored(mc.Logistic()))',
    "fit(mc.Observations(x * nan, upper=np.ones(5)), mc.Censored(mc.Logistic()))",
    (
        'np.all(fit(mc.Observations(x * nan, lower=1.0), mc.Censored(mc.Logistic())).predict("x")'
        " > 0.5)",
        "limits may be all that is known",
    ),
    (
        "fit(mc.Observations(x, lower=nan), mc.Censored(mc.Gaussian())).objective =="
        " fit(x).objective",
        "NaN is no limit",
    ),
    "fit(mc.Observations(x, propensity=0.5))",
    "fit(likes, exposed)",
    "fit(mc.Observations(likes, propensity=0.0), exposed)",
    "fit(mc.Observations(likes, propensity=1.5), exposed)",
    "fit(mc.Observations(likes, propensity=-0.5), exposed)",
    "fit(mc.Observations(likes, propensity=nan), exposed)",
    "fit(mc.Observations(likes, propensity=np.ones(5)), exposed)",
    'fit(mc.Observations(likes, propensity="often"), exposed)',
    "fit(mc.Observations(likes, propensity=sp.coo_array((4, 3))), exposed)",
    (
        "fit(mc.Observations(likes, propensity=np.where(likes == 1, 0.5, nan)), exposed).objective"
        " == fit(mc.Observations(likes, propensity=0.5), exposed).objective",
        "only labels need a propensity",
    ),
    "mc.estimate_propensities(x)",
    "mc.estimate_propensities(likes, columns=-1)",
    "mc.estimate_propensities(likes, least=2)",
]

TRIPLES = [
    "mc.from_triples(row=[], column=[], value=[])",
    'mc.from_triples(row=["a"], column=["b", "c"], value=[1.0])',
    'mc.from_triples(row=["a", "a"], column=["b", "b"], value=[1.0, 2.0])',
    'mc.from_triples(row=["a"], column=["b"], value=["high"])',
    'mc.from_triples(row=["a"], column=["b"], value=[inf])',
    'mc.from_triples(row=["a"], column=["b"], value=[1j])',
    'mc.from_triples(row=[None], column=["b"], value=[1.0])',
    'mc.from_triples(row=[nan], column=["b"], value=[1.0])',
    'mc.from_triples(row=[["a"]], column=["b"], value=[1.0])',
    'mc.from_triples(row="ab", column="cd", value=[1.0, 2.0])',
    'mc.from_triples(row=3, column=["b"], value=[1.0])',
    'mc.from_triples(frame, row="who", column="kind", value="size")',
    'mc.from_triples(frame, row="kind", column="kind", value="size")',
    "mc.from_triples(x, row=0, column=1, value=2)",
    'mc.from_triples(row=["a"], column=["b"], value=[1.0], rows=["c"])',
    'mc.from_triples(row=["a"], column=["b"], value=[1.0], rows=["a", "a"])',
    'mc.from_triples(row=["a"], column=["b"], value=[1.0], duplicates="max")',
]

MODELS = [
    'mc.Block("", gaussian)',
    "mc.Block(3, gaussian)",
    'mc.Block("x", mc.Gaussian)',
    'mc.Block("x", "gaussian")',
    'mc.Block("x", None)',
    'mc.Block("x", gaussian, weight=0)',
    'mc.Block("x", gaussian, weight=-1)',
    'mc.Block("x", gaussian, weight=inf)',
    'mc.Block("x", gaussian, weight="1")',
    'mc.Block("x", gaussian, weight=True)',
    'mc.Block("x", gaussian, weight=[1.0, 2.0])',
    'mc.Block("x", gaussian, reduce="average")',
    'mc.Block("x", gaussian, bias="yes")',
    'mc.Block("x", gaussian, row_effects=1)',
    'mc.Block("x", gaussian, effects_weight=0.1)',
    'mc.Block("x", gaussian, standardize="rank")',
    'mc.Block("x", mc.Poisson(), standardize="robust")',
    'mc.Block("x", mc.Censored(gaussian), standardize="ranks")',
    'mc.Block("x", gaussian, bounds=(5, 1))',
    'mc.Block("x", gaussian, bounds=5)',
    'mc.Block("x", gaussian, bounds=(None, None))',
    'mc.Block("x", mc.Poisson(), bounds=(0, 5))',
    'mc.fit(mc.Model([mc.Block("x", gaussian, bounds=(1, 5))], term), {"x": x})',
    'mc.Block("x", mc.Ordinal(3), bias=True)',
    'mc.Block("x", mc.Multinomial(3), row_effects=True)',
    "mc.Model([], term)",
    "mc.Model(None, term)",
    'mc.Model({"x": gaussian}, term)',
    'mc.Model([mc.Block("x", gaussian), mc.Block("x", gaussian)], term)',
    'mc.Model([mc.Block("x", gaussian)])',
    'mc.Model([mc.Block("x", gaussian)], "nuclear")',
    'mc.Model([mc.Block("x", gaussian)], [mc.NuclearNorm])',
    'mc.Model([mc.Block("x", gaussian)], [0.1])',
    'mc.Model([mc.Block("x", gaussian)], [term, mc.NuclearNorm(2.0)])',
    'mc.Model([mc.Block("x", gaussian)], [term, mc.Box(0, 1, "y")])',
    "model(terms=[mc.Box(0, 1)])",
    "model(terms=[mc.NuclearNorm(1, count_share=0.5), mc.NuclearBall(1, count_share=0.2)])",
    (
        'mc.fit(mc.Model([mc.Block("1", gaussian), mc.Block("Z", gaussian)], [term,'
        ' mc.OnesColumn()]), {"1": x, "Z": x}).status == "certified"',
        "no name of a block is reserved",
    ),
    (
        'mc.load(mc.fit(mc.Model(mc.Block("a/../ü\\n", gaussian), term),'
        ' {"a/../ü\\n": x}).save("odd.npz")).model.blocks[0].name == "a/../ü\\n"',
        "no name is a path in a saved file",
    ),
    'mc.Model.from_json("nuclear")',
    "mc.Model.from_json(None)",
    "mc.Model.from_json('{\"model\": 1}')",
]

WORDS = [
    "mc.Gaussian(variance=0)",
    "mc.Gaussian(variance=nan)",
    'mc.Bernoulli("cauchit")',
    "mc.Bernoulli(scale=-1)",
    "mc.Huber(0)",
    "mc.Logistic(0)",
    "mc.Censored(mc.Huber())",
    "mc.Censored(mc.Gaussian)",
    "mc.Censored(mc.Gaussian(variance=None))",
    "mc.Quantile(1.5)",
    "mc.Gamma(shape=-2)",
    "mc.NegativeBinomial(dispersion=None)",
    "mc.Ordinal(levels=1)",
    "mc.Ordinal(3, thresholds=(1.0, 0.0))",
    "mc.Multinomial(1)",
    "mc.Multinomial(2.5)",
    "mc.RiskMixture(pn=0.5, pu=0.4, likelihood=mc.Bernoulli())",
    "mc.RiskMixture(pu=1.0, likelihood=mc.Poisson())",
    "mc.RiskMixture(pn=1.0, propensities=True, likelihood=mc.Bernoulli())",
    "mc.NuclearNorm(-0.1)",
    "mc.NuclearNorm(nan)",
    'mc.NuclearNorm("0.1")',
    "mc.NuclearNorm(np.array([1.0, 2.0]))",
    "mc.NuclearNorm(1j)",
    "mc.NuclearNorm(0.1, count_share=1)",
    "mc.NuclearBall(0)",
    "mc.MaxNorm(inf)",
    "mc.MaxNormBall(None)",
    "mc.Ridge(0)",
    "mc.Box(1, 0)",
    "mc.Box(nan, 1)",
    "mc.Box(-inf, inf)",
    'mc.Calibration("x", A=np.ones(4), B=np.ones((2, 3)))',
    'mc.Calibration("x", A=[[1, 1], [2, 2]], B=[[1], [3]])',
    'mc.Calibration("x", A=[nan], B=[1])',
    'mc.Calibration("x", A="ones", B=[1])',
    "mc.Calibration(None, A=[1], B=[1])",
    'mc.Calibration("x", A=[1], B=[1], of="totals")',
    'mc.RowRelation("x", A=np.ones(4), B=np.ones((2, 3)))',
    'mc.RowRelation("x", A=[[1, 1], [2, 2]], B=[1, 3])',
    'mc.RowRelation("x", A={})',
    'mc.RowRelation("x", A={"size": "one"})',
    'mc.RowRelation("x", A={"size": 1, "weight": [1, 2]})',
    'mc.RowRelation("x", A=[1, 1], columns=["size", "size"])',
    'mc.RowRelation("x", A=[1, 1], columns=["size"])',
    'mc.RowRelation(["x"], A={"x": {"size": 1}})',
    'mc.RowRelation(["x", "y"], A={"z": {"size": 1}})',
    "mc.GaussianRows([[1.0, 2.0], [2.0, 1.0]])",
    "mc.GaussianRows([[1.0, 0.5], [0.4, 1.0]])",
    "mc.GaussianRows(np.eye(2), mean=[nan, 0.0])",
    'mc.GaussianRows(components="many")',
    "mc.GaussianRows(groups=[1, 1])",
    "mc.GaussianRows(groups=['a', None])",
    "mc.GaussianRows(groups='school')",
    "mc.GaussianRows(components=2, groups=['a', 'b'])",
    "mc.GaussianRows(np.eye(2), groups=['a', 'b'])",
    "mc.GaussianRows(row_weights=[1.0, 0.0])",
    "mc.GaussianRows(row_weights=['a', 'b'])",
    "mc.GaussianRows(np.eye(2), row_weights=[1.0, 2.0])",
    "mc.GaussianRows(groups=['a', 'b'], row_weights=[1.0, 2.0])",
    'mc.posterior(model(terms=mc.GaussianRows(row_weights=[1.0, 2.0])), {"x": x})',
    "mc.posterior(model(terms=mc.GaussianRows(row_weights=[1, 2, 3, 4])), {'x': x},"
    " method='sampler')",
    "mc.posterior(model(mc.Logistic(), terms=mc.GaussianRows(row_weights=[1, 2, 3, 4])),"
    " {'x': x > 3})",
    'mc.posterior(model(terms=mc.GaussianRows(groups=["a", "b"])), {"x": x})',
    'mc.ResidualNuclearNorm("", 1.0)',
]

FITS = [
    "fit(x, tol=-1e-6)",
    "fit(x, tol=1.0)",
    "fit(x, tol=nan)",
    'fit(x, tol="1e-6")',
    "fit(x, tol=None)",
    "fit(x, max_iter=-1)",
    "fit(x, max_iter=1.5)",
    "fit(x, max_iter=inf)",
    "fit(x, max_seconds=0)",
    "fit(x, max_seconds=nan)",
    "fit(x, max_seconds=None)",
    'fit(x, backend="gurobi")',
    "fit(x, backend=None)",
    "fit(x, backend=mc.Proximal)",
    'fit(x > 3, mc.Hinge(), backend="fpc")',
    "fit(x, random_state=-1)",
    "fit(x, random_state=1.5)",
    'fit(x, random_state="seed")',
    (
        "fit(x, random_state=np.random.default_rng(0)).status == 'certified'",
        "a generator draws a seed, and moves on",
    ),
    "fit(x, n_jobs=0)",
    "fit(x, n_jobs=-2)",
    "fit(x, n_jobs=10**9)",
    'fit(x, n_jobs="all")',
    "fit(x, start=x)",
    "fit(x[:3], start=fitted)",
    "fit(x, start=fitted.compact())",
    'fit(x, callback="print")',
    "fit(x, progress=1)",
    "fit(x, checkpoint=3)",
    'fit(x, checkpoint="no-folder/fit.npz")',
    'fit(x, checkpoint="table.csv")',
    "fit(x, terms=mc.NuclearNorm())",
    "fit(x, terms=mc.GaussianRows())",
    "fit(x, terms=mc.GaussianRows(np.eye(2)))",
    'fit(x, terms=[term, mc.Calibration("x", A=np.ones(3), B=np.ones(3))])',
    'fit(x, terms=[term, mc.Calibration("x", A=np.ones(4), B=np.ones(2))])',
    'fit(x, mc.Poisson(), terms=[term, mc.Calibration("x", A=np.ones(4), B=np.ones(3))])',
    'fit(whole > 4, mc.Bernoulli(), terms=[term, mc.Calibration("x", np.ones(4), np.ones(3))])',
    'fit(x, terms=[term, mc.RowRelation("x", A=np.ones(4))])',
    'fit(x, terms=[term, mc.RowRelation("x", A=np.ones(3), B=np.ones(2))])',
    'fit(x, terms=[term, mc.RowRelation("x", A={"size": 1})])',
    'fit(x, mc.Poisson(), terms=[term, mc.RowRelation("x", A=np.ones(3))])',
    'fit(x, terms=[term, mc.Box(1, 2), mc.RowRelation("x", A=np.ones(3))])',
    "fit(x, terms=[mc.NuclearBall(0.1), mc.Box(1, 2)])",
    "fit(x, terms=[mc.MaxNormBall(0.1), mc.Box(1, 2)])",
    'fit(x, terms=[term, mc.Box(1, 2), mc.Calibration("x", A=np.ones(4), B=np.zeros(3))])',
    "fit(x, mc.Equality(), terms=[term, mc.Box(0, 1)])",
    "fit(x, mc.Equality(), terms=mc.NuclearBall(0.1))",
    (
        'fit(x, tol=0.0).status in ("certified", "limited_by_rounding")',
        "tol=0 is the smallest gap that double precision has",
    ),
    (
        'fit(x, max_iter=0).status == "iteration_limit"',
        "an answer that is not certified comes with a warning",
    ),
]

ANSWERS = [
    'fitted.predict("y")',
    "fitted.predict(0)",
    'fitted.natural("y")',
    'fitted.impute("y")',
    'fitted.predict("x", rows=[0])',
    'fitted.predict("x", rows=[0], columns=[9])',
    'fitted.predict("x", rows=[-1], columns=[0])',
    'fitted.predict("x", rows=[0.0], columns=[0])',
    'fitted.predict("x", rows=x > 3, columns=[0])',
    'fitted.predict("x", rows=["a"], columns=[0])',
    'fitted.predict("x", rows=0, columns=0)',
    'fitted.predict_rows("y", {"x": x})',
    'fitted.predict_rows("x", {"y": x})',
    'fitted.predict_rows("x", {"x": x[:, :2]})',
    'fitted.predict_rows("x", {"x": [["a", 1, 2]]})',
    'fitted.predict_rows("x", {"x": [[inf, 1, 2]]})',
    'fitted.predict_rows("x", {})',
    'fitted.predict_rows("x", x)',
    'fitted.predict_rows("x", None)',
    'fit(x, terms=mc.MaxNorm(0.1)).predict_rows("x", {"x": x})',
    'fit(pd.DataFrame(x, columns=names)).predict_rows("x",'
    ' {"x": pd.DataFrame(x, columns=["a", "b", "d"])})',
    'fitted.impute_rows("y", {"x": x})',
    'fitted.predict_pairs("x", [(0, 9)])',
    'fitted.predict_pairs("x", [0, 1])',
    'fitted.predict_pairs("x", 3)',
    'fitted.predict_pairs("x", [(0, 1)], unknown="skip")',
    'fitted.top("x", 9)',
    'fitted.top("x", 0, n=0)',
    'fitted.top("x", 0, n="3")',
    'fitted.top("y", 0)',
    'fitted.bias("x")',
    'fitted.row_effects("x")',
    'fitted.likelihood("y")',
    'fitted.log_likelihood("y")',
    'fitted.losses_at("x", [0], [0], [1.0, 2.0])',
    'fitted.losses_at("x", [0], [0], ["a"])',
    'fitted.residual("x")',
    'fitted.compact().impute("x")',
    "fitted.save(3)",
    'fitted.save("no-folder/fit.npz")',
    'mc.load("nowhere.npz")',
    'mc.load("table.csv")',
    'mc.load(fitted.save("saved.npz"), mc.Posterior)',
    'mc.load("saved.npz", "Fit")',
    'mc.load(".")',
    "mc.load(3)",
]

OTHERS = [
    'mc.verify(model(), {"x": x}, backend="reference")',
    'mc.verify(model(), {"x": x}, reference="MOSEK")',
    'mc.verify(model(), {"x": x}, tol=nan)',
    'mc.verify(model(), {"y": x})',
    'mc.explain(model(), "x")',
    'mc.explain(None, {"x": x})',
    'mc.to_cvxpy(model(), {"x": 1j * x})',
    'mc.path(model(), {"x": x}, weights=[1.0, 2.0])',
    'mc.path(model(), {"x": x}, weights=[1.0, 0.0])',
    'mc.path(model(), {"x": x}, weights=[nan])',
    'mc.path(model(), {"x": x}, weights=[])',
    'mc.path(model(), {"x": x}, weights=["1.0"])',
    'mc.path(model(), {"x": x}, weights=1.0)',
    'mc.path(model(), {"x": x}, weights=selection.Grid(term=mc.MaxNorm))',
    'mc.path(model(), {"x": x}, weights=selection.Grid(term="NuclearNorm"))',
    "selection.Grid(count=1)",
    "selection.Grid(count=2.5)",
    "selection.Grid(ratio=1.0)",
    'selection.Grid(ratio="small")',
    "selection.Grid([1.0, 2.0])",
    "selection.Grid(patience=0)",
    'mc.path(model(), {"x": np.zeros((3, 3))})',
    'mc.weight_max(model(), {"x": np.zeros((3, 3))})',
    'mc.weight_max(model(terms=mc.NuclearBall(1.0)), {"x": x})',
    'mc.weight_max(model, {"x": x})',
    'mc.cross_validate(model(), {"x": x}, criterion=selection.HeldOutLoss)',
    'mc.cross_validate(model(), {"x": x}, criterion="loss")',
    'mc.cross_validate(model(), {"x": x}, criterion=[])',
    (
        'str(selection.RelativeDeviance()) in mc.cross_validate(model(), {"x": whole},'
        " weights=selection.Grid(count=2)).all_scores",
        "the default criterion is the deviance relative to constants",
    ),
    'mc.cross_validate(model(), {"x": x}, criterion=selection.HeldOutLoss("y"))',
    'mc.cross_validate(model(), {"x": x}, criterion=selection.LabelError("x"))',
    'mc.cross_validate(model(), {"x": x}, criterion=selection.HeldOutRisk("x"))',
    "selection.HeldOutRisk(risk=mc.Bernoulli())",
    'mc.cross_validate(model(), {"x": x}, criterion=lambda fit, held: "good")',
    'mc.cross_validate([], {"x": x}, criterion=selection.HeldOutLoss())',
    'mc.cross_validate(x, {"x": x}, criterion=selection.HeldOutLoss())',
    'mc.cross_validate(model(), {"x": x}, criterion=selection.HeldOutLoss(), cv=1)',
    'mc.cross_validate(model(), {"x": x}, criterion=selection.HeldOutLoss(), cv=100)',
    'mc.cross_validate(model(), {"x": x}, criterion=selection.HeldOutLoss(), cv="five")',
    'mc.cross_validate(model(), {"x": x}, criterion=selection.HeldOutLoss(), n_jobs=0)',
    'mc.cross_validate(model(), {"x": x}, criterion=selection.HeldOutLoss(), random_state="a")',
    'mc.cross_validate(model(), {"x": x}, criterion=selection.HeldOutLoss(), path="fit")',
    'mc.cross_validate(model(), {"x": x}, criterion=selection.HeldOutLoss(),'
    " cv=selection.RowFolds(3, groups=[1, 2]))",
    'mc.cross_validate(model(), {"x": x}, criterion=selection.HeldOutLoss(),'
    " cv=selection.TimeFolds([1, 2, 3, nan]))",
    "mc.compare([model()], {'x': x})",
    "mc.compare({}, {'x': x})",
    "mc.compare({'a': gaussian}, {'x': x})",
    "mc.compare({1: model(terms=mc.NuclearNorm())}, {'x': x}, cv=2)",
    "mc.compare({'a': model(terms=mc.MaxNorm(1.0))}, {'x': x})",
    "mc.compare({'a': model(terms=mc.NuclearNorm())}, {'x': x}, cv=0)",
    "mc.pool([1.0], [0.1])",
    "mc.pool([1.0, 2.0], [0.1])",
    "mc.pool([1.0, 2.0], [0.1, -0.1])",
    "mc.pool([1.0, nan], [0.1, 0.1])",
    'mc.pool(["a", "b"], [0.1, 0.1])',
    "mc.pool(None, None)",
    "mc.pool({1: 1.0}, {1: 0.1})",
    "mc.pool([1.0, 2.0], [0.1, 0.1], complete_degrees_of_freedom=0)",
    "mc.pool([1.0, 2.0], [0.1, 0.1]).interval(95)",
    "mc.pool([[1.0, 2.0], [1.1, 2.1]])",
    "mc.pool([1.5, 2.0], [0.1, 0.1], scale='fisher_z')",
    "mc.pool([1.5, 2.0], [0.1, 0.1], scale='atanh')",
    "mc.pool([1.0, 2.0], [0.1, 0.1]).wald()",
    "mc.pool.chi_square([6.0], 2)",
    "mc.pool.with_(1, len)",
]

POSTERIORS = [
    "mc.posterior(model(terms=mc.MaxNorm(1.0)), {'x': x})",
    "mc.posterior(model(mc.Hinge()), {'x': whole > 3})",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, factors=-1)",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, factors='many')",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, factors=1.5)",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, tol=-1)",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, max_iter='all')",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, max_seconds=-1)",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, random_state='a')",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, n_jobs=1.5)",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, progress='bar')",
    "mc.posterior(model(terms=mc.NuclearNorm()), x)",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, row_attributes=np.ones((3, 2)))",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, column_attributes=np.ones((4, 2)))",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, row_attributes=[1, 2, inf, 4])",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, row_attributes=[nan] * 4)",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, row_attributes=['a', 'b', 'c', 'd'])",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, row_attributes='rated')",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, row_attributes={})",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, row_attributes=sp.eye(4) * nan)",
    "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, row_attributes=sp.eye(4) * 1j)",
    "mc.laws.check_posterior(model(terms=mc.NuclearNorm()), {'x': x}, row_attributes='observed')",
    "mc.posterior(model(terms=mc.GaussianRows()), {'x': x}, row_attributes=x)",
    "posterior.condition({'x': x}, row_attributes=x)",
    (
        "mc.posterior(model(terms=mc.NuclearNorm()), {'x': x}, row_attributes=x).status"
        " == 'converged'",
        "a gap in attributes counts as their mean",
    ),
    'posterior.predict("y")',
    'posterior.predict("x", rows=[9], columns=[0])',
    'posterior.sd("x", rows=[0])',
    'posterior.interval("x", 90)',
    'posterior.interval("x", 0)',
    'posterior.interval("x", "90%")',
    'posterior.interval("y")',
    'posterior.set("x")',
    'posterior.probabilities("x")',
    'posterior.sample("y", 2)',
    'posterior.sample("x", 0)',
    'posterior.sample("x", 2, rows=[9])',
    'posterior.sample("x", 2, rows=[0.5])',
    'posterior.sample("x", 2, rows=0)',
    'posterior.impute("y")',
    'posterior.noise("y")',
    'posterior.top("y", 0)',
    'posterior.sd("x", pairs=[(0, 9)])',
    'posterior.sd("x", pairs=[(0, 1)], rows=[0], columns=[1])',
    'posterior.interval("x", pairs=3)',
    'posterior.interval("x", pairs=[(0, 1)], unknown="skip")',
    'posterior.sd("x", rows=["a"], columns=["b"])',
    'posterior.predict_pairs("x", [(9, 9)])',
    'posterior.log_predictive_density("x", [0], [0], [1.0, 2.0])',
    'posterior.log_predictive_density("x", [0], [0], ["a"])',
    'posterior.log_predictive_density("y", [0], [0], [1.0])',
    'posterior.condition({"y": x})',
    'posterior.condition({"x": x[:, :2]})',
    "posterior.condition({})",
    "posterior.condition(x)",
    'posterior.predict_rows("y", {"x": x})',
    "posterior.save(None)",
    "posterior.conformalize(90)",
    'posterior.conformalize(0.9, "mar")',
    "posterior.conformalize(0.9, np.ones((4, 3)))",
    "posterior.conformalize(0.9, np.full((2, 2), 0.5))",
    'posterior.conformalize(0.9, by="row")',
    "posterior.conformalize(0.9, share=1.0)",
    "posterior.conformalize(0.9, folds=0)",
    'posterior.conformalize(0.9, random_state="a")',
    'posterior.conformalize_jointly(0.9, "rank1")',
    'posterior.conformalize_jointly(groups="row")',
    "posterior.conformalize_jointly(folds=1)",
    'intervals.interval("y")',
    'intervals.interval("x", 1.5)',
    'intervals.interval("x", "0.9")',
    'intervals.set("x")',
    "mc.verify_posterior(model(), x)",
]

TABLES = [
    "mc.complete(x)",
    'mc.complete({"size": [1.0, 2.0]})',
    'mc.complete(frame["size"])',
    'mc.complete(pl.LazyFrame({"a": [1.0]}))',
    "mc.complete(None)",
    "mc.complete(frame.iloc[:0])",
    "mc.complete(frame[[]])",
    "mc.complete(frame.assign(size=nan, kind=None))",
    "mc.complete(frame.set_axis(['a', 'a'], axis=1))",
    "mc.complete(frame.assign(size=inf))",
    'mc.complete(frame, ["number", "label"])',
    'mc.complete(frame, {"weight": "number"})',
    'mc.complete(frame, {"size": "float"})',
    'mc.complete(frame, {"kind": "number"})',
    'mc.complete(frame, {"size": "label"})',
    'mc.complete(frame, {"size": "count"})',
    'mc.complete(frame, {"size": ("number", 1, 0)})',
    'mc.complete(frame, {"size": ("number", 100, 200)})',
    'mc.complete(frame, {"kind": ["small", "big", "small"]})',
    "mc.complete(frame, {'size': mc.Huber})",
    "mc.complete(frame, {'size': mc.only_if('kinds', 'big')})",
    "mc.complete(frame, {'size': mc.only_if('kind', 'huge')})",
    "mc.complete(frame, {'size': mc.only_if('size', 1.0)})",
    "mc.censored()",
    "mc.complete(frame, {'size': mc.censored(upper='limits')})",
    "mc.complete(frame, {'size': mc.censored(upper='size')})",
    "mc.complete(frame, {'size': mc.censored(upper='kind')})",
    "mc.complete(frame, {'kind': mc.censored(upper='size')})",
    "mc.complete(bounded, {'size': mc.censored(lower='high', upper='low')})",
    "mc.complete(bounded, {'size': mc.censored(lower='high', upper='top')})",
    "mc.complete(bounded, {'size': mc.censored(upper='low', where='below')})",
    "mc.complete(bounded, {'size': mc.censored(upper='low', where='high')})",
    "mc.complete(bounded, {'size': mc.censored(upper='low', kind='ordinal')})",
    "mc.complete(frame, where=True)",
    "mc.complete(frame, relations='size = 1')",
    "mc.complete(frame, relations=['sizes = 2 * size'])",
    "mc.complete(frame, relations=['size = kind'])",
    "mc.complete(frame, relations=['size = 2 *'])",
    "mc.complete(frame, relations=['size = frame.size'])",
    "mc.complete(frame, relations=['size = 1 - size'])",
    "mc.complete(frame, relations=['size = 1', 'size = 2'])",
    "mc.complete(frame, relations=['size = 1'])",
    "mc.relation('size = 1', tolerance=-1)",
    'mc.complete(frame, {"kind": ["small"]})',
    'mc.complete(frame, {"size": mc.Poisson()})',
    'mc.complete(frame, {"size": mc.Gaussian})',
    'mc.complete(frame, {"size": gaussian}, method="posterior")',
    'mc.complete(frame, method="mean")',
    "mc.complete(frame, random_state=-1)",
    'mc.complete(frame, random_state="a")',
    (
        "mc.complete(frame, random_state=None).draws(1, random_state=None)[0]"
        ".notna().to_numpy().all()",
        "None is a fresh seed",
    ),
    "mc.complete(frame, progress=2)",
    "mc.complete(frame, groups=[1, 2, 3])",
    "mc.complete(frame, missing={'weight': [-99]})",
    "mc.complete(frame, missing=[1j])",
    "mc.complete(frame, missing={'size': [[1, 2]]})",
    "mc.complete(frame, missing=np.ones((2, 2)))",
    "mc.complete(frame, {'kind': ['small', 'big']}, missing={'kind': ['big']})",
    "mc.complete(frame, {'kind': 'category'}, missing=['small', 'big'])",
    "mc.complete(frame, groups=[1] * 24)",
    "mc.complete(frame, groups='kinds')",
    "mc.complete(frame, groups='size')",
    "mc.complete(frame, groups=[None] * 24)",
    "mc.complete(frame, row_weights=[1.0, 2.0])",
    "mc.complete(frame, row_weights=[1.0, 0.0] * 12)",
    "mc.complete(frame, row_weights=[1.0, nan] * 12)",
    "mc.complete(frame, row_weights='weight')",
    "mc.complete(frame, row_weights='kind')",
    "mc.complete(frame, row_weights=[1.0] * 24, groups=[1, 2] * 12)",
    "mc.complete(frame, method='optimum', row_weights=[1.0] * 24)",
    "mc.complete(frame, nonlinear='trees')",
    "mc.complete(frame, nonlinear=True, method='optimum')",
    "mc.pool.formula('size ~ 1', [frame.fillna(1.0)] * 2, row_weights='wieght')",
    "completed.draws(1, terms='size | kind')",
    "mc.complete(frame, time='day')",
    "mc.complete(frame, time='kind')",
    "mc.complete(frame, time='size')",
    "mc.complete(frame.assign(day=1.0), time='day')",
    "mc.complete(frame.assign(day=range(24)), time='day', groups=[1, 2] * 12)",
    "mc.complete(frame.assign(day=range(24)), time='day', method='optimum')",
    "mc.declare(frame.to_numpy())",
    'mc.declare(frame, {"size": 3})',
    "mc.declare(frame).table(fitted)",
    "mc.declare(frame).complete_rows(fitted, frame)",
    "completed.interval(95)",
    "completed.draws(0)",
    "completed.draws(2, random_state=-1)",
    "completed.draws(2, shift=0.3)",
    'completed.draws(2, shift={"no": 0.3})',
    'completed.draws(2, shift={"size": {"big": 0.3}})',
    "mc.shift({'big': 0.3})",
    "mc.shift(0.3, by='kind')",
    "mc.shift(to='big')",
    "mc.shift(0.3, unit='sds')",
    'completed.draws(2, shift={"size": mc.shift({"huge": 0.3}, by="kind")})',
    'completed.draws(2, shift={"size": mc.shift(by="size", to=1.0)})',
    'completed.draws(2, shift={"kind": mc.shift(0.3)})',
    (
        'mc.complete(frame.assign(half=frame["size"])).draws('
        '1, terms="size**2", shift={"size": mc.shift(by="kind", to="big")})'
    ),
    'completed.shift_to_change("no")',
    'mc.tipping_point(frame, "size ~ kind", "size")',
    'mc.tipping_point(completed, "size ~ kind", "no")',
    'mc.tipping_point(completed, "size ~ kind", "size", 3)',
    'mc.tipping_point(completed, 3, "size")',
    'completed.predict("height")',
    "completed.fit",
    ('not hasattr(completed, "fit")', "an attribute of other answers is not there"),
    "optimum.posterior",
    "optimum.draws(2)",
    "completed.complete_rows(x)",
    "completed.complete_rows(frame.assign(height=1.0))",
    'completed.complete_rows(frame.assign(size="tall"))',
    'completed.complete_rows(frame.assign(kind="huge"), unseen="error")',
    'completed.complete_rows(frame, unseen="drop")',
    "completed.save(3)",
    (
        "mc.complete(frame.assign(block=size, row=size)).table.notna().all(axis=None)",
        "no column name is reserved",
    ),
    (
        'mc.complete(frame.set_axis([("a", 1), 7], axis=1)).table.notna().all(axis=None)',
        "column names may be anything",
    ),
    (
        "list(mc.complete(frame.assign(z=1j * size)).table) == ['size', 'kind', 'z']",
        "a column of complex numbers is set aside, with a warning that names it",
    ),
    (
        "list(mc.complete(frame.assign(z=[[1]] * 24)).table) == ['size', 'kind', 'z']",
        "so is a column of lists",
    ),
    (
        "mc.complete(pd.concat([frame, frame.iloc[:1].assign(size=nan, kind=None)]))"
        ".table.notna().all(axis=None)",
        "a row without an observed entry is filled",
    ),
    (
        "mc.complete(frame.dropna()).interval(0.9)[0]['size'].equals(frame.dropna()['size'])",
        "a table without a missing entry has intervals of nothing",
    ),
    (
        "mc.complete(frame.assign(size=1e300 * size)).table['size'].abs().max() < 1e301",
        "a column in any unit is filled",
    ),
]

READERS = [
    'datasets.read_csv("nowhere.csv", {"x": "*"})',
    'datasets.read_csv(".", {"x": "*"})',
    'datasets.read_csv(3, {"x": "*"})',
    'datasets.read_csv("table.csv", {"x": "*"})',
    'datasets.read_csv("table.csv", {"x": ["a", "z"]})',
    'datasets.read_csv("table.csv", {"x": "a", "y": "a"})',
    'datasets.read_csv("table.csv", {})',
    'datasets.read_csv("table.csv", ["a"])',
    'datasets.read_csv("table.csv", {"x": "a"}, delimiter="::")',
    'datasets.read_csv("table.csv", {"x": "a"}, index="b")',
    'datasets.read_csv("short.csv", {"x": "*"})',
    'datasets.read_csv("header.csv", {"x": "*"})',
    'datasets.read_csv("latin.csv", {"x": "*"})',
    'datasets.read_csv("latin.csv", {"x": "*"}, encoding="klingon")',
    'datasets.read_ratings("ratings.csv")',
    'datasets.read_ratings("stars.csv")',
    'datasets.read_ratings("latin.csv")',
    'datasets.read_ratings("nowhere.csv")',
    'datasets.read_multilabel("table.csv")',
    "datasets.hide(x, 1.0)",
    'datasets.hide(x, "half")',
    'datasets.on_disk("nowhere")',
    'datasets.on_disk("table.csv")',
    "datasets.on_disk(3)",
    'datasets.write_partitions({"x": x}, "table.csv")',
    'datasets.write_partitions({}, "folder")',
    'datasets.write_partitions({"x": x}, "folder", n_partitions=0)',
    'datasets.write_partitions({"x": np.full((4, 3), nan)}, "folder")',
    'datasets.parquet_triples("nowhere", row="a", column="b", value="c")',
    'datasets.parquet_triples("table.csv", row="a", column="b", value="c")',
    "datasets.from_dask(x)",
]

ESTIMATORS = [
    "MatrixCompletionImputer().fit(X[0])",
    "MatrixCompletionImputer().fit(X[None])",
    "MatrixCompletionImputer().fit(X[:0])",
    "MatrixCompletionImputer().fit(1j * X)",
    "MatrixCompletionImputer().fit(np.where(X > 2, inf, X))",
    'MatrixCompletionImputer().fit([["a", "b"]])',
    "MatrixCompletionImputer().fit(sp.csr_array(X))",
    "MatrixCompletionImputer().fit(None)",
    "imputer.transform(X[:, :2])",
    "MatrixCompletionImputer().transform(X)",
    "MatrixCompletionImputer(weight=-1).fit(X)",
    "MatrixCompletionImputer(weight=0).fit(X)",
    "MatrixCompletionImputer().fit(frame.to_numpy())",
    "MatrixCompletionImputer(likelihoods={2: mc.Poisson()}).fit(X)",
    'MatrixCompletionImputer(weight="best").fit(X)',
    "MatrixCompletionImputer(weight=None).fit(X)",
    'MatrixCompletionImputer(likelihoods="poisson").fit(X)',
    "MatrixCompletionImputer(likelihoods={9: mc.Poisson()}).fit(X)",
    "MatrixCompletionImputer(likelihoods=mc.Poisson(), weight=1.0).fit(X)",
    'MatrixCompletionImputer(terms="nuclear").fit(X)',
    "MatrixCompletionImputer(terms=[0.1]).fit(X)",
    "MatrixCompletionImputer(model=3).fit(X)",
    "MatrixCompletionImputer(model=model(), terms=[term]).fit(X)",
    "MatrixCompletionImputer(cv=1).fit(X)",
    'MatrixCompletionImputer(cv="five", terms=[term]).fit(X)',
    "MatrixCompletionImputer(n_weights=0, terms=[term]).fit(X)",
    "MatrixCompletionImputer(tol=-1, weight=1.0).fit(X)",
    "MatrixCompletionImputer(max_iter=-1, weight=1.0).fit(X)",
    "MatrixCompletionImputer(n_jobs=0, weight=1.0).fit(X)",
    'MatrixCompletionImputer(random_state="a").fit(X)',
    (
        "MatrixCompletionImputer(random_state=np.random.RandomState(0)).fit(X)"
        ".n_features_in_ == 3",
        "a generator of scikit-learn's kind draws a seed",
    ),
    "MatrixCompletionImputer(min_value=1, max_value=0).fit(X)",
    "MatrixCompletionImputer(min_value=[0, 1]).fit(X)",
    'MatrixCompletionImputer(min_value="low").fit(X)',
    'MatrixCompletionImputer(missing_values="NA").fit(X)',
    "MatrixCompletionImputer(missing_values=[1j]).fit(frame)",
    "MatrixCompletionImputer(missing_values={9: [-1]}).fit(X)",
    "MatrixCompletionImputer(missing_values={'age': [-1]}).fit(frame)",
    'MatrixCompletionImputer(types={"size": "float"}).fit(frame)',
    "MatrixCompletionImputer(types={0: 'number'}).fit(X)",
    'MatrixCompletionImputer(unseen="drop").fit(frame)',
    'MatrixCompletionImputer(unseen="drop").fit(X)',
    "MatrixCompletionImputer(max_value=1).fit(frame)",
    "MatrixCompletionClassifier().fit(X, target[:5])",
    "MatrixCompletionClassifier().fit(X, None)",
    "MatrixCompletionClassifier().fit(X, [None] * 20)",
    "MatrixCompletionClassifier().fit(X, np.where(target, inf, 0.0))",
    "MatrixCompletionClassifier().fit(X, rng.standard_normal(20))",
    "MatrixCompletionClassifier().fit(X, np.column_stack([target, target + 1]))",
    "MatrixCompletionClassifier().fit(X, 1j * target)",
    "classifier.predict(X[:, :2])",
    "classifier.predict(np.where(X > 2, inf, X))",
    "MatrixCompletionClassifier().predict(X)",
    'MatrixCompletionClassifier(model=mc.Model([mc.Block("targets", gaussian)], term))'
    ".fit(X, target)",
    "MatrixCompletionRegressor().fit(X, target[:5])",
    "MatrixCompletionRegressor().fit(X, None)",
    "MatrixCompletionRegressor().fit(X, np.full(20, nan))",
    'MatrixCompletionRegressor().fit(X, ["a"] * 20)',
    "MatrixCompletionRegressor().fit(X, np.where(target, inf, 0.0))",
    "MatrixCompletionRegressor().predict(X)",
    (
        'MatrixCompletionClassifier().fit(X, ["low"] * 20).predict(X[:1]).tolist() == ["low"]',
        "with one class there is nothing to tell apart",
    ),
    (
        "np.array_equal(MatrixCompletionImputer().fit_transform(X), X)",
        "a table without a missing entry comes back as it is",
    ),
]

CASES = {
    "`mc.fit`: arrays": DATA,
    "`mc.fit`: frames": FRAMES,
    "`mc.fit`: sparse": SPARSE,
    "`mc.fit`: values": VALUES,
    "`mc.fit`: the dict": DICTS,
    "`mc.Observations`": OBSERVATIONS,
    "`mc.from_triples`": TRIPLES,
    "`mc.Model`": MODELS,
    "words": WORDS,
    "`mc.fit`: options": FITS,
    "answers": ANSWERS,
    "other functions": OTHERS,
    "`mc.posterior`": POSTERIORS,
    "tables": TABLES,
    "`datasets`": READERS,
    "estimators": ESTIMATORS,
}


PAGE = Path(__file__).parents[1] / "docs" / "mistakes-list.md"
HEADER = "| where | what was given | what happens |\n|---|---|---|\n"
KNOWN = (
    UserWarning,
    mc.UnobservedWarning,
    mc.NotCertifiedWarning,
    mc.NotConvergedWarning,
    errors.EdgeOfGridWarning,
    errors.UndefinedScoreWarning,
)
SENTENCE_ENDS = re.compile(r"(?<=[\w)\]'\"])\. (?=[A-Z])|(?<=instead:) array=")
REMEDY = re.compile(
    r"\b(is|are) needed|needs?|must be|has to|have to|\b(give|take|drop|rename|leave|replace|write"
    r"|add|check|choose|convert|recode|declare|ask|collect|correct|rescale|keep|save"
    r"|align|refit|start|name|call|takes|writes)\b|(blocks|columns|terms) are|go from|\?"
    r"|was declared|=True|is one row|need the same",
    re.IGNORECASE,
)


def prepared():
    """The names of the page, whose files lie in the current folder."""
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code, names)
    return names


def outcome(case, names):
    """What the page says of a case; an ``AssertionError`` where it is a fault of the package."""
    code, answer = (case, None) if isinstance(case, str) else case
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            value = eval(code, dict(names))
        except Exception as error:
            return refusal(code, error)
    assert answer is not None, f"{code} is taken: {value}"
    assert value, f"{code} is false"
    others = [each.message for each in told if each.category not in KNOWN]
    assert not others, f"{code} warns {others}"
    return f"Answer: {answer}"


def refusal(code, error):
    """What the page says of an error, which names a remedy."""
    ours = isinstance(error, mc.McframeError)
    assert ours or is_of_scikit_learn(error), f"{code} raises {type(error).__name__}: {error}"
    assert not ours or REMEDY.search(str(error)), f"{code} names no remedy: {error}"
    return said(error) if ours else f"scikit-learn: {said(error)}"


def said(error):
    """The first sentence of an error, as code; folders of the machine are left out."""
    text = SENTENCE_ENDS.split(" ".join(str(error).split()))[0].replace(os.getcwd() + os.sep, "")
    text = re.sub(r" at 0x[0-9A-F]+", "", text)
    ticks = "``" if "`" in text else "`"
    return f"{ticks}{type(error).__name__}: {text}{ticks}"


def is_of_scikit_learn(error):
    """Whether its own checks of data raised an error, which its conventions ask for."""
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    return (
        isinstance(error, ValueError | TypeError)
        and "/sklearn/" in last.tb_frame.f_code.co_filename
    )


def row(verb, case, found):
    """The row of the table."""
    code = case if isinstance(case, str) else case[0]
    cells = (verb, f"`{code}`", found)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def write():
    """Run every case, and write the table of the page."""
    top = PAGE.read_text("utf-8").split(HEADER)[0]
    before = Path.cwd()
    os.environ.pop("MCFRAME_DATA", None)  # a folder that messages would name
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        names = prepared()
        rows = [row(verb, case, outcome(case, names)) for verb in CASES for case in CASES[verb]]
        os.chdir(before)
    PAGE.write_text(top + HEADER + "\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    write()
