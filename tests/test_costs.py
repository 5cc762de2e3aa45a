"""The model of what partitions cost, beside what is counted, and the benchmark that shows it."""

import os
import subprocess
import sys

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe.backends import Point
from mcframe.backends.alternating import half_sweep
from mcframe.numerics.operators import LowRank
from mcframe.partitions.binding_rounds import bind_partitions
from mcframe.partitions.executor import OneByOne, bytes_of
from mcframe.partitions.fit_partitions import executor_for
from mcframe.partitions.partitioned_data import RowsInMemory

from .test_benchmarks import script  # noqa: F401
from .test_docs import ROOT
from .test_partitions import N_COLUMNS, N_ROWS, model_of, table


@pytest.mark.parametrize(("n_partitions", "width"), [(1, 2), (3, 5), (6, 3)])
def test_a_sweep_takes_the_rounds_and_the_bytes_of_its_model(
    script,  # noqa: F811
    monkeypatch,
    n_partitions,
    width,
):
    answers, ask = [], OneByOne.answer

    def noted(self, task, p):
        answers.extend([0] if p == 0 else [])
        found = ask(self, task, p)
        answers[-1] += bytes_of(found[1] if task.apart == "rows" else found)
        return found

    monkeypatch.setattr(OneByOne, "answer", noted)
    x, rng = table("gaussian"), np.random.default_rng(0)
    model, data = model_of("gaussian"), RowsInMemory({"x": x}, n_partitions)
    _, program = bind_partitions(model, executor_for(model, data, None))
    solver = mc.Alternating()
    program = program.with_storage_for(solver.in_factors, solver.dense)
    start = Point(LowRank(*(rng.standard_normal((n, width)) for n in program.shape)))
    state = solver.init(program, start, rng)
    assert np.isfinite(state.objective)
    answers.clear()
    for by_rows in (True, False):
        half_sweep(program, state, by_rows)
    assert np.isfinite(state.objective)
    assert state.rank == width
    costs = script("partition_costs").Costs(x.nnz, N_ROWS, N_COLUMNS, width, n_partitions)
    assert len(answers) == 3, "the objective after a half sweep comes with the next round"
    yes_or_no, values = n_partitions * 8, 2 * n_partitions * 8
    assert sum(answers) == costs.sweep_received + yes_or_no + values
    assert answers[1] == n_partitions * (costs.equations + 2 * 8), "the round of the columns"
    assert costs.sweep_operations == x.nnz * (2 * width**2 + 12 * width)
    assert costs.sweep_sent == 2 * 8 * width * N_COLUMNS
    assert costs.certificate_received(10) == n_partitions * costs.certificate_sent(10)


@pytest.mark.parametrize(
    ("kind", "bias", "most"),
    [
        ("gaussian", False, 2),
        ("gaussian", True, 3),
        ("bernoulli", False, 3),
        ("bernoulli", True, 4),
    ],
)
def test_rounds_of_a_sweep_by_losses_and_biases(kind, bias, most):
    """One for new rows of U, and one for those of V; a line search of V, and biases, one each."""
    x, rng = table(kind), np.random.default_rng(0)
    block = attrs.evolve(model_of(kind).blocks[0], bias=bias)
    model = mc.Model([block], [mc.NuclearNorm(3.0)])
    problem, program = bind_partitions(model, executor_for(model, RowsInMemory({"x": x}, 3), None))
    solver = mc.Alternating()
    program = program.with_storage_for(solver.in_factors, solver.dense)
    start = Point(LowRank(*(0.1 * rng.standard_normal((n, 2)) for n in program.shape)))
    state = solver.init(program, start, rng)
    for _ in range(12):  # until a Newton step of the biases suffices
        before = state.objective, problem.partitions.work.rounds
        for by_rows in (True, False):
            half_sweep(program, state, by_rows)
        rounds = problem.partitions.work.rounds - before[1]
        assert state.objective <= before[0] * (1.0 + 1e-9)
    assert rounds == most


@pytest.mark.slow(seconds=5)
def test_the_benchmark_of_partitions_writes_its_part_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    begin, end = (f"<!-- growth of partitions: {word} -->" for word in ("begin", "end"))
    page.write_text(f"before\n{begin}\noutdated\n{end}\nafter\n")
    program = ROOT / "examples" / "benchmarks" / "partitions.py"
    run = subprocess.run(
        [sys.executable, str(program), "--quick", "--page", str(page)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    text = page.read_text()
    assert text.startswith("before")
    assert text.endswith("after\n")
    assert "outdated" not in text
    assert "A projection, not a measurement" in run.stdout
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")]
    measured = [row for row in rows if row[1].strip() == "none"]
    assert [(row[0].strip(), row[2].strip(), row[4].strip()) for row in measured] == [
        ("1", "400", "2"),
        ("2", "800", "2"),
    ]
    assert len(rows) == 1 + 1 + 2 + 1 + 1 + 10, "two tables with their heads"
