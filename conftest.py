"""What holds for all tests, the examples in docstrings among them."""

import sys

import pytest


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    """Close figures of pyplot, which warns of more than twenty of them."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
