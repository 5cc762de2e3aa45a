"""Ctrl-C within cross-validation: what is finished is kept, nothing hangs, nothing is made up."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import mcframe as mc
from mcframe.backends import loop
from mcframe.runtime import jobs
from mcframe.runtime.machine import check_time
from mcframe.selection import HeldOutLoss

pytestmark = pytest.mark.filterwarnings("ignore:the lowest mean score is at")

WEIGHTS = [1.0, 0.5, 0.25]
X = np.random.default_rng(0).standard_normal((12, 8))
MODEL = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])


def score(fit, held):
    return fit


def stopping(at):
    """A path of numbers that meets Ctrl-C where it is asked for the fit number ``at``."""
    given = []

    def path(model, data, weights):
        for weight in weights:
            if len(given) == at:
                raise KeyboardInterrupt
            given.append(weight)
            yield weight

    return path


def judged(at, models=1, patience=None, **options):
    listed = [MODEL] * models
    weights = mc.selection.Grid(WEIGHTS, patience=patience)
    return mc.cross_validate(
        listed, {"x": X}, criterion=score, path=stopping(at), weights=weights, cv=3, **options
    )


def test_folds_that_all_models_have_completed_decide():
    with pytest.warns(mc.NotCertifiedWarning, match="after 5 of 6 paths; means are over 2 of 3"):
        found = judged(17, models=2)
    assert found.partial
    np.testing.assert_array_equal(found.counted, [True, True, False])
    assert np.isnan(found.scores).sum() == 1
    assert found.scores[1, 1, 2] == 0.5
    np.testing.assert_array_equal(found.means, [WEIGHTS, WEIGHTS])
    assert found.best == (0, 2)
    printed = repr(found)
    assert "over 2 of 3 folds" in printed
    assert "partial, since it was interrupted: 1 of 18 scores are missing" in printed


def test_one_fold_has_means_without_an_error():
    with pytest.warns(mc.NotCertifiedWarning, match="means are over 1 of 3"):
        found = judged(7, models=2)
    np.testing.assert_array_equal(found.counted, [True, False, False])
    assert np.isnan(found.standard_errors).all()
    assert "1 ± -" in repr(found)


def test_side_by_side_the_weights_that_all_folds_have_reached_decide():
    with pytest.warns(mc.NotCertifiedWarning, match="after 0 of 3 paths; means are over 3 of 3"):
        found = judged(8, patience=3)
    np.testing.assert_array_equal(np.isnan(found.means), [[False, False, True]])
    assert found.at_edge == "smallest"
    with pytest.warns(mc.NotCertifiedWarning, match="after 3 of 6 paths"):
        found = judged(9, models=2, patience=3)
    np.testing.assert_array_equal(np.isnan(found.means), [[False] * 3, [True] * 3])


@pytest.mark.parametrize("options", [{"at": 0}, {"at": 2}, {"at": 5, "models": 2}])
def test_where_nothing_can_be_compared_the_interruption_is_passed_on(options):
    with pytest.raises(KeyboardInterrupt):
        judged(**options)


@pytest.mark.parametrize("patience", [None, 3])
def test_one_mean_is_no_comparison(patience):
    with pytest.raises(KeyboardInterrupt):
        judged(4 if patience else 1, patience=patience)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_fit_is_not_judged():
    """Ctrl-C within the second fold's second fit, which answers with its best point."""
    fits = []

    def path(model, data, weights):
        for weight in weights:
            stop = len(fits) == len(WEIGHTS) + 1
            fits.append(weight)
            callback = (lambda record: os.kill(os.getpid(), signal.SIGINT)) if stop else None
            single = mc.Model(model.blocks, [mc.NuclearNorm(weight)])
            yield mc.fit(single, data, callback=callback, tol=1e-4)

    weights = mc.selection.Grid(WEIGHTS, patience=None)
    options = {"path": path, "weights": weights, "cv": 3}
    with pytest.warns(mc.NotCertifiedWarning) as said:
        found = mc.cross_validate(MODEL, {"x": X}, criterion=HeldOutLoss(), **options)
    assert len(fits) == len(WEIGHTS) + 2
    assert any("means are over 1 of 3 folds" in str(warning.message) for warning in said)
    assert np.isnan(found.scores).sum() == 2 + len(WEIGHTS)


def test_control_c_between_tasks(monkeypatch):
    def interrupted(tasks, n_jobs, what):
        yield 0, tasks[0]()
        raise KeyboardInterrupt

    monkeypatch.setattr("mcframe.selection.cross_validation.results_as_finished", interrupted)
    with pytest.warns(mc.NotCertifiedWarning, match="after 1 of 3 paths"):
        assert judged(100).partial


def test_an_interruption_within_a_worker_ends_the_others():
    with pytest.raises(KeyboardInterrupt):
        mc.cross_validate(
            MODEL, {"x": X}, criterion=score, path=forbidden, weights=WEIGHTS, cv=3, n_jobs=2
        )


def forbidden(model, data, weights):
    raise KeyboardInterrupt


SCRIPT = """
import sys, time, warnings
import numpy as np
import mcframe as mc

def slow(model, data, weights):
    # The first held-out entries are those of the first fold, which is done in no time.
    quick = np.isnan(data["x"][0, 0]) or np.isnan(data["x"][0, 1])
    for weight in weights:
        if not quick:
            print("waiting", flush=True)
            time.sleep(30.0)
        yield weight

def score(fit, held):
    return fit

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    x = np.arange(1.0, 41.0).reshape(8, 5)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    found = mc.cross_validate(
        model, {"x": x}, criterion=score, path=slow, weights=[1.0, 0.5], cv=4, n_jobs=2
    )
    print("partial", found.partial, found.counted.sum(), flush=True)
"""


@pytest.mark.parametrize("whole_group", [True, False])
@pytest.mark.some(3, whole_group=1)
def test_control_c_with_processes_keeps_what_is_finished_and_ends_them(tmp_path, whole_group):
    """A terminal sends the signal to all processes of a group, ``kill`` to one."""
    script = tmp_path / "slow.py"
    script.write_text(SCRIPT)
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for _ in range(2):
        assert process.stdout.readline() == "waiting\n"
    time.sleep(1.0)  # the result of the first fold is on its way
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert printed.splitlines()[-1].startswith("partial True"), errors
    assert errors == ""
    assert time.monotonic() - began < 60
    for _ in range(200):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("a process is left")


@pytest.mark.parametrize("given", [0, 1.5, "two", None])
def test_a_wrong_number_of_jobs_is_named(given):
    with pytest.raises(mc.ModelError, match="n_jobs="):
        judged(100, n_jobs=given)


def test_jobs_end_when_they_are_left_early():
    assert next(iter(jobs.results_as_finished([os.getpid] * 4, 2, "the tasks")))[1] != os.getpid()


@pytest.mark.parametrize("error", [ZeroDivisionError, np.linalg.LinAlgError, ValueError])
@pytest.mark.parametrize("backend", ["proximal", "alternating", "reference"])
def test_what_a_callback_raises_is_passed_on(backend, error):
    """It says nothing about the solver's arithmetic, and the user wants the traceback."""

    def callback(record):
        raise error("mine")

    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    with pytest.raises(error, match="mine"):
        mc.fit(model, {"x": np.eye(3)}, backend=backend, callback=callback)


INTERRUPTED_IMPORT = """
import os, signal, threading
import numpy as np
import mcframe as mc
from mcframe.contracts.deferred import Deferred

signal.signal(signal.SIGINT, signal.default_int_handler)
module = Deferred({module!r}, "this test")
threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    module.load()
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted")
print(Deferred({module!r}, "this test").{name})
"""


@pytest.mark.parametrize(("module", "name"), [("numba", "njit"), ("cvxpy", "Variable")])
def test_ctrl_c_within_an_import_leaves_no_package_in_parts(module, name):
    """It is held back until the import is done: half a package could never be imported again."""
    code = INTERRUPTED_IMPORT.format(module=module, name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "interrupted"
    assert name in second


CONIC = """
import os, signal, threading, warnings
import numpy as np
import cvxpy
import mcframe as mc

signal.signal(signal.SIGINT, signal.default_int_handler)
x = np.random.default_rng(0).standard_normal((60, 30))
model = mc.Model([mc.Block("x", mc.Bernoulli())], [mc.NuclearNorm(1.0)])
backend = mc.Reference(solver="{solver}", force=True, eps=1e-15)
mc.fit(model, {{"x": (x[:3, :2] > 0.0) * 1.0}}, backend=backend)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    mc.fit(model, {{"x": (x > 0.0) * 1.0}}, backend=backend, tol=0.0)
except KeyboardInterrupt:
    print("passed on")
"""


def test_ctrl_c_within_a_conic_solver_is_passed_on():
    """SCS keeps the signal to itself, and CVXPY calls what comes back a failure."""
    code = CONIC.format(solver="SCS")
    options = {"capture_output": True, "text": True, "check": True}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], **options)
    assert done.stdout.splitlines()[-1] == "passed on"


class Stuck(mc.Proximal):
    """Whose fourth step does not end by itself."""

    def step(self, program, state):
        super().step(program, state)
        time.sleep(0.2)
        while len(state.measured_curvatures) > 3:
            check_time()
            time.sleep(0.01)


def test_work_before_a_step_that_is_cut_off_is_not_lost(monkeypatch):
    """Such a step is foreseen by the one before: what there is gets its certificate first."""
    monkeypatch.setattr(loop, "GRACE_SECONDS", 0.0)
    x = np.random.default_rng(0).standard_normal((30, 20))
    x[::3, ::2] = np.nan
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)])
    mc.fit(model, {"x": x}, tol=1e-2)  # what is compiled at first takes no part
    with pytest.warns(mc.NotCertifiedWarning, match="time_limit"):
        fit = mc.fit(model, {"x": x}, backend=Stuck(), tol=1e-13, max_seconds=0.75)
    assert fit.history[-1].iteration > 0
    assert fit.objective < fit.history[0].objective


# Ctrl-C as soon as a module is looked for.
AT_MODULE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored in the background
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("module", ["numpy", "mcframe.model", "mcframe.commands.demo"])
@pytest.mark.parametrize("way", ["script", "module"])
@pytest.mark.some(0.4)
def test_ctrl_c_while_the_command_is_loaded_ends_it_in_one_line(module, way, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(AT_MODULE.format(module=module))
    script = tmp_path / "mcframe"  # as pip writes it
    script.write_text("import sys\nfrom mcframe.__main__ import main\nsys.exit(main())\n")
    started = [str(script)] if way == "script" else ["-m", "mcframe"]
    ended = subprocess.run(
        [sys.executable, *started, "--version"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=pathlib.Path(mc.__file__).parents[1],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{pathlib.Path().resolve()}"},
    )
    assert ended.stderr == "\nmcframe: interrupted\n"
    assert (ended.returncode, ended.stdout) == (130, "")


def test_a_program_that_imports_the_package_keeps_its_interruptions():
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "import mcframe; print(signal.getsignal(signal.SIGINT))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "default_int_handler" in said.stdout
