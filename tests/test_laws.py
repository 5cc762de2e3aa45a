"""Every law on every word."""

import pytest

import mcframe as mc

from .catalogue import LIKELIHOODS, SHAPED_TERMS, TERMS, WRONG


@pytest.mark.parametrize("entry", LIKELIHOODS, ids=lambda entry: repr(entry.word))
def test_likelihood(entry):
    mc.laws.check_likelihood(entry.word, entry.valid, entry.invalid, scale=entry.scale)


@pytest.mark.parametrize("term", TERMS, ids=repr)
@pytest.mark.parametrize("shape", [(5, 4), (3, 6), (1, 4), (4, 1)])
def test_term(term, shape):
    mc.laws.check_regularizer(term, shape=shape, scale=2.0)


@pytest.mark.parametrize(("term", "shape"), SHAPED_TERMS, ids=repr)
def test_term_of_one_shape(term, shape):
    mc.laws.check_regularizer(term, shape=shape, scale=2.0)


@pytest.mark.parametrize("backend", ["proximal", "fpc", "reference"])
def test_solver(backend):
    mc.laws.check_solver(backend)


@pytest.mark.parametrize(("build", "named"), WRONG)
def test_wrong_parameters_are_refused_by_name(build, named):
    with pytest.raises(mc.ModelError, match=named):
        build()
