"""Laws of ``mc.datasets.hide``: what each mechanism hides, how much, and what it depends on."""

import hashlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mcframe as mc
from mcframe.datasets import hide
from mcframe.datasets.gap_mechanisms import MECHANISMS, mid_ranks

NAMES = list("abcdef")
# The options of each mechanism on the tables of this file; share is given beside them.
OPTIONS = {
    "mcar": {},
    "mar": {"by": "b"},
    "self-masked": {},
    "censored": {},
    "blocks": {"columns": [["a", "c"], ["d", "e", "f"]]},
    "skip": {"by": {"f": "no"}, "columns": ["a", "c", "e"]},
    "monotone": {"columns": ["d", "a", "e", "c"]},
    "clusters": {"by": "e"},
    "two-phase": {"columns": ["c", "d"], "by": ["a", "b"]},
}
SINGLE = ("mcar", "mar", "self-masked", "monotone")


def drawn(rng, n, gaps=0.0):
    """A table of numbers, whole numbers, dates, ordered categories and text."""
    table = pd.DataFrame(
        {
            "a": rng.standard_normal(n),
            "b": rng.integers(0, 20, n).astype(float),
            "c": pd.array(rng.integers(0, 50, n), dtype="Int64"),
            "d": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "e": pd.Categorical.from_codes(rng.integers(0, 4, n), list("wxyz"), ordered=True),
            "f": rng.choice(["no", "yes"], n),
        }
    )
    return table.mask(rng.random(table.shape) < gaps)


def hidden_by(how, table, share=0.3, **options):
    """The answer for a table of ``drawn``."""
    shares = {} if how == "skip" else {"share": share}
    return hide(table, how=how, **shares, **OPTIONS[how], **options)


@st.composite
def requests(draw):
    """A mechanism, a table, and the other options."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table = drawn(rng, draw(st.integers(30, 80)), draw(st.sampled_from([0.0, 0.1])))
    options = {"random_state": draw(st.integers(0, 100))}
    options["keep"] = draw(st.sampled_from([(1, 2), (0, 0), (2, 5)]))
    how = draw(st.sampled_from([how for how in MECHANISMS if how != "skip"]))
    if "largest" in MECHANISMS[how].takes:
        options["largest"] = draw(st.booleans())
    return how, table, draw(st.sampled_from([0.15, 0.3, 0.5])), options


def whole_units(how, cells, observed, table):
    """True if a mask hides all or nothing of what the mechanism hides together."""
    if how == "censored":
        return all(
            table[name][cells[name]].min() > table[name][observed[name] & ~cells[name]].max()
            for name in "abcd"
            if cells[name].any()
        )
    left = observed & ~cells
    if how == "blocks":
        groups = OPTIONS[how]["columns"]
        return all(not (cells[g].any(axis=1) & left[g].any(axis=1)).any() for g in groups)
    if how == "two-phase":
        columns = OPTIONS[how]["columns"]
        others = cells.drop(columns=columns).to_numpy()
        both = cells[columns].any(axis=1) & left[columns].any(axis=1)
        return not (both.any() or others.any())
    if how == "monotone":
        places = [cells[name].to_numpy() for name in OPTIONS[how]["columns"]]
        later = [left[name].to_numpy() for name in OPTIONS[how]["columns"]]
        gone = np.logical_or.accumulate(places)
        return not (places[0].any() or (gone & later).any())
    if how == "clusters":
        some, rest = (mask.groupby(table["e"], observed=True).any() for mask in (cells, left))
        return not (some & rest).to_numpy().any() and not cells["e"].any()
    return True


@given(requests())
def test_what_is_hidden_was_observed_and_all_else_stays(request_):
    how, table, share, options = request_
    answer = hidden_by(how, table, share, **options)
    cells = answer.cells
    assert list(cells) == NAMES
    assert cells.index.equals(table.index)
    assert not (cells & table.isna()).to_numpy().any()
    assert (answer.table.isna() == (cells | table.isna())).all(axis=None)
    for name in NAMES:
        stays = ~cells[name]
        assert answer.table[name][stays].equals(table[name][stays])
        assert answer.table[name].dtype == table[name].dtype
    assert answer.n_hidden == cells.to_numpy().sum()


@given(requests())
def test_the_share_is_met_and_nothing_is_emptied(request_):
    how, table, share, options = request_
    keep = options["keep"]
    answer = hidden_by(how, table, share, **options)
    asked, hidden = round(share * answer.n_candidates), answer.n_hidden
    assert hidden <= asked
    if how in SINGLE and keep == (0, 0):
        assert hidden == asked
    left = answer.table.notna()
    lost = answer.cells.any(axis=1)
    assert (left.sum(axis=1) >= keep[0])[lost].all()
    assert (left.sum() >= keep[1])[answer.cells.any()].all()


@given(requests())
def test_a_seed_says_all(request_):
    how, table, share, options = request_
    first = hidden_by(how, table, share, **options).cells
    assert first.equals(hidden_by(how, table, share, **options).cells)
    levels = pl.col("e").cast(pl.Enum(list("wxyz")))
    polars = pl.from_pandas(table).with_columns(levels)
    of_polars = hidden_by(how, polars, share, **options).cells
    np.testing.assert_array_equal(of_polars.to_numpy(), first.to_numpy())


@given(requests().filter(lambda request_: request_[0] not in SINGLE[:3]))
def test_units_are_hidden_as_a_whole(request_):
    how, table, share, options = request_
    options |= {"keep": (0, 2)}
    if how == "censored":
        options["largest"] = True
    cells = hidden_by(how, table, share, **options).cells
    assert whole_units(how, cells, table.notna(), table)


@pytest.mark.parametrize("how", ["censored", "blocks", "monotone", "clusters", "two-phase"])
def test_entries_at_random_break_these_laws(how):
    """The planted fault: a check that entries at random pass would say nothing."""
    table = drawn(np.random.default_rng(0), 60)
    cells = hide(table, 0.3).cells
    assert not whole_units(how, cells, table.notna(), table)


@pytest.mark.parametrize("largest", [True, False])
def test_a_share_is_short_by_less_than_a_unit(largest):
    table = pd.DataFrame({"a": [1, 1, 1, 2, 2, 2, 2, 3, 3, 3]})
    of_columns = hide(table, 0.6, "censored", largest=largest, keep=(0, 2)).cells["a"]
    ends = [3] if largest else [1]  # 2 as well would be .7
    assert of_columns.tolist() == table["a"].isin(ends).tolist()
    with pytest.raises(mc.DataError, match=r"of 2 entries, and the fewest that .* are 3"):
        hide(table, 0.2, "censored", largest=largest, keep=(0, 2))


def rates(cells, ranks, parts=8):
    """Shares of hidden entries in equal parts of ranks, and the middles of these parts."""
    of_part = np.minimum((ranks * parts).astype(int), parts - 1)
    return (np.arange(parts) + 0.5) / parts, np.bincount(of_part, cells) / np.bincount(of_part)


def slope(cells, ranks):
    """The slope of the logit of being hidden in ranks, by logistic regression."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=np.inf).fit(ranks[:, None], cells)
    return fitted.coef_[0, 0]


N = 20_000


@pytest.fixture(scope="module")
def independent():
    """A table of independent columns, so that a mechanism depends on what it names alone."""
    return np.random.default_rng(5).standard_normal((N, 4))


@pytest.mark.parametrize("strength", [1.0, 4.0])
@pytest.mark.parametrize("largest", [True, False])
def test_missing_at_random_is_logistic_in_another_column(independent, strength, largest):
    options = {"by": 1, "strength": strength, "largest": largest, "random_state": 3}
    cells = hide(independent, 0.3, "mar", **options).cells
    assert not cells[:, 1].any()
    signed = strength if largest else -strength
    for column in (0, 2, 3):
        by_other = slope(cells[:, column], mid_ranks(independent[:, 1]))
        assert by_other == pytest.approx(signed, abs=0.25)
        by_itself = slope(cells[:, column], mid_ranks(independent[:, column]))
        assert by_itself == pytest.approx(0.0, abs=0.25)
        assert cells[:, column].mean() == pytest.approx(0.3, abs=0.02)


def test_missing_at_random_takes_the_mean_rank_of_several_columns(independent):
    cells = hide(independent, 0.4, "mar", by=[0, 1], random_state=1).cells
    assert not cells[:, :2].any()
    mean = mid_ranks(mid_ranks(independent[:, 0]) + mid_ranks(independent[:, 1]))
    assert slope(cells[:, 2], mean) == pytest.approx(4.0, abs=0.25)


@pytest.mark.parametrize("largest", [True, False])
def test_self_masked_is_logistic_in_the_value(independent, largest):
    cells = hide(independent, 0.3, "self-masked", largest=largest).cells
    for column in range(4):
        own = mid_ranks(independent[:, column])
        assert slope(cells[:, column], own) == pytest.approx(4.0 if largest else -4.0, abs=0.25)
        other = slope(cells[:, column], mid_ranks(independent[:, column - 1]))
        assert other == pytest.approx(0.0, abs=0.25)


def test_completely_at_random_depends_on_nothing(independent):
    cells = hide(independent, 0.3).cells
    for column in range(4):
        for other in range(4):
            of_value = slope(cells[:, column], mid_ranks(independent[:, other]))
            assert of_value == pytest.approx(0.0, abs=0.25)


def test_the_second_phase_depends_on_cheap_columns(independent):
    cells = hide(independent, 0.5, "two-phase", columns=[2, 3]).cells
    np.testing.assert_array_equal(cells[:, 2], cells[:, 3])
    mean = mid_ranks(mid_ranks(independent[:, 0]) + mid_ranks(independent[:, 1]))
    assert slope(cells[:, 2], mean) == pytest.approx(4.0, abs=0.25)
    assert cells[:, 2].sum() == N // 2


def test_the_same_share_drops_out_at_each_column(independent):
    cells = hide(independent, 0.4, "monotone").cells
    assert cells.sum() == round(0.4 * 3 * N)
    gone = cells.mean(axis=0)
    hazards = 1.0 - (1.0 - gone[1:]) / (1.0 - gone[:-1])
    np.testing.assert_allclose(hazards, hazards.mean(), atol=0.02)


def test_values_that_skip_decide_alone():
    table = drawn(np.random.default_rng(1), 50, 0.1)
    answer = hide(table, how="skip", by={"e": ["w", "y"]}, columns=["a", "f"])
    rows = table["e"].isin(["w", "y"])
    for name in NAMES:
        expected = rows & table[name].notna() & (name in "af")
        assert answer.cells[name].tolist() == expected.tolist()
    one = hide(table, how="skip", by={"f": "no"}, columns="a").cells
    assert one["a"].tolist() == ((table["f"] == "no") & table["a"].notna()).tolist()
    of_array = hide(
        [[1.0, 2.0], [3.0, 4.0], [1.0, 5.0], [7.0, 8.0]], how="skip", by={0: 1.0}, columns=1
    )
    assert of_array.cells[:, 1].tolist() == [True, False, True, False]


def test_a_column_that_decides_is_one_with_the_fewest_gaps():
    table = drawn(np.random.default_rng(1), 50)
    for name in "abcf":
        table.loc[:3, name] = None
    chosen = {hide(table, 0.2, "mar", random_state=seed).by for seed in range(20)}
    assert chosen == {("d",), ("e",)}


def test_ranks_count_equal_values_alike_and_gaps_as_the_middle():
    ranks = mid_ranks(np.array([3.0, 1.0, 3.0, np.nan, 2.0]))
    assert ranks.tolist() == [0.75, 0.125, 0.75, 0.5, 0.375]


# The masks of one table on every machine.
DIGESTS = {
    "mcar": "da3a95ee5f5e",
    "mar": "68ba6f12e704",
    "self-masked": "983816a1687e",
    "censored": "0776f9a2163a",
    "blocks": "216779124116",
    "skip": "b0eac601ba07",
    "monotone": "d8784912f1b3",
    "clusters": "9651353948d6",
    "two-phase": "a0a079aa14a1",
}


@pytest.mark.parametrize("how", MECHANISMS)
def test_masks_are_the_same_on_every_machine(how):
    table = drawn(np.random.default_rng(2), 40, 0.05)
    cells = hidden_by(how, table, random_state=7).cells.to_numpy()
    assert hashlib.sha256(np.packbits(cells).tobytes()).hexdigest()[:12] == DIGESTS[how]


def test_types_stay_where_they_can():
    table = drawn(np.random.default_rng(0), 30)
    table["n"] = np.arange(30)
    table["m"] = np.arange(30)
    table["t"] = np.arange(30) > 9
    answer = hide(table, 0.3, columns=[*NAMES, "n", "t"]).table
    assert answer[NAMES].dtypes.equals(table[NAMES].dtypes)
    assert answer["n"].dtype == float  # as pandas has whole numbers with NaN
    assert answer["m"].dtype == table["m"].dtype  # without a gap
    assert answer["t"].dropna().map(type).eq(bool).all()


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_libraries_keep_all_types(library):
    pandas = drawn(np.random.default_rng(0), 40)
    pandas["n"] = np.arange(40)
    pandas["t"] = np.arange(40) > 9
    pandas["z"] = pd.to_datetime(pandas["d"]).dt.tz_localize("Europe/Berlin")
    table = pl.from_pandas(pandas) if library == "polars" else pa.Table.from_pandas(pandas)
    answer = hide(table, 0.3)
    assert answer.table.schema == table.schema
    expected = hide(pandas, 0.3).cells.to_numpy()
    cells = answer.cells.to_pandas().to_numpy()
    np.testing.assert_array_equal(cells, expected)
    for name in table.columns if library == "polars" else table.column_names:
        before, after = (
            t[name].to_pylist() if library == "pyarrow" else t[name].to_list()
            for t in (table, answer.table)
        )
        place = list(pandas).index(name)
        assert after == [
            None if gap else value for gap, value in zip(expected[:, place], before, strict=True)
        ]
    if library == "pyarrow":
        assert answer.table["e"].type.ordered
        assert answer.table["e"].chunk(0).dictionary.to_pylist() == list("wxyz")


def test_a_hidden_table_can_be_completed_and_compared():
    rng = np.random.default_rng(0)
    factor = rng.standard_normal(200)
    table = pd.DataFrame(
        factor[:, None] + 0.3 * rng.standard_normal((200, 4)), columns=list("abcd")
    )
    answer = hide(table, 0.2, "mar", by="a")
    filled = mc.complete(answer.table).table
    errors = (filled - table).to_numpy()[answer.cells.to_numpy()]
    assert np.sqrt(np.mean(errors**2)) < 0.6


def test_an_answer_says_what_was_hidden():
    table = drawn(np.random.default_rng(0), 40)
    assert repr(hidden_by("mar", table)) == "60 of 200 entries hidden (30.0%), mar by 'b'"
    assert hide(np.zeros((4, 5)), 0.0).n_hidden == 0


WRONG = [
    ({"share": 0.3, "how": "magic"}, "how='magic' was given; 'mcar', 'mar'"),
    ({"how": "mcar"}, "share=None was given; a share from 0 up to 1"),
    ({"share": 0.3, "how": "skip", "by": {"f": "no"}, "columns": "a"}, "leave share= out"),
    ({"share": 0.3, "by": "a"}, "by='a' was given, and how='mcar' does not take it"),
    ({"share": 0.3, "largest": False}, "largest=False was given, and how='mcar'"),
    (
        {"share": 0.3, "how": "blocks", "columns": [["a"]], "strength": 2.0},
        "strength=2.0 was given, and how='blocks'",
    ),
    (
        {"share": 0.3, "how": "mar", "strength": 0.0},
        "strength=0.0 was given; a finite number above 0",
    ),
    ({"share": 0.3, "how": "mar", "largest": "yes"}, "largest='yes' was given; True or False"),
    ({"share": 0.3, "how": "mar", "by": "bb"}, "by= names 'bb', which is no column"),
    ({"share": 0.3, "columns": ["a", "x"]}, "columns= names 'x', which is no column; the columns"),
    ({"share": 0.3, "columns": ["a", "a"]}, "columns= names 'a' twice"),
    ({"share": 0.3, "columns": []}, r"columns=\[\] was given; name a column"),
    (
        {"share": 0.3, "how": "mar", "by": "a", "columns": ["a"]},
        "'a' is in by= and in columns=",
    ),
    ({"share": 0.3, "how": "mar", "columns": NAMES}, "needs a column that decides beside"),
    ({"share": 0.3, "how": "mar", "by": NAMES}, "how='mar' needs a column at least that may lose"),
    ({"share": 0.3, "how": "two-phase"}, "how='two-phase' needs columns="),
    ({"share": 0.3, "how": "blocks"}, "how='blocks' needs columns="),
    ({"share": 0.3, "how": "blocks", "columns": ["a", "b"]}, "how='blocks' needs columns="),
    ({"share": 0.3, "how": "blocks", "columns": [["a"], ["b", "a"]]}, "columns= names 'a' twice"),
    ({"share": 0.3, "how": "clusters"}, "how='clusters' needs by="),
    ({"share": 0.3, "how": "clusters", "by": ["a", "b"]}, "needs one column that decides"),
    ({"share": 0.3, "how": "monotone", "columns": "a"}, "how='monotone' needs two columns"),
    ({"share": 0.3, "how": "censored", "columns": "f"}, "'f': its values have no order"),
    ({"how": "skip", "columns": "a"}, "how='skip' needs by="),
    ({"how": "skip", "by": {"f": "no"}}, "how='skip' needs columns="),
    ({"how": "skip", "by": "f", "columns": "a"}, "by='f' was given; how='skip' needs by="),
    ({"how": "skip", "by": {"f": "maybe"}, "columns": "a"}, "value 'maybe' of by= does not occur"),
    ({"how": "skip", "by": {"f": ["no", "yes"]}, "columns": "a"}, "column 'a' would keep fewer"),
    ({"share": 0.3, "keep": 3}, "keep=3 was given; a pair is needed"),
    ({"share": 0.3, "keep": (-1, 2)}, r"keep\[0\]=-1 was given; a whole number"),
    ({"share": 0.3, "keep": (6, 2)}, "hides nothing, since keep="),
    (
        {"share": 0.05, "how": "clusters", "by": "f"},
        "the fewest that how='clusters' hides together",
    ),
    ({"share": 0.3, "random_state": -1}, "random_state=-1 was given"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_mistakes_are_named_with_a_remedy(options, message):
    table = drawn(np.random.default_rng(0), 40)
    with pytest.raises(mc.McframeError, match=message):
        hide(table, **options)


def test_columns_without_an_order_are_refused_where_one_is_needed():
    table = pd.DataFrame({"a": range(6), "b": [{"k": k} for k in range(6)]})
    with pytest.raises(
        mc.DataError, match=r"column 'b': .* cannot be put in order as they are; leave"
    ):
        hide(table, 0.3, "self-masked")
    with pytest.raises(mc.DataError, match=r"column 'b': .* cannot be put in order"):
        hide(table, 0.3, "mar", by="b")
