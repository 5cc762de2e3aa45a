"""Shared fixtures, hypothesis settings, and a line in the summary for what tests measured."""

import os
import pathlib
import re
import signal
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from threadpoolctl import threadpool_limits

import mcframe as mc
from mcframe.runtime.machine import LIMIT

# Pictures are drawn without a screen.
os.environ.setdefault("MPLBACKEND", "Agg")

# Matrices in tests are tiny, and each of the parallel workers would start a thread a core.
threadpool_limits(limits=1)
LIMIT.set(1)

# Hypothesis takes some of its numbers from the constants in the code loaded so far, so that an
# edit of a tolerance, or another order of the tests, would change what a fixed seed draws. There
# is no setting against it, only this private name.
providers._get_local_constants = providers.Constants

# What it does when it is imported is meant for processes of its own.
collect_ignore = ["worker_of_a_cluster.py"]

settings.register_profile(
    "mcframe",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("mcframe")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave most cases of tests with the marker ``some`` to the slow ones.

    The others have every value of every parameter once: the first values of all of them together,
    then the second ones, and the shorter lists of values begin again when they end. A number tells
    how many values of a parameter there are among them, a list which ones.
    """
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker("some") and not item.get_closest_marker("slow"):
            tests[item.parent.nodeid, item.originalname].append(item)
    for cases in tests.values():
        marker, places, chosen = cases[0].get_closest_marker("some"), [], []
        unknown = set(marker.kwargs) - set(cases[0].callspec.params)
        assert not unknown, f"{cases[0].originalname} has no parameters {unknown}"
        for names in parameters_together(cases[0]):
            # Values of one list are the same objects in all cases.
            keys = [tuple(id(case.callspec.params[name]) for name in names) for case in cases]
            values = list(dict.fromkeys(keys))
            places.append([values.index(key) for key in keys])
            [wanted] = [marker.kwargs[name] for name in names if name in marker.kwargs] or [None]
            if isinstance(wanted, list):
                chosen.append([k for k in wanted if k < len(values)] or [0])
            else:
                chosen.append(range(len(values))[:wanted])
        often = {
            tuple(values[k % len(values)] for values in chosen)
            for k in range(max(map(len, chosen)))
        }
        for case, of_case in zip(cases, zip(*places, strict=True), strict=True):
            if of_case not in often:
                case.add_marker(pytest.mark.slow(*marker.args))


STATES = {}


def pytest_runtest_setup(item):
    """Have a test draw the same numbers from its module's ``RNG``, whichever tests came before."""
    module = getattr(item, "module", None)
    if rng := getattr(module, "RNG", None):
        rng.bit_generator.state = STATES.setdefault(module, rng.bit_generator.state)


def parameters_together(item):
    """The names of the parameters of a test, those of one list of values together."""
    lists = [marker.args[0] for marker in item.iter_markers("parametrize")]
    lists = [re.findall(r"\w+", names) if isinstance(names, str) else names for names in lists]
    rest = set(item.callspec.params) - {name for names in lists for name in names}
    return [*lists, *([name] for name in sorted(rest))]


def pytest_terminal_summary(terminalreporter):
    """Print what tests measured: numbers worth quoting, beside passed and failed."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                terminalreporter.write_line(f"measured: {name}: {value}")


@pytest.fixture
def table():
    """Features and labels of 20 items with holes, low-rank plus noise, seed fixed."""
    rng = np.random.default_rng(7)
    scores = rng.standard_normal((20, 3))
    x = scores @ rng.standard_normal((3, 8)) + 0.1 * rng.standard_normal((20, 8))
    y = (rng.random((20, 4)) < 1 / (1 + np.exp(-scores @ rng.standard_normal((3, 4))))) * 1.0
    x[rng.random(x.shape) < 0.3] = np.nan
    y[rng.random(y.shape) < 0.3] = np.nan
    return {"features": x, "labels": y}


@pytest.fixture
def model():
    """MC-b: Gaussian features, Bernoulli labels with a bias, nuclear norm."""
    return mc.Model(
        blocks=[
            mc.Block("features", mc.Gaussian(), reduce="mean"),
            mc.Block("labels", mc.Bernoulli(), weight=0.5, reduce="mean", bias=True),
        ],
        terms=[mc.NuclearNorm(0.02)],
    )


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt: a shell's background jobs start with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def data_folder():
    """The folder of real data that MCFRAME_DATA names; the test is skipped without it."""
    folder = os.environ.get("MCFRAME_DATA")
    if not folder:
        pytest.skip("MCFRAME_DATA names no folder of real data")
    return pathlib.Path(folder)
