"""Shared fixtures, hypothesis settings, and a line in the summary for what tests measured."""

import os
import pathlib
import signal

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
