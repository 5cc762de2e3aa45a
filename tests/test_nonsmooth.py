"""Losses without a gradient: quantiles, margins, equalities."""

import attrs
import cvxpy as cp
import numpy as np
import pytest

import mcframe as mc

pytestmark = pytest.mark.core

POINTS = np.array([-1e4, -3.0, -1.0, -1e-12, 0.0, 1e-12, 0.5, 1.0, 2.0, 1e4])


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_the_best_constant_is_the_quantile(q):
    y = np.random.default_rng(0).normal(size=1001)
    word = mc.Quantile(q)
    constants = np.sort(y)
    losses = [np.sum(word.value(np.full_like(y, z), y)) for z in constants]
    assert constants[np.argmin(losses)] == np.quantile(y, q)


def test_prox_of_a_quantile_by_hand():
    z, y = np.array([5.0, 1.1, 1.0, 0.5, -5.0]), np.full(5, 1.0)
    found = mc.Quantile(0.75).prox(z, y, np.full(5, 2.0))
    np.testing.assert_allclose(found, [4.5, 1.0, 1.0, 1.0, -3.5])


def test_prox_of_a_hinge_by_hand():
    z, y = np.array([-3.0, 0.5, 1.5, 3.0, -0.5, -2.0]), np.array([1.0, 1, 1, 0, 0, 0])
    found = mc.Hinge().prox(z, y, np.full(6, 2.0))
    np.testing.assert_allclose(found, [-1.0, 1.0, 1.5, 1.0, -1.0, -2.0])


@pytest.mark.parametrize("word", [mc.Quantile(0.3), mc.Hinge(), mc.Equality()], ids=repr)
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_prox_leads_into_the_domain_of_the_conjugate(word, size):
    """(z - prox) / step is a gradient up to rounding, and the nearest gradient is one exactly."""
    z = np.repeat(POINTS, 2)
    y = np.tile([0.0, 1.0], POINTS.size)
    step = np.full_like(z, size)
    x = word.prox(z, y, step)
    nonsmooth = (z - x) / step
    gradient = word.nearest_gradient(nonsmooth, y)
    rounding = 4e-16 * (1.0 + np.abs(z) / step)
    assert np.all(np.abs(gradient - nonsmooth) <= rounding)
    lost = np.abs(word.conjugate(gradient, y) - (gradient * x - word.value(x, y)))
    assert np.all(lost <= rounding * (1.0 + np.abs(x) + np.abs(y)))


def test_gradients_outside_the_domain_have_no_conjugate():
    one = np.ones(1)
    assert mc.Quantile(0.3).conjugate(np.array([0.71]), one) == np.inf
    assert mc.Quantile(0.3).conjugate(np.array([-0.31]), one) == np.inf
    assert mc.Hinge().conjugate(np.array([0.01]), one) == np.inf
    assert mc.Hinge().conjugate(np.array([0.01]), np.zeros(1)) == -0.01
    assert mc.Hinge().nearest_gradient(np.array([0.01]), one) == 0.0


def test_a_hinge_predicts_labels():
    np.testing.assert_array_equal(mc.Hinge().mean(np.array([-2.0, 0.0, 1e-9])), [0.0, 0.5, 1.0])


def test_equality_tolerates_rounding_and_no_more():
    y = np.array([0.0, 1.0, 1e6, -1e6])
    for sign in (-1.0, 1.0):
        near = y + sign * 0.9e-9 * np.maximum(1.0, np.abs(y))
        far = y + sign * 1.1e-9 * np.maximum(1.0, np.abs(y))
        assert np.all(mc.Equality().value(near, y) == 0.0)
        assert np.all(mc.Equality().value(far, y) == np.inf)
    np.testing.assert_array_equal(mc.Equality().prox(y + 5.0, y, np.ones(4)), y)


def test_equality_is_a_constraint_in_cvxpy():
    z, y = cp.Variable(3), np.array([1.0, 2.0, 3.0])
    word = mc.Equality()
    losses, constraints = word.statement(cp, z[:2], y[:2])
    loss = cp.sum(losses) + cp.norm(z)
    cp.Problem(cp.Minimize(loss), constraints).solve(solver="CLARABEL")
    np.testing.assert_allclose(z.value, [1.0, 2.0, 0.0], atol=1e-6)


# Faults, planted to see that the laws of the prox notice them.


@attrs.frozen
class Symmetric(mc.Quantile):
    """A prox that knows medians only."""

    def prox(self, z, y, step):
        return mc.Quantile(0.5).prox(z, y, step)


@attrs.frozen
class OneStep(mc.Hinge):
    """A prox that takes the first step for all."""

    def prox(self, z, y, step):
        return super().prox(z, y, np.full_like(step, step[0]))


@attrs.frozen
class FlatProx(mc.Hinge):
    """The prox taken to stand still."""

    def prox_gradient(self, z, y, step):
        return np.zeros_like(z)


@attrs.frozen
class WideConjugate(mc.Hinge):
    """Gradients of the wrong sign taken into the domain."""

    def conjugate(self, gradient, y):
        return (2.0 * y - 1.0) * gradient


@attrs.frozen
class Unconstrained(mc.Equality):
    """A reference that is free to ignore the data."""

    def statement(self, cp, z, y, **options):
        return super().statement(cp, z, y, **options)[0], []


@attrs.frozen
class Unmarked(mc.Equality):
    """A set that does not say that it is one."""

    indicator = False


@attrs.frozen
class Marked(mc.Quantile):
    """A finite loss that says that it is a set."""

    indicator = True


@attrs.frozen
class Roomless(mc.Equality):
    """A set of which certificates do not know that it gives way."""

    def feasibility_tolerance(self, y):
        return np.zeros_like(y)

    def value(self, z, y):
        return mc.Equality.value(mc.Equality(self.size), z, y)


@pytest.mark.parametrize(
    ("word", "law"),
    [
        (Unmarked(), "an indicator is one"),
        (Marked(0.5), "an indicator is one"),
        (Roomless(), "an indicator is one"),
        (Symmetric(0.8), "the prox is the minimiser"),
        (OneStep(), "the prox is the minimiser"),
        (FlatProx(), "the gradient of the prox"),
        (WideConjugate(), "Fenchel"),
        (Unconstrained(), "expression"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_fault_is_caught(word, law):
    with pytest.raises(mc.LawViolation, match=law):
        mc.laws.check_likelihood(word, (0.0, 1.0), (np.inf,))
