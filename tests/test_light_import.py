"""What is heavy is imported where it is used: declaring a model needs none of it."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import mcframe
from mcframe.contracts import BackendError
from mcframe.contracts.deferred import Deferred

ROOT = pathlib.Path(mcframe.__file__).parents[1]
HEAVY = (
    *("cvxpy", "scs", "clarabel", "numba", "llvmlite", "matplotlib", "pandas", "joblib"),
    *("sklearn", "rich", "scipy.optimize", "scipy.stats", "scipy.sparse.csgraph"),
)
DECLARED = """
risk = mc.RiskMixture(pn=1.0, likelihood=mc.Bernoulli())
model = mc.Model(
    [mc.Block("x", mc.Gaussian(), bias=True), mc.Block("y", mc.Ordinal(3)), mc.Block("z", risk)],
    [mc.NuclearNorm(0.1), mc.Calibration("x", [1.0, 1.0], [0.0, 0.0])],
)
str(model), mc.Proximal(), mc.Reference(), mc.Observations([[1.0]], weights=2.0)
"""
FITTED = """
import numpy as np
model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])
data = {"x": np.eye(3)}
"""
REFERENCE_ASKED = """
try:
    mc.fit(model, data, backend="reference")
except mc.BackendError as error:
    said = str(error)
"""


def answer(code, asked, path=""):
    """What an expression is in a fresh interpreter after ``import mcframe as mc`` and the code."""
    lines = ["import json, sys", "import mcframe as mc", code, f"print(json.dumps({asked}))"]
    given = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(path), str(ROOT))))}
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_what_is_heavy_is_not_loaded():
    """Neither by the import nor by what is declared after it."""
    loaded = answer(DECLARED, f"[name for name in {HEAVY} if name in sys.modules]")
    assert loaded == []


def test_floors_above_a_fit_are_loaded_where_they_are_asked_for():
    """The verb ``posterior`` keeps its name when the package of that name is loaded."""
    rooms = ["tables", "selection", "laws", "posterior.answer"]
    asked = (
        f"[room in str(sys.modules.keys()) for room in {[f'mcframe.{room}' for room in rooms]}]"
    )
    assert answer(FITTED + "mc.fit(model, data)", asked) == [False] * 4
    called = f"[first, mc.posterior(model, data).status, callable(mc.posterior), *{asked}]"
    before = "first = callable(mc.posterior)\nmc.complete, mc.path, mc.laws"
    status = answer(FITTED + before, called)
    assert status == [True, "converged", True, *[True] * 4]


def test_what_is_heavy_is_loaded_when_it_is_asked_for():
    """Names that no interpreter ever loads would pass the test above."""
    asked = "mc.fit(model, data); mc.to_cvxpy(model, data)"
    loaded = answer(FITTED + asked, f"[name for name in {HEAVY} if name in sys.modules]")
    assert {"numba", "llvmlite", "cvxpy", "scs", "scipy.optimize"} <= set(loaded)


def test_first_order_backends_run_without_cvxpy():
    gone = 'sys.modules["cvxpy"] = None\n' + FITTED + REFERENCE_ASKED
    asked = "[mc.fit(model, data).status, mc.explain(model, data).eligibilities[-1].reason, said]"
    status, reason, said = answer(gone, asked)
    assert status == "certified"
    assert "needs cvxpy, which is not installed" in reason
    assert reason in said


def test_a_broken_cvxpy_says_why_where_it_is_asked_for(tmp_path):
    (tmp_path / "cvxpy.py").write_text("raise AttributeError('numpy has no attribute bool8')")
    code = FITTED + REFERENCE_ASKED
    status, said = answer(code, "[mc.fit(model, data).status, said]", path=tmp_path)
    assert status == "certified"
    assert "cannot be imported (AttributeError: numpy has no attribute bool8)" in said


def test_blas_that_comes_with_cvxpy_is_held_to_one_thread_too():
    """SCS brings a BLAS of its own, later than the first fit: its threads would spin."""
    asked = """
from threadpoolctl import threadpool_info
from mcframe.runtime.machine import blas_alone
mc.fit(model, data)
import scs
with blas_alone():
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
"""
    assert set(answer(FITTED + asked, "pools")) == {1}


def test_a_deferred_module_is_imported_at_its_first_name():
    module = Deferred("colorsys", "a test")
    sys.modules.pop("colorsys", None)
    assert not hasattr(module, "__wrapped__")
    assert module.absence() is None
    assert "colorsys" not in sys.modules
    assert module.rgb_to_hls(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)
    assert "colorsys" in sys.modules
    assert "a test" in repr(module)


def test_a_deferred_module_that_is_not_there_is_named_with_what_needs_it():
    module = Deferred("no_such_module", "a test")
    assert module.absence() == "a test needs no_such_module, which is not installed"
    with pytest.raises(BackendError, match="a test needs no_such_module, which cannot be"):
        _ = module.anything
