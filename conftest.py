"""What holds for all tests, the examples in docstrings among them."""

import gc
import os
import sys

import pytest

# A thread of OpenMP waits for the others by spinning: on a machine whose cores are busy with other
# tests the trees of scikit-learn take four times as long. It reads this when it is loaded, and
# processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Collect no garbage while tests are read: there is next to none, and it takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    """Close figures of pyplot, which warns of more than twenty of them."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_ignore_collect(collection_path, config):
    """Leave out files without the marker, unread by Python, where the core alone is asked for."""
    if config.getoption("markexpr") != "core" or collection_path.suffix != ".py":
        return None
    return "mark.core" not in collection_path.read_text(encoding="utf-8") or None
