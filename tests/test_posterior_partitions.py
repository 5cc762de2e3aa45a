"""Posteriors of rows in partitions: the answers of the table, wherever and however it is cut."""

import os
import pickle
import signal
import subprocess
import sys
import warnings

import attrs
import numpy as np
import pytest
from scipy import sparse

import mcframe as mc
from mcframe.contracts import ExpectedLogLikelihood, GaussianBound
from mcframe.fitting import checkpoints as keeping
from mcframe.model import Problem
from mcframe.partitions import fit_partitions as partitions
from mcframe.partitions.executor import OneByOne, PartCache
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.posterior import estimation
from mcframe.posterior import factors as engine
from mcframe.posterior.estimation import BOUND_ROUNDING
from tests.catalogue import LIKELIHOODS
from tests.test_posterior_factors import assert_close, case, values_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning"),
    pytest.mark.filterwarnings("ignore::mcframe.NotConvergedWarning"),
]
WORDS = [
    entry.word
    for entry in LIKELIHOODS
    if isinstance(entry.word, GaussianBound | ExpectedLogLikelihood)
    and not entry.word.takes_intervals  # which rows in partitions do not carry
]
LEARNED = mc.Gaussian(variance=None)


def table(word, seed=0, n_rows=23, n_columns=6, share=0.3):
    """A block of observations of two factors, with holes."""
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((2, n_columns * word.width))
    if getattr(word, "thresholds", 0) is None:
        word = attrs.evolve(word, thresholds=tuple(np.linspace(-1.0, 1.0, word.levels - 1)))
    z = rng.standard_normal((n_rows, 2)) @ columns
    x = values_of(rng, word, z)
    return np.where(rng.random(x.shape) < share, np.nan, x)


def model_of(word, **options):
    return mc.Model([mc.Block("x", word, **options)], [mc.NuclearNorm()])


def rows_of(data):
    """The number of rows of data in memory."""
    given = next(iter(data.values()))
    return (given.values if isinstance(given, mc.Observations) else given).shape[0]


def trajectory(found):
    return np.array([sweep.evidence for sweep in found.history])


def expected_of(found, data):
    """The answer of a table that those of its partitions are compared with.

    Where likelihoods are no Gaussians partitions find the bounds of rows anew, as of new rows.
    """
    return found.condition(data) if found.engine.observed.needs_bounds else found


def agree(found, expected, tolerance=1e-6):
    """The same answers of both, of all cells."""
    for block in expected.model.blocks:
        name, asked = block.name, [lambda own, b=block.name: (own.predict(b), own.sd(b))]
        if block.likelihood.location:
            asked.append(lambda own, b=block.name: own.interval(b))
        for ask in asked:
            with np.errstate(all="ignore"):  # predictors of counts that overflow
                pairs = zip(ask(found), ask(expected), strict=True)
            for ours, theirs in pairs:
                ours, theirs = np.asarray(ours), np.asarray(theirs)
                finite = np.isfinite(theirs)
                np.testing.assert_array_equal(np.isfinite(ours), finite, name)
                size = np.max(np.abs(theirs[finite]), initial=1e-300)
                away = np.abs(ours[finite] - theirs[finite])
                assert np.max(away, initial=0.0) <= tolerance * size


# --- The same answer, however rows are cut -------------------------------------------------------


def check_partitions(model, data, n_factors, counts=(1, 3, 7), **budget):
    """The sweeps of a table, and of its rows in partitions."""
    whole = mc.posterior(model, data, factors=n_factors, **budget)
    expected = expected_of(whole, data)
    for n_partitions in counts:
        if n_partitions <= rows_of(data):
            parts = RowsInMemory(data, n_partitions)
            found = mc.posterior(model, parts, factors=n_factors, **budget)
            assert len(found.history) == len(whole.history)
            assert found.status == whole.status
            assert_close(trajectory(found), trajectory(whole), 1e-9)
            agree(found, expected)
    return whole, found


# Its steps along steep labels are many, and the probit of unit scale takes the same path.
STEEP = mc.Bernoulli(link="probit", scale=1 / 7)
assert STEEP in WORDS
# The first likelihood of each class and link, in front of those with other parameters.
FIRST = {(type(word), getattr(word, "link", None)): word for word in reversed(WORDS)}.values()
FIRST = [*FIRST, LEARNED]


@pytest.mark.parametrize(
    "word",
    [
        pytest.param(
            word,
            marks=[pytest.mark.slow(seconds=15 if word == STEEP else 1)] * (word not in FIRST),
        )
        for word in [*WORDS, LEARNED]
    ],
    ids=repr,
)
def test_partitions_have_the_posterior_of_the_table(word):
    ordinal = getattr(word, "thresholds", 0) is None
    effects = {} if ordinal else {"bias": True, "row_effects": word.width == 1}
    model, data = model_of(word, **effects), {"x": table(word)}
    whole, found = check_partitions(model, data, 2, max_iter=5)
    rows, columns = np.array([22, 0, 11]), np.array([0, 3, 5])
    values = data["x"][np.isfinite(data["x"])][:3]
    assert_close(
        found.log_predictive_density("x", rows, columns, values),
        expected_of(whole, data).log_predictive_density("x", rows, columns, values),
        1e-6,
    )
    if isinstance(word, mc.Gaussian):
        draws = [own.sample("x", 2, rows) for own in (found, whole)]
        assert_close(*draws, 1e-6)
        new = {"x": data["x"][:4]}
        assert_close(found.predict_rows("x", new), whole.predict_rows("x", new), 1e-7)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(k, marks=[pytest.mark.slow(seconds=22 if k == 2 else 2)] * (k % 8 != 0))
        for k in range(24)
    ],
)
def test_random_models_have_one_posterior_however_their_rows_are_cut(seed):
    """Blocks side by side with weights, offsets, standard units, effects and holes."""
    drawn = case(seed, largest=20, scales=3.0)
    blocks = [attrs.evolve(block, reduce="sum") for block in drawn.model.blocks]
    model = attrs.evolve(drawn.model, blocks=blocks)
    options = {}
    if seed % 3 == 0:  # of columns of Z
        n_columns = Problem.bind(model, drawn.data).shape[1]
        sizes = np.array([1.0, 1e6, 1e-6])
        options["column_attributes"] = sizes * np.random.default_rng(seed).normal(
            size=(n_columns, 3)
        )
    check_partitions(model, drawn.data, drawn.n_factors, (1, 3, 7), max_iter=6, **options)


@pytest.mark.parametrize("word", [LEARNED, mc.Bernoulli()], ids=repr)
def test_columns_have_attributes_however_rows_are_cut(word):
    model, rng = model_of(word, bias=True, row_effects=True), np.random.default_rng(0)
    groups = {"numbers": rng.normal(size=(6, 2)), "signs": sparse.csr_array(np.eye(6)[:, :2])}
    x = table(word)
    x[:, 4] = np.nan
    whole, found = check_partitions(model, {"x": x}, 2, max_iter=8, column_attributes=groups)
    assert found.engine.state.column_coefficients is not None
    assert str(found.engine.attributes) == str(whole.engine.attributes)


def test_columns_in_another_order_have_the_same_posterior():
    """From one beginning: columns by their variances alone, which begin as random factors."""
    x = table(LEARNED)
    model, order = model_of(LEARNED, bias=True), np.random.default_rng(1).permutation(x.shape[1])
    options = {"factors": 0, "max_iter": 30, "tol": 1e-12}
    one = mc.posterior(model, RowsInMemory({"x": x}, 3), **options)
    other = mc.posterior(model, RowsInMemory({"x": x[:, order]}, 3), **options)
    assert one.evidence == pytest.approx(other.evidence, rel=1e-9)
    assert_close(one.predict("x")[:, order], other.predict("x"), 1e-7)
    found = [
        mc.posterior(model, RowsInMemory({"x": own}, 3), factors=1, tol=1e-12)
        for own in (x, x[:, order])
    ]
    assert found[0].evidence == pytest.approx(found[1].evidence, rel=1e-5)


def test_levels_far_from_zero_and_alike_and_rows_without_an_entry():
    x = 1e6 + table(mc.Gaussian(), share=0.5)
    x[:, 0], x[3] = 5.0, np.nan
    x[:, 5] = np.nan
    for options in ({"bias": True}, {"bias": True, "standardize": True}, {}):
        check_partitions(model_of(LEARNED, **options), {"x": x}, 2, max_iter=4)


# --- Where parts are kept ------------------------------------------------------------------------


@pytest.mark.parametrize("word", [LEARNED, mc.Bernoulli(), mc.Ordinal(3)], ids=repr)
def test_parts_on_the_disk_have_the_bits_of_those_in_memory(word, monkeypatch, tmp_path):
    model, x = model_of(word), table(word)
    here = mc.posterior(model, RowsInMemory({"x": x}, 4), factors=2, max_iter=6)
    folder = mc.datasets.write_partitions({"x": [x]}, tmp_path / "x", n_partitions=4)
    read = mc.posterior(model, folder, factors=2, max_iter=6)
    monkeypatch.setattr(partitions, "COMPILED_MEMORY_SHARE", 0.0)
    scratched = mc.posterior(model, folder, factors=2, max_iter=6)
    cut = [folder.rows(p) for p in range(4)] == [
        RowsInMemory({"x": x}, 4).rows(p) for p in range(4)
    ]
    for found in (read, scratched):
        same = np.testing.assert_array_equal if cut else assert_close
        same(trajectory(found), trajectory(here))
    np.testing.assert_array_equal(trajectory(read), trajectory(scratched))
    np.testing.assert_array_equal(read.predict("x"), scratched.predict("x"))


@pytest.mark.parametrize("word", [LEARNED, mc.Bernoulli(), mc.Poisson()], ids=repr)
def test_parts_that_forget_never_lower_the_bound_and_end_where_others_do(word, monkeypatch):
    """As workers that die: bounds are found anew given the columns, in each sweep here."""
    model, data = model_of(word), RowsInMemory({"x": table(word, n_rows=16)}, 3)
    options = {"factors": 1, "tol": 1e-7, "max_iter": 150}
    kept = mc.posterior(model, data, **options)

    def forgetful(source, *given):
        return OneByOne(source, PartCache(max_bytes=0.0))

    monkeypatch.setattr(partitions, "OneByOne", forgetful)
    found = mc.posterior(model, data, **options)
    bounds = trajectory(found)
    assert np.all(np.diff(bounds) >= -BOUND_ROUNDING * (2.0 * np.abs(bounds[1:]) + 1e3))
    assert found.evidence == pytest.approx(kept.evidence, rel=1e-4)
    if word == LEARNED:
        np.testing.assert_array_equal(bounds, trajectory(kept))
    else:
        assert len(bounds) <= len(kept.history)


def test_an_answer_pickles_and_holds_no_part():
    found = mc.posterior(
        model_of(mc.Bernoulli(), bias=True),
        RowsInMemory({"x": table(mc.Bernoulli())}, 3),
        factors=1,
    )
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.predict("x"), found.predict("x"))
    assert len(found.top("x", 2, n=3)) == len(again.top("x", 2, n=3))
    filled, x = found.impute("x"), table(mc.Bernoulli())
    np.testing.assert_array_equal(filled[np.isfinite(x)], x[np.isfinite(x)])


# --- Checkpoints, and what interrupts ------------------------------------------------------------


@pytest.mark.parametrize("word", [LEARNED, mc.Bernoulli(), mc.Ordinal(3)], ids=repr)
def test_sweeps_go_on_from_a_checkpoint(word, tmp_path):
    model, data = model_of(word, bias=word == LEARNED), RowsInMemory({"x": table(word)}, 3)
    options = {"factors": 2, "tol": 1e-9 if word == LEARNED else 1e-4}
    whole = mc.posterior(model, data, **options)
    path = tmp_path / "posterior.npz"
    first = mc.posterior(model, data, checkpoint=path, max_iter=4, **options)
    np.testing.assert_array_equal(trajectory(first), trajectory(whole)[:4])
    rest = mc.posterior(model, data, checkpoint=path, **options)
    assert trajectory(rest)[3] == trajectory(whole)[3]
    assert rest.status == "converged"
    if word == LEARNED:
        np.testing.assert_array_equal(trajectory(rest), trajectory(whole))
        np.testing.assert_array_equal(rest.predict("x"), whole.predict("x"))
    else:  # bounds are found anew
        assert np.all(np.diff(trajectory(rest)) >= -1e-9 * abs(rest.evidence))
        assert rest.evidence == pytest.approx(whole.evidence, rel=1e-3)
    again = mc.posterior(model, data, checkpoint=path, **options)
    assert len(again.history) == len(rest.history), "what is done is not made again"
    np.testing.assert_array_equal(again.predict("x"), rest.predict("x"))


def test_a_checkpoint_of_other_work_or_damaged_is_refused(tmp_path):
    path, data = tmp_path / "posterior.npz", RowsInMemory({"x": table(LEARNED)}, 3)
    mc.posterior(model_of(LEARNED), data, factors=2, max_iter=2, checkpoint=path)
    for model, given, options in (
        (model_of(LEARNED, bias=True), data, {}),
        (model_of(LEARNED), RowsInMemory({"x": table(LEARNED)}, 2), {}),
        (model_of(LEARNED), RowsInMemory({"x": table(LEARNED, seed=3)}, 3), {}),
        (model_of(LEARNED), data, {"factors": 1}),
        (model_of(LEARNED), data, {"random_state": 1}),
    ):
        with pytest.raises(mc.DataError, match="another posterior of partitions"):
            mc.posterior(model, given, checkpoint=path, **{"factors": 2, **options})
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 20):
        bytes_of = bytearray(whole)
        bytes_of[place] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(bytes_of))
        with pytest.raises(mc.DataError, match=r"damaged|holds"):
            mc.posterior(model_of(LEARNED), data, factors=2, checkpoint=path)
    fit = tmp_path / "fit.npz"
    optimum = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    mc.fit(optimum, data, tol=0.1, checkpoint=fit)
    with pytest.raises(mc.DataError, match="holds a fit of partitions"):
        mc.posterior(model_of(LEARNED), data, factors=2, checkpoint=fit)


DRIVER = """
import sys, time
import mcframe as mc
from mcframe.posterior import estimation
from mcframe.posterior import factors as engine
from tests.test_posterior_partitions import LEARNED, RowsInMemory, model_of, table

estimation.CHECKPOINT_TIME_RATIO = 0.0
sweep = engine.sweep

def announced(*given, **options):
    print("sweep", flush=True)
    time.sleep(0.05)  # there is time to be killed in
    return sweep(*given, **options)

engine.sweep = announced
data = RowsInMemory({"x": table(LEARNED)}, 3)
mc.posterior(model_of(LEARNED), data, factors=2, checkpoint=sys.argv[1], tol=1e-300)
"""


@pytest.mark.slow(seconds=2)
def test_a_driver_that_is_killed_goes_on_from_its_checkpoint(tmp_path):
    """What a sweep found is in the file before the next but one begins."""
    path = tmp_path / "posterior.npz"
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(path)], stdout=subprocess.PIPE, text=True
    )
    with driver:
        for _ in range(8):
            assert driver.stdout.readline() == "sweep\n"
        driver.kill()
    assert driver.returncode == -signal.SIGKILL
    data = RowsInMemory({"x": table(LEARNED)}, 3)
    rest = mc.posterior(model_of(LEARNED), data, factors=2, checkpoint=path, max_iter=1)
    whole = mc.posterior(
        model_of(LEARNED), data, factors=2, tol=1e-300, max_iter=len(rest.history)
    )
    assert len(rest.history) >= 8
    np.testing.assert_array_equal(trajectory(rest), trajectory(whole))


def test_a_sweep_that_took_long_is_written_at_once_and_short_ones_now_and_then(monkeypatch):
    clock = iter(np.cumsum([0.0, 1.0, 4.0, 25.0, 1.0, 100.0]).tolist())
    written = []
    kept = keeping.Checkpoint(
        None, estimation.CHECKPOINT_SECONDS, estimation.CHECKPOINT_TIME_RATIO
    )
    monkeypatch.setattr(keeping.time, "monotonic", lambda: next(clock))
    for n in (1, 2, 3):
        if kept.is_due:
            written.append(n)
            kept.last_written, kept.writing_seconds = next(clock), 1.0
    assert written == [1, 3]


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_returns_the_last_whole_sweep(monkeypatch, tmp_path):
    model, data = model_of(mc.Bernoulli()), RowsInMemory({"x": table(mc.Bernoulli())}, 3)
    sweep, begun = engine.sweep, []

    def interrupted(*given, **options):
        begun.append(None)
        if len(begun) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return sweep(*given, **options)

    monkeypatch.setattr(engine, "sweep", interrupted)
    path = tmp_path / "posterior.npz"
    found = mc.posterior(model, data, factors=2, checkpoint=path)
    assert found.status == "interrupted"
    assert len(found.history) == 3
    assert np.all(np.isfinite(found.predict("x")))
    monkeypatch.setattr(engine, "sweep", sweep)
    rest = mc.posterior(model, data, factors=2, checkpoint=path)
    np.testing.assert_array_equal(trajectory(rest)[:3], trajectory(found))
    with pytest.raises(mc.BackendError, match="not one sweep"):
        mc.posterior(model, data, factors=2, max_seconds=1e-9)


# --- What is refused -----------------------------------------------------------------------------


def test_what_has_no_posterior_in_partitions_is_named():
    data = RowsInMemory({"x": table(mc.Gaussian())}, 3)
    rows = mc.Model([mc.Block("x", LEARNED)], [mc.GaussianRows()])
    for model, match in (
        (rows, "GaussianRows is estimated from all rows"),
        (model_of(LEARNED, standardize="robust"), "sorts whole columns"),
        (model_of(mc.Gaussian(), reduce="mean"), "reduce='mean' counts"),
        (model_of(mc.Hinge()), "Hinge is a loss without a distribution"),
    ):
        with pytest.raises(mc.BackendError, match=match):
            mc.posterior(model, data)
    with pytest.raises(mc.DataError, match="block 'x' has no data"):
        mc.posterior(model_of(LEARNED), RowsInMemory({"y": table(LEARNED)}, 2))
    wrong = table(mc.Bernoulli())
    wrong[15, 2] = 7.0
    with pytest.raises(mc.DataError, match=r"partition 2 .*block 'x'"):
        mc.posterior(model_of(mc.Bernoulli()), RowsInMemory({"x": wrong}, 3))
    found = mc.posterior(model_of(LEARNED), data, factors=1, max_iter=3)
    for ask in (lambda: mc.verify_posterior(model_of(LEARNED), data), found.conformalize):
        with pytest.raises(mc.McframeError, match="partitions"):
            ask()


def test_a_note_on_gaps_is_a_warning():
    x = table(LEARNED)
    x[:, 2] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error", mc.UnobservedWarning)
        with pytest.raises(mc.UnobservedWarning, match="column"):
            mc.posterior(model_of(LEARNED), RowsInMemory({"x": x}, 3), factors=1)
