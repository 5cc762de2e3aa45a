"""The laws of regularizers and constraints of tall tables, and of one row."""

import pytest

import mcframe as mc

from .catalogue import TERMS


@pytest.mark.slow(seconds=0.3)
@pytest.mark.parametrize("term", TERMS, ids=repr)
@pytest.mark.parametrize("shape", [(5, 4), (1, 4)])
def test_term(term, shape):
    mc.laws.check_regularizer(term, shape=shape, scale=2.0)
