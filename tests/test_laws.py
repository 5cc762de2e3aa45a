"""Every law on every word."""

import pytest

import mcframe as mc
from mcframe.backends import BACKENDS
from mcframe.laws.solver_laws import examples, reason_against

from .catalogue import LIKELIHOODS, SHAPED_TERMS, TERMS, WRONG


@pytest.mark.core
@pytest.mark.parametrize("entry", LIKELIHOODS, ids=lambda entry: repr(entry.word))
def test_likelihood(entry):
    mc.laws.check_likelihood(entry.word, entry.valid, entry.invalid, scale=entry.scale)


@pytest.mark.core
@pytest.mark.parametrize("term", TERMS, ids=repr)
@pytest.mark.parametrize("shape", [(3, 6), (4, 1)])  # others in test_laws_in_other_shapes.py
def test_term(term, shape):
    mc.laws.check_regularizer(term, shape=shape, scale=2.0)


@pytest.mark.core
@pytest.mark.parametrize(("term", "shape"), SHAPED_TERMS, ids=repr)
def test_term_of_one_shape(term, shape):
    mc.laws.check_regularizer(term, shape=shape, scale=2.0)


@pytest.mark.parametrize("number", range(len(examples())))
@pytest.mark.parametrize("backend", BACKENDS)
def test_solver(backend, number):
    example = examples()[number]
    reason = reason_against(backend, example)
    if reason is not None:
        pytest.skip(reason)
    mc.laws.check_solver(backend, [example])


@pytest.mark.core
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_has_something_to_run(backend):
    assert any(reason_against(backend, example) is None for example in examples())


@pytest.mark.core
@pytest.mark.parametrize(("build", "named"), WRONG)
def test_wrong_parameters_are_refused_by_name(build, named):
    with pytest.raises(mc.ModelError, match=named):
        build()
