"""The harness is tested too: faults that really happened elsewhere, planted, must be caught."""

import attrs
import numpy as np
import pytest
from scipy.special import expit

import mcframe as mc
from mcframe.backends import Budget, Point, Proximal, Settings
from mcframe.backends import certificate as bound
from mcframe.compile import CompiledProblem
from mcframe.contracts.term import Prior
from mcframe.contracts.validators import positive
from mcframe.fitting.fit_answer import Fit
from mcframe.numerics.operators import LowRank
from mcframe.regularizers.residual_nuclear_norm import BoundResidualNuclearNorm
from mcframe.sums.calibration import CalibrationConstraint, CalibrationPenalty
from mcframe.sums.row_relation import RowRelationConstraint

pytestmark = pytest.mark.core


@attrs.frozen
class HalfGradient(mc.Gaussian):
    """The gradient of another loss: once LowRankModels' Huber."""

    def value_and_gradient(self, z, y):
        value, gradient = super().value_and_gradient(z, y)
        return value, 0.5 * gradient


@attrs.frozen
class SmallCurvature(mc.Bernoulli):
    """A Lipschitz constant that is too small: once skglm's."""

    @property
    def curvature(self):
        return 0.2 / self.scale**2


@attrs.frozen
class LooseConjugate(mc.Bernoulli):
    """A conjugate that is too small makes a certificate too good."""

    def conjugate(self, gradient, y):
        return super().conjugate(gradient, y) - 0.05


@attrs.frozen
class OverflowingLoss(mc.Bernoulli):
    """log(1 + exp(.)) as it is written."""

    def value_and_gradient(self, z, y):
        s = 2 * y - 1
        return np.log(1 + np.exp(-s * z)), -s / (1 + np.exp(s * z))


@attrs.frozen
class HarmfulLoss(mc.Gaussian):
    """Works in place on its argument."""

    def value(self, z, y):
        z -= y
        return 0.5 * z * z / self.variance


@attrs.frozen
class OtherExpression(mc.Gaussian):
    """A reference that minimises something else: CVXPY's factors forgotten."""

    def expression(self, cp, z, y):
        return cp.square(z - y)


@attrs.frozen
class Unstated(mc.Gaussian):
    """Says nothing to CVXPY."""

    expression = mc.contracts.Likelihood.expression


@attrs.frozen
class UnstatedTerm(mc.Ridge):
    """Says nothing to CVXPY."""

    expression = mc.contracts.Regularizer.expression


def test_a_word_that_says_nothing_to_cvxpy_is_told_what_to_say():
    with pytest.raises(NotImplementedError, match=r"Unstated gives no expression.*statement"):
        mc.laws.check_likelihood(Unstated(), (0.0, 2.0))
    with pytest.raises(NotImplementedError, match=r"UnstatedTerm gives no expression.*statement"):
        mc.laws.check_regularizer(UnstatedTerm(1.0))


@attrs.frozen
class WideDomain(mc.Bernoulli):
    """Takes labels of -1 for labels of 0."""

    def invalid(self, y):
        return np.abs(y) > 1


@attrs.frozen
class CountsAsNumbers(mc.Gamma):
    """Says that positive numbers are counts."""

    kind = mc.contracts.ValueKind.COUNT


@attrs.frozen
class LabelsFromMinusOne(mc.Bernoulli):
    """Lists a value that it refuses."""

    values = np.array([-1.0, 1.0])


def test_a_kind_that_is_not_that_of_the_domain_is_caught():
    with pytest.raises(mc.LawViolation, match=r"domain.*a fraction is valid"):
        mc.laws.check_likelihood(CountsAsNumbers(2.0), (1.0, 2.0), (-1.0, 0.0))


@attrs.frozen
class NamelessLink(mc.Poisson):
    """Passes the logarithm of the mean off as the mean."""

    z_name = None


@attrs.frozen
class RelativeLoss(mc.Gaussian):
    """Divides by the observation and still calls itself a loss of a location."""

    def value(self, z, y):
        return super().value(z, y) / (1.0 + np.square(y))


@attrs.frozen
class FixedDelta(mc.Huber):
    """Forgets that delta has a unit."""

    def in_units(self, unit):
        return self, unit * unit


@attrs.frozen
class WrongMean(mc.Bernoulli):
    """Forgets the scale in the link."""

    def mean(self, z):
        return expit(z)


@attrs.frozen
class ShortTail(mc.Quantile):
    """Gradients far out that are half as long as they are."""

    def recession(self, moves, y):
        return 0.5 * super().recession(moves, y)


@attrs.frozen
class BoundedEverywhere(mc.RiskMixture):
    """A loss that falls without end and says that it does not."""

    bounded_below = True


@pytest.mark.parametrize(
    ("word", "law"),
    [
        (HalfGradient(), "one value|gradient"),
        (SmallCurvature(), "curvature"),
        (LooseConjugate(), "Fenchel"),
        (OverflowingLoss(), "finite at large values"),
        (HarmfulLoss(), "unharmed|one value"),
        (OtherExpression(), "the prox solves its program"),
        (WideDomain(), "domain"),
        (LabelsFromMinusOne(), "domain"),
        (WrongMean(scale=0.3), "samples match"),
        (NamelessLink(), "z has its name"),
        (RelativeLoss(), "one value|location"),
        (FixedDelta(0.5), "units are exchangeable"),
        (ShortTail(0.3), "no steeper than its recession function"),
        (
            BoundedEverywhere(pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli()),
            "bounded below",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_likelihood_fault_is_caught(word, law):
    valid = (0.0, 1.0)
    labels = isinstance(word, mc.Bernoulli | mc.RiskMixture)
    invalid = (-1.0, 0.5) if labels else (np.inf,)
    with pytest.raises(mc.LawViolation, match=law):
        mc.laws.check_likelihood(word, valid, invalid)


@attrs.frozen
class IgnoredStrength(mc.NuclearNorm):
    """A strength multiplied into nothing: once LowRankModels'."""

    weight: float = attrs.field(default=1.0, validator=positive)

    def shrink(self, singular_values, step):
        return np.maximum(singular_values - step, 0.0)


@attrs.frozen
class LostHalf(mc.Ridge):
    """The factor 1/2 lost in the value only."""

    def of_singular_values(self, singular_values):
        return self.weight * float(np.dot(singular_values, singular_values))


@attrs.frozen
class HardThreshold(mc.NuclearNorm):
    """Keeps large singular values as they are: not the prox of a convex function."""

    def shrink(self, singular_values, step):
        return np.where(singular_values > step * self.weight, singular_values, 0.0)


@attrs.frozen
class SmallConjugate(mc.Ridge):
    """A dual value that is too small."""

    def conjugate_of_singular_values(self, singular_values):
        return 0.9 * super().conjugate_of_singular_values(singular_values)


@attrs.frozen
class SteppingProjection(mc.OnesColumn):
    """A projection that stops short for small steps."""

    def prox(self, latent, step):
        projected, value = super().prox(latent, step)
        share = min(1.0, step)
        return latent + share * (projected - latent), value


@attrs.frozen
class EndlessBox(mc.Box):
    """A bounded set that is said to go on in some directions."""

    def recession(self):
        return mc.Box(0.0, np.inf)


@attrs.frozen
class UpperBoundOnly(mc.Box):
    """Half of a support function."""

    def conjugate(self, dual):
        return self.upper * float(np.sum(np.maximum(dual, 0.0)))


@attrs.frozen
class SphereForBall(mc.MaxNormBall):
    """Every row moved to the boundary: once LowRankModels'."""

    def prox_factors(self, stacked, step):
        norms = np.linalg.norm(stacked, axis=1)
        safe = np.where(norms > 0.0, norms, 1.0)
        return stacked * (np.sqrt(self.radius) / safe)[:, None]


@attrs.frozen
class CheapMaxNorm(mc.MaxNorm):
    """The weight of the largest entry, which is only a lower bound."""

    def value(self, latent):
        return self.weight * float(np.max(np.abs(latent)))


@attrs.frozen
class HalfTheWeight(mc.NuclearNorm):
    """Declares half of its weight."""

    @property
    def linear_weight(self):
        return 0.5 * self.weight


@attrs.frozen
class SmallerSum(mc.NuclearBall):
    """Declares half of its radius."""

    @property
    def largest_sum(self):
        return 0.5 * self.radius


@attrs.frozen
class WiderBounds(mc.Box):
    """Declares bounds that are not its own."""

    @property
    def entry_bounds(self):
        return 2.0 * self.lower, 2.0 * self.upper


@attrs.frozen
class OptimisticMultipliers(mc.MaxNormBall):
    """Half the sum of the multipliers, whether or not they make a semidefinite matrix."""

    def conjugate_from(self, dual, multipliers):
        return 0.5 * self.radius * float(np.sum(multipliers))


@attrs.frozen
class TwiceTheMultipliers(mc.NuclearNorm):
    """Multipliers of 2 weight: a dual matrix that never shows a lacking column."""

    def row_multipliers(self, gradient, stacked):
        return 2.0 * super().row_multipliers(gradient, stacked)


@attrs.frozen
class HalfPull(mc.NuclearBall):
    """One of the two products with the gradient forgotten."""

    def row_multipliers(self, gradient, stacked):
        return 0.5 * super().row_multipliers(gradient, stacked)


@attrs.frozen
class OtherRadius(mc.NuclearBall):
    """The square of the factors' norm compared with the radius, not with twice the radius."""

    def of_factors(self, stacked):
        return 0.0 if float(np.vdot(stacked, stacked)) <= self.radius**2 else np.inf


@attrs.frozen
class HalfDerivative(CalibrationPenalty):
    """The factor 2 of a square lost."""

    def value_and_gradient(self, latent):
        value, gradient = super().value_and_gradient(latent)
        return value, 0.5 * gradient


@attrs.frozen
class OneStretch(CalibrationPenalty):
    """Directions without their singular values."""

    @property
    def groups(self):
        ones = [np.ones_like(group.singular_values) for group in super().groups]
        pairs = zip(super().groups, ones, strict=True)
        return tuple(attrs.evolve(group, singular_values=one) for group, one in pairs)


@attrs.frozen
class KeepsTheOrigin(CalibrationConstraint):
    """Says of Z plus effects what it says of predictors."""

    def about(self, origin, scale):
        return self


@attrs.frozen
class KeepsItsScale(RowRelationConstraint):
    """Forgets that columns have units: coefficients are those of predictors."""

    def equations_about(self, origin, scale):
        return self.A, (self.B - origin @ self.A.T) / np.mean(scale)


@attrs.frozen
class OtherSide(RowRelationConstraint):
    """Sums over the columns that solvers take for sums over the rows."""

    axis = 0

    def turned(self, matrix):
        return matrix.T


@attrs.frozen
class AnyDual(CalibrationConstraint):
    """Takes every matrix for a multiplier of its equations."""

    def nearest_dual(self, dual):
        return dual


@attrs.frozen
class ForgetsTheData(mc.ResidualNuclearNorm):
    """A bound term whose conjugate leaves out <Y, X>."""

    def bound_to(self, shape, rows, columns, values):
        return BoundForgetsTheData(self.block, self.weight, shape, rows, columns, values)


@attrs.frozen
class BoundForgetsTheData(BoundResidualNuclearNorm):
    def pairing(self, dual):
        return 0.0

    def conjugate(self, dual):
        return super().conjugate(dual) + super().pairing(dual)


@attrs.frozen
class KeepsItsWeight(mc.Ridge):
    """A path would fit the same model again and again."""

    def with_weight(self, weight):
        return self


@attrs.frozen
class HalvesItsWeight(mc.Ridge):
    """A path would fit at half of each weight that it says."""

    def with_weight(self, weight):
        return attrs.evolve(self, weight=weight / 2)


@attrs.frozen
class OtherPrior(mc.NuclearNorm):
    """Declares a prior whose parameters it does not have."""

    prior = Prior.ROWS


@attrs.frozen
class GaussianWithoutWeight(mc.GaussianRows):
    """The covariance of a posterior is not that of the term."""

    @property
    def gaussian(self):
        return self.moments


@attrs.frozen
class WeightWithoutUnit(mc.NuclearNorm):
    """Forgets that a weight has a unit."""

    def in_units(self, unit):
        return self


@pytest.mark.parametrize(
    "term",
    [
        IgnoredStrength(2.0),
        HalfTheWeight(2.0),
        SmallerSum(3.0),
        WiderBounds(-0.5, 0.5),
        LostHalf(2.0),
        HardThreshold(0.5),
        SmallConjugate(2.0),
        SteppingProjection(),
        UpperBoundOnly(-1.0, 1.0),
        EndlessBox(-1.0, 1.0),
    ],
    ids=lambda term: type(term).__name__,
)
def test_term_fault_is_caught(term):
    with pytest.raises(mc.LawViolation, match=type(term).__name__):
        mc.laws.check_regularizer(term)


@pytest.mark.parametrize(
    ("term", "law"),
    [
        (SphereForBall(2.0), "the prox of factors beats rivals"),
        (CheapMaxNorm(0.5), "the expression is the definition"),
        (OptimisticMultipliers(2.0), "multipliers bound the conjugate"),
        (KeepsItsWeight(2.0), "the strength counts"),
        (HalvesItsWeight(2.0), "the strength counts"),
        (OtherPrior(2.0), "a prior has its parameters"),
        (GaussianWithoutWeight(np.eye(4), weight=2.0), "a prior has its parameters"),
        (TwiceTheMultipliers(0.5), "the best factors reach the conjugate"),
        (HalfPull(2.0), "the best factors reach the conjugate"),
        (OtherRadius(1.0), "sets are sets"),
        (
            HalfDerivative("x", np.ones((2, 5)), np.ones((2, 4)), 0.5),
            "the gradient is the derivative",
        ),
        (AnyDual("x", np.ones(5), np.ones(4)), "Fenchel and Young"),
        (OneStretch("x", np.ones(5), np.ones(4), 0.5), "sums are squares of distances"),
        (KeepsTheOrigin("x", np.ones(5), np.ones(4)), "sums about an origin"),
        (KeepsItsScale("x", np.ones(4), np.arange(5.0)), "sums about an origin"),
        (OtherSide("x", np.ones(4), np.arange(5.0)), "sums are squares of distances"),
        (ForgetsTheData("x", 0.5), "a composition is inner after forward"),
        (WeightWithoutUnit(0.5), "units are exchangeable"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_term_fault_is_caught_by_its_law(term, law):
    with pytest.raises(mc.LawViolation, match=law):
        mc.laws.check_regularizer(term)


@attrs.frozen
class Lazy(Proximal):
    """Claims the answer after two steps."""

    def step(self, program, state):
        if state.weight < 2.0:
            super().step(program, state)


@attrs.frozen
class LosesTheRidge(Proximal):
    """Drops a term on the way to the solver: once yaglm's splitter."""

    def step(self, program, state):
        super().step(
            attrs.evolve(program, penalty=attrs.evolve(program.penalty, ridge=0.0)), state
        )


def test_a_lazy_solver_is_caught():
    with pytest.raises(mc.LawViolation, match="reaches the reference"):
        mc.laws.check_solver(Lazy())


def test_a_lost_ridge_is_caught():
    """A light one, so that the solver believes to have arrived."""
    model, data = mc.laws.solver_laws.examples()[0]
    ridged = attrs.evolve(model, terms=[*model.terms, mc.Ridge(1e-3)])
    with pytest.raises(mc.LawViolation, match="reaches the reference"):
        mc.laws.check_solver(LosesTheRidge(), [(ridged, data)], tol=1e-2)


@attrs.frozen
class HarmsItsStart(Proximal):
    """Writes into the factors that it was given."""

    def resume(self, program, paused, rng):
        state = super().resume(program, paused, rng)
        paused.factors.right[:] = 0.0
        return state

    def init(self, program, start, rng):
        state = super().init(program, start, rng)
        if start is not None:
            start.latent.right[:] = 0.0
        return state


class ForgetsItsCallback(mc.Reference):
    """Solves, and says nothing of it."""

    def solve(self, compiled, settings):
        return super().solve(compiled, attrs.evolve(settings, callback=None))


class DrawsItsOwnNumbers(Proximal):
    """A start from random numbers that the seed does not reach."""

    numbers = np.random.default_rng(0)

    def init(self, program, start, rng):
        if start is None:
            factors = (self.numbers.standard_normal((n, 1)) for n in program.shape)
            start = Point(LowRank(*factors))
        return super().init(program, start, rng)


class RefusesEverything(Proximal):
    """Obeys every law of what it runs."""

    def refusal(self, program):
        return "it is not in the mood"


@pytest.mark.parametrize(
    ("backend", "law"),
    [
        (HarmsItsStart(), "a start is continued"),
        (ForgetsItsCallback(), "callbacks see every record"),
        (DrawsItsOwnNumbers(), "equal seeds give equal bits"),
        (RefusesEverything(), "runs something.*it is not in the mood"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_solver_fault_is_caught_by_its_law(backend, law):
    with pytest.raises(mc.LawViolation, match=law):
        mc.laws.check_solver(backend, mc.laws.solver_laws.examples()[:1])


@pytest.mark.parametrize("excess", [1e-4, 0.1])
def test_an_optimistic_bound_is_caught(monkeypatch, excess):
    """||G||_2 taken too small, as an unconverged power iteration has it."""
    honest = bound.norm_upper_bound
    monkeypatch.setattr(
        bound,
        "norm_upper_bound",
        lambda matrix: honest(matrix) * (1 - excess),
    )
    with pytest.raises(mc.LawViolation, match="bounds are never too good"):
        mc.laws.check_solver("proximal")


def test_laws_hold_without_assertions():
    """A comparison without effect is no law: the harness raises, it never asserts."""
    import inspect

    from mcframe import laws

    modules = [value for value in vars(laws).values() if inspect.ismodule(value)]
    assert len(modules) >= 5
    for module in modules:
        statements = [line.strip() for line in inspect.getsource(module).splitlines()]
        # ``assert isinstance`` narrows a type for the checker; nothing else may be asserted.
        asserted = [s for s in statements if s.startswith("assert ") and "isinstance" not in s]
        assert asserted == []


class JudgesAnotherPoint(mc.Reference):
    """Certifies one point and answers with another, whose objective is not the one it judged."""

    def solve(self, compiled, settings):
        found = super().solve(compiled, settings)
        moved = Point(found.point.latent.multiple(0.99), found.point.dual)
        return attrs.evolve(found, point=moved)


def test_a_certificate_that_the_problem_denies_is_withdrawn():
    """The gap by the problem's own objective decides, whatever a backend claims."""
    model, data = mc.laws.solver_laws.examples()[0]
    with pytest.warns(mc.NotCertifiedWarning, match="bug in mcframe: please report"):
        fit = mc.fit(model, data, backend=JudgesAnotherPoint())
    assert fit.status == "interrupted"
    assert fit.gap > 1e-6
    assert fit.objective == fit.problem.objective(fit.latent, fit.effects)
    honest = mc.fit(model, data, backend="reference")
    assert honest.status == "certified"
    assert honest.gap <= 1e-6


@pytest.mark.parametrize(("share", "status"), [(0.5, "limited_by_rounding"), (1.5, "certified")])
def test_a_gap_of_rounding_alone_is_no_bug(share, status):
    """Two summations of one objective differ by rounding, which is no contradiction."""
    model, data = mc.laws.solver_laws.examples()[0]
    compiled = CompiledProblem(mc.Problem.bind(model, data))
    found = mc.Reference().solve(compiled, Settings(Budget()))
    gap = Fit.of(compiled.problem, found, "reference").gap
    noisy = attrs.evolve(found.rounding, total=gap * abs(found.bound))
    outcome = attrs.evolve(found, tol=share * gap, rounding=noisy)
    assert Fit.of(compiled.problem, outcome, "reference").status == status
