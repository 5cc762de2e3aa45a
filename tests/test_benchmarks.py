"""The benchmarks: problems by their seeds, and the command on a tiny one."""

import importlib
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import mcframe as mc

from .test_docs import ROOT

FOLDER = ROOT / "examples" / "benchmarks"
SIZES = {"p1-0.1": (1000, 600), "mc-b": (80, 40), "imputation": (2000, 30)}


@pytest.fixture
def script(monkeypatch):
    """A file of the folder as the scripts beside it import it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(FOLDER)):
            del sys.modules[name]


@pytest.fixture
def problems(script):
    return script("problems")


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_scripts_find_all_that_they_use_of_the_package(script, name):
    script(name)


def test_tiny_instances_repeat_by_seed_and_hold_out_what_was_not_observed(problems):
    for name in problems.NAMES:
        made, again = (problems.instance(name, quick=True, seed=1) for _ in range(2))
        other = problems.instance(name, quick=True, seed=2)
        np.testing.assert_array_equal(made.values, again.values)
        assert made.values.shape != other.values.shape or (made.values != other.values).any()
        cells = made.rows * made.shape[1] + made.columns
        held = made.held_rows * made.shape[1] + made.held_columns
        assert np.unique(cells).size == cells.size == made.values.size
        assert np.unique(held).size == held.size == made.truth.size
        assert not np.isin(held, cells).any()
        labels = made.kinds[made.columns] == "labels"
        assert set(made.values[labels].tolist()) <= {0.0, 1.0}


def test_instances_come_back_from_their_files(problems, tmp_path):
    made = problems.instance("p3-mixed-0.1", quick=True)
    made.save(tmp_path / "made.npz")
    read = problems.Instance.load(tmp_path / "made.npz")
    assert (read.name, read.shape, read.weight) == ("p3-mixed-0.1", made.shape, made.weight)
    assert read.blocks() == made.blocks()
    assert read.data().nnz == made.values.size


@pytest.mark.parametrize(("name", "shape"), SIZES.items())
def test_shapes(problems, name, shape):
    made = problems.instance(name)
    assert made.shape == shape
    assert made.kinds.shape == made.shape[1:]


def test_the_weight_is_a_share_of_the_largest_that_is_of_use(problems):
    made = problems.instance("p1-0.02", quick=True)
    table = np.nan_to_num(made.data())
    np.testing.assert_allclose(made.weight, 0.02 * np.linalg.norm(table, 2))


def test_times_to_a_gap_are_medians_or_brackets(script):
    report = script("report")

    def run(iterations, *trace):
        return {"iterations": iterations, "trace": [(s, 1 + gap, -np.inf) for s, gap in trace]}

    own = [run(0, (1.0, 0.5), (seconds, 1e-3)) for seconds in (4.0, 2.0, 30.0)]
    assert report.time_to(own, 1e-2, zero=1.0) == "4"
    assert report.time_to(own, 1e-4, zero=1.0) == "–"
    counted = [run(5, (1.0, 0.1)), run(10, (2.0, 1e-3)), run(5, (3.0, 0.1)), run(10, (6.0, 1e-3))]
    assert report.time_to(counted, 1e-2, zero=1.0) == "2 – 4"
    assert report.time_to(counted, 0.2, zero=1.0) == "≤ 2"
    assert report.certified_time(own) == "–"


def printed(name, *arguments):
    """What a script prints, in a process of its own with one thread."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment |= {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "NUMBA")}
    command = [sys.executable, FOLDER / name, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compared(out, *arguments):
    """The command; its results, its table, what it prints."""
    said = printed("compare.py", "--quick", "--out", out, *arguments)
    table = (out / "table.md").read_text(encoding="utf-8")
    return json.loads((out / "results.json").read_text()), table, said


def test_the_page_of_scaling_has_a_place_for_each_part(script):
    text = script("pages").SCALING.read_text(encoding="utf-8")
    long = script("large_tables").KINDS["long"]
    for part in (*script("growth").PARTS, long.part, "accelerator", "times"):
        begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
        assert text.index(begin) < text.index("\n| ", text.index(begin)) < text.index(end)


def test_norms_by_counts_are_measured_beside_plain_ones(script, monkeypatch):
    growth, problems = script("growth"), script("problems")
    tiny = problems.instance("p7", quick=True)
    where = tiny.held_rows, tiny.held_columns
    monkeypatch.setitem(growth.UNEVEN, "tiny", lambda: (tiny.data(), where, tiny.truth))
    (row,) = list(growth.count_shares({("tiny", 0.9): (8,)}))[2:]
    _, weight, rank, _, error, rank_by_counts, _, error_by_counts = row.strip("| ").split(" | ")
    assert (int(weight), int(rank), int(rank_by_counts)) == (8, 2, 2)
    assert 0.0 < float(error_by_counts) < float(error) < 0.5


@pytest.mark.slow(seconds=4)
def test_costs_are_measured_in_processes_of_their_own(script):
    (row,) = list(script("growth").wide((140,)))[2:]
    columns, seconds, _ = row.strip("| ").split(" | ")
    assert (columns, 0.0 < float(seconds) < 30.0) == ("140", True)


@pytest.mark.slow(seconds=20)
def test_fits_and_their_peer_are_measured_beside_busy_processes(script):
    rows = [row.strip("| ").split(" | ") for row in script("growth").busy((0, 1), quick=True)]
    assert rows[0][-1] == "cmfrec als_chol"
    assert [row[0] for row in rows[2:]] == ["0", "1"]
    assert all(0.0 < float(second) < 30.0 for row in rows[2:] for second in row[1:])


@pytest.mark.slow(seconds=4)
def test_fits_of_unlabeled_cells_are_measured_stored_and_by_blocks(script):
    cases = [(300, 200, 4000, 6, stored, 1e-3) for stored in (True, False)]
    rows = [row.strip("| ").split(" | ") for row in script("growth").unlabeled(cases)]
    stored, *looks = rows[2:]
    assert stored[3] == "stored, `proximal`"
    assert {row[3] for row in looks} == {"by blocks, `alternating`"}
    ends = [look[7] for look in (stored, looks[-1])]
    assert all(float(gap) <= 1e-3 < float(looks[0][7]) for gap in ends)
    assert stored[6] == "64"
    assert [row[8] for row in (stored, looks[-1])] == ["0.0e+00"] * 2


@pytest.mark.slow(seconds=6)
def test_sweeps_of_posteriors_are_measured_on_disk(script):
    rows = [row.strip("| ").split(" | ") for row in script("growth").posteriors(2e4)][2:]
    assert [row[0].split()[1] for row in rows] == ["numbers", "labels"]
    for _, n_partitions, *seconds, _ in rows:
        assert n_partitions == "1"
        assert all(0.0 < float(second) < 10.0 for second in seconds)


@pytest.mark.slow(seconds=9)
def test_certified_max_norms_are_measured_beside_the_published_method(script, monkeypatch):
    growth = script("growth")
    monkeypatch.setattr(growth, "PUBLISHED_WIDTHS", (20,))
    looks = [row.strip("| ").split(" | ") for row in growth.max_norms({"300 x 300": 1e-1})][2:]
    *certified, last, published = looks
    assert {row[1] for row in (*certified, last)} == {"`factored`"}
    assert published[1:3] == ["published, k = 20", "1000"]
    assert float(last[4]) <= float(last[5]) <= 0.1 < float(published[4])


def test_drawn_problems_repeat_by_seed(script):
    drawn = script("drawn").drawn
    made, again, other = drawn(7), drawn(7), drawn(17)
    assert made.name == again.name != other.name
    np.testing.assert_array_equal(made.data["x"], again.data["x"])


@pytest.mark.slow
def test_choices_are_measured_beside_the_best(tmp_path):
    said = printed(
        "choosing.py", "--problems", "7", "8", "--seconds", "2", "--out", tmp_path / "a.jsonl"
    )
    (row,) = [line for line in said.splitlines() if line.startswith("| 7: 163 x 82")]
    chosen, best = (row.split("|")[k].strip() for k in (2, 4))
    assert {chosen, best} <= {"proximal", "alternating", "factored"}
    (run,) = map(json.loads, (tmp_path / "a.jsonl").read_text().splitlines())
    assert set(run["looks"]) == {"proximal", "alternating", "factored"}
    assert all(looks[-1][2] <= 1e-6 for looks in run["looks"].values())


def test_the_loops_are_measured_beside_their_bounds():
    rows = printed("kernels.py", "--quick", "--runs", "1", "--widths", "2").splitlines()
    loops = [row for row in rows if row.startswith("| ") and not row.startswith("| loop")]
    assert len(loops) == 12
    assert all(float(row.split("|")[-2]) > 0 for row in loops)


def test_an_accelerator_is_estimated_from_what_a_fit_moves_and_computes(script, monkeypatch):
    kernels, rng = script("kernels"), np.random.default_rng(0)
    rows, columns = np.divmod(np.sort(rng.choice(300 * 200, 4000, replace=False)), 200)
    pattern = kernels.Pattern.of((300, 200), rows, columns)
    fit = {"iterations": 3, "products": 800, "seconds": 1.0}
    monkeypatch.setattr(kernels.ledger, "latest", lambda *_: ("abcd", fit))
    lines = list(kernels.accelerator_lines(pattern, rows, columns, 1, rng))
    table = [line.strip("| ").split(" | ") for line in lines if line[0:2] == "| "][2:]
    names, estimates = [row[0] for row in table], [float(row[-2]) / 1e3 for row in table]
    assert names == [*kernels.OF_AN_ITERATION, kernels.LANCZOS, kernels.CHOLESKY]
    # Each loop takes the longer of both times, and an iteration or a block takes it so often.
    bytes_of_entries = 16 * 4000 + 8 * 10 * 500
    assert estimates[0] == pytest.approx(bytes_of_entries / 1.5e12, rel=0.1)
    total = (
        3 * (2 * estimates[0] + estimates[1] + estimates[2]) + 100 * estimates[3] + estimates[4]
    )
    said = float(re.search(r"they would take (\S+) s", lines[-1]).group(1))
    assert said == pytest.approx(total, rel=0.1)


@pytest.mark.slow(seconds=8)
def test_the_command_compares_and_names_what_is_absent(tmp_path):
    chosen = ["--problems", "p1-0.1", "--methods", "mcframe", "full SVD", "cmfrec als_cg"]
    nowhere = ["--runs", "1", "--python", f"cmfrec={tmp_path / 'nowhere'}"]
    results, table, _ = compared(tmp_path, *chosen, *nowhere)
    record = results["problems"]["p1-0.1"]
    ours, plain = record["runs"]
    assert (ours["method"], plain["method"]) == ("mcframe", "full SVD")
    for run in (ours, plain):
        bound = record["reference"]["bound"]
        assert bound <= run["objective"] * (1 + 1e-12) <= bound * (1 + 2e-6)
        assert run["peak_mb"] > 10
        assert 0 < run["seconds"] < 60
    # The objective that the plain method sees is the one that mcframe computes.
    assert plain["trace"][-1][1] == pytest.approx(plain["objective"], rel=1e-12)
    assert "| cmfrec als_cg |" in table
    assert "absent: No such file" in table
    assert (tmp_path / "gap-p1-0.1.png").stat().st_size > 1000
    assert "only count" not in table
    # What was measured is not measured again.
    again, _, said = compared(tmp_path, *chosen, *nowhere)
    assert again["problems"]["p1-0.1"]["runs"] == record["runs"]
    assert "run 1" not in said


@pytest.mark.slow
def test_a_busy_machine_has_a_table_of_its_own(tmp_path):
    chosen = ["--problems", "p1-0.1", "--methods", "mcframe", "--runs", "1", "--busy", "1"]
    results, table, _ = compared(tmp_path, *chosen)
    assert results["problems"]["p1-0.1"]["runs"][0]["seconds"] > 0
    assert "beside every method 1 process that only counts" in table
    with pytest.raises(AssertionError, match="holds results with busy=1"):
        compared(tmp_path, *chosen[:-2])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("sweeps", "status"),
    [
        pytest.param("0", "certified", marks=pytest.mark.slow(seconds=5)),
        pytest.param("1", "iteration_limit", marks=pytest.mark.slow(seconds=3)),
    ],
)
def test_a_small_large_table(tmp_path, sweeps, status):
    command = [sys.executable, FOLDER / "large_tables.py", "--entries", "2e4", "--memory", "2GB"]
    command += ["--sweeps", sweeps, "--folder", tmp_path]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"in 1 partitions: {status}" in made.stdout
    assert [file.name for file in tmp_path.iterdir()] == ["table"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.slow(seconds=35)
@pytest.mark.parametrize("kind", ["wide", "long"])
def test_large_tables_write_their_part_of_a_page(tmp_path, script, kind):
    page, part = tmp_path / "page.md", script("large_tables").KINDS[kind].part
    page.write_text(f"before\n<!-- {part}: begin -->\n<!-- {part}: end -->\n")
    command = [sys.executable, FOLDER / "large_tables.py", "--page", page, "--sizes", "2e4"]
    command += ["--kind", kind]
    subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split("|")[1:-1] for line in page.read_text().splitlines() if line[:2] == "| "]
    assert [row[1].strip() for row in rows] == ["reading", "---", "fit", "posterior"]
    assert all(len(row) == 7 for row in rows)
    assert "gap " in page.read_text()


def test_sizes_are_read_with_their_units(script):
    large = script("large_tables")
    assert [large.in_bytes(size) for size in ("6GB", "1e3", "2.5mb")] == [6e9, 1e3, 2.5e6]


@pytest.mark.parametrize("method", ["variational", "sampler"])
def test_certainty_is_measured_against_a_drawn_truth(script, method):
    certainty = script("certainty")
    assert method in certainty.METHODS
    share, spread, in_tail, _ = certainty.measured(mc.Gaussian(variance=0.25), 1.0, 0, method)
    assert 0.75 < share <= 1.0
    assert 0.2 < spread < 0.6
    assert in_tail in (False, True)


def test_the_sampler_is_compared_with_numpyro(script, monkeypatch):
    pytest.importorskip("numpyro")
    beside = script("beside_numpyro")
    for name, number in {"N_WARMUP": 200, "N_DRAWS": 300, "TOL": 0.2}.items():
        monkeypatch.setattr(beside, name, number)
    name, scores, distance, *_ = beside.compared("Gaussian, variance .25", 0)
    assert name in beside.MODELS
    assert float(scores) < 2.0
    assert float(distance) < 0.3


@pytest.mark.parametrize("name", ["labels", "levels", "counts, Poisson"])
def test_tables_beside_numpyro_have_the_holes_and_the_weight_of_their_model(script, name):
    beside = script("beside_numpyro")
    y, model, weight = beside.table(name, 0)
    assert y.shape == (40, 10)
    assert 0.1 < np.isnan(y).mean() < 0.5
    assert (model.terms[0].weight, model.blocks[0].likelihood) == (weight, beside.MODELS[name][0])


@pytest.mark.parametrize("method", ["chains", "variational"])
def test_calibration_is_measured(script, method):
    line = script("calibration").line_of("Gaussian, noise drawn", method, n_tables=3, seed=0)
    assert (line["tables"], line["method"]) == (3, method)
    assert all(kind["n"] > 0 for kind in line["kinds"].values())


@pytest.mark.slow(seconds=1)
def test_lines_of_certainty_have_numbers_of_drawn_tables(script, tmp_path):
    certain = script("certainty_tables")
    names = [name for name, *_ in certain.lines()]
    assert len(set(names)) == len(names)
    by_name = {name: measure for name, _, _, measure in certain.lines()}
    assert 0.5 < by_name["intervals of single cells, MCAR"](0, "mcframe") <= 1.0
    assert (
        0.5 < by_name["variance of y in draws, 50 rows, over that of all values"](0, "mcframe") < 2
    )
    assert by_name["pooled square, MAR, terms= given"](0, "IterativeImputer") is None
    runs = certain.Runs(tmp_path, ("line", "method", "seed"))
    for seed in (0, 1):
        runs.add({"line": names[0], "method": "mcframe", "seed": seed, "value": 0.9 - seed / 10})
    runs = [one | {"seconds": 1.0} for one in runs.latest()]
    assert "85.0% ± 5.0%" in "\n".join(certain.table(Latest(runs)))


@pytest.mark.slow(seconds=1)
def test_regressions_in_groups_have_intervals_of_drawn_tables(script, tmp_path):
    grouped = script("grouped")
    shape, method = "8 groups of 40", grouped.METHODS[0]
    runs = grouped.Runs(tmp_path, ("shape", "method", "seed"))
    for seed in (0, 1):
        values = grouped.measured(shape, method, seed)
        assert abs(values["bias"]) < values["width"] < 0.6
        runs.add({"shape": shape, "method": method, "seed": seed, "seconds": 1.0} | values)
    assert f"| {shape} | {method} |" in "\n".join(grouped.table(runs))


@pytest.mark.slow(seconds=6)
def test_panels_have_errors_and_intervals_of_drawn_tables(script, tmp_path):
    panels = script("panels")
    shape, runs = panels.SHAPES[1], panels.Runs(tmp_path, ("shape", "method", "seed"))
    errors = []
    for method in (panels.METHODS[0], panels.METHODS[3]):
        for seed in (0, 1):
            values = panels.measured(shape, method, seed)
            runs.add({"shape": shape, "method": method, "seed": seed, "seconds": 1.0} | values)
            errors.append(values["error"])
    assert sum(errors[:2]) < sum(errors[2:])
    assert f"| {shape} | {panels.METHODS[0]} |" in "\n".join(panels.table(runs, [shape]))


class Latest:
    """Runs that were made."""

    def __init__(self, runs):
        self.latest = lambda: runs


def test_standard_deviations_are_those_that_the_sampler_had(script):
    """Of each likelihood in the smallest table, with the weight given; labels are a little off."""
    beside = script("beside_sampler")
    stored = [one for one in beside.stored() if one["shape"] == "30x8"]
    given = [one for one in stored if one["model"].endswith("weight given")]
    assert len(given) == len(beside.LIKELIHOODS)
    for line in given:
        model, table, hidden = beside.drawn(line["model"], (30, 8), line["seed"])
        _, sd, _ = beside.moments(model, table)
        ratio = np.median(sd[hidden]) / line["hidden"]["sampler sd"]
        assert 0.88 < ratio < 1.12, line["model"]
        assert 0.9 < line["hidden"]["sd ratio"] < 1.1
