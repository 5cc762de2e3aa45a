"""Risks against the paper's equations, written out entry by entry.

Equation numbers are those of Hayashi, Sakai, Sugiyama, Binary matrix completion using
unobserved entries. Their labels +1, -1 and 0 (unobserved) are 1, 0 and NaN here.
"""

import attrs
import cvxpy as cp
import numpy as np
import pytest

import mcframe as mc

pytestmark = pytest.mark.core

LOSSES = [mc.Bernoulli(), mc.Bernoulli(scale=1 / 7), mc.Gaussian(), mc.Gaussian(variance=0.2)]
LABELS = np.array([1.0, 0.0, np.nan])
Z = np.linspace(-3.0, 3.0, 13)


def l(loss, z, a):  # noqa: E743 - the paper's letter
    """l(x, +1) or l(x, -1)."""
    return loss.value(np.array([z]), np.array([1.0 if a == 1 else 0.0]))[0]


def pn_loss(loss, z, a, rho):
    """(77): nothing where nothing is observed."""
    return l(loss, z, a) if a != 0 else 0.0


def pu_loss(loss, z, a, rho):
    """(83)."""
    if a == 1:
        return (l(loss, z, 1) - rho * l(loss, z, -1)) / (1 - rho)
    return l(loss, z, -1)


def nu_loss(loss, z, a, rho):
    """(86)."""
    if a == -1:
        return (l(loss, z, -1) - rho * l(loss, z, 1)) / (1 - rho)
    return l(loss, z, 1)


def punu_loss(loss, z, a, rho, gamma):
    """(100), as printed."""
    k = rho / (1 - rho)
    if a == 1:
        return (1 - gamma * rho) / (1 - rho) * l(loss, z, 1) - (1 - gamma) * k * l(loss, z, -1)
    if a == -1:
        return -gamma * k * l(loss, z, 1) + (1 - (1 - gamma) * rho) / (1 - rho) * l(loss, z, -1)
    return gamma * l(loss, z, 1) + (1 - gamma) * l(loss, z, -1)


def every_entry(formula):
    """A formula at every z and label: an array like that of ``found``."""
    return np.array([[formula(z, a) for a in (1, -1, 0)] for z in Z])


def found(risk):
    z, y = np.meshgrid(Z, LABELS, indexing="ij")
    return risk.value(z, y)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.85, 0.99])
class TestThePaper:
    def test_the_three_risks(self, loss, rho):
        for share, formula in (("pn", pn_loss), ("pu", pu_loss), ("nu", nu_loss)):
            risk = mc.RiskMixture(**{share: 1.0}, missing_rate=rho, likelihood=loss)
            wanted = every_entry(lambda z, a, formula=formula: formula(loss, z, a, rho))
            np.testing.assert_allclose(found(risk), wanted, rtol=1e-12, atol=1e-12)

    def test_the_mixture_is_101(self, loss, rho):
        risk = mc.RiskMixture(pn=0.5, pu=0.2, nu=0.3, missing_rate=rho, likelihood=loss)
        wanted = every_entry(
            lambda z, a: (
                0.5 * pn_loss(loss, z, a, rho)
                + 0.2 * pu_loss(loss, z, a, rho)
                + 0.3 * nu_loss(loss, z, a, rho)
            )
        )
        np.testing.assert_allclose(found(risk), wanted, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("gamma", [0.0, 0.25, 0.8, 1.0])
    def test_punu_is_100(self, loss, rho, gamma):
        risk = mc.RiskMixture.punu(gamma, rho, likelihood=loss)
        wanted = every_entry(lambda z, a: punu_loss(loss, z, a, rho, gamma))
        np.testing.assert_allclose(found(risk), wanted, rtol=1e-11, atol=1e-11)

    @pytest.mark.parametrize("eta", [-1.0, -0.3, 0.0, 0.6, 1.0])
    def test_pnu_is_90(self, loss, rho, eta):
        risk = mc.RiskMixture.pnu(eta, rho, likelihood=loss)
        other = pu_loss if eta >= 0 else nu_loss
        wanted = every_entry(
            lambda z, a: (
                (1 - abs(eta)) * pn_loss(loss, z, a, rho) + abs(eta) * other(loss, z, a, rho)
            )
        )
        np.testing.assert_allclose(found(risk), wanted, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("gamma", [0.0, 0.4, 1.0])
    def test_the_expected_risk_is_that_of_all_labels(self, loss, rho, gamma):
        """(85), (88), (95): exactly, over the states of (81) with P(y = 1) = f."""
        risk = mc.RiskMixture.punu(gamma, rho, likelihood=loss)
        positive, negative, unlabeled = found(risk).T
        for f in (0.0, 0.3, 1.0):
            expected = (1 - rho) * (f * positive + (1 - f) * negative) + rho * unlabeled
            complete = [f * l(loss, z, 1) + (1 - f) * l(loss, z, -1) for z in Z]
            np.testing.assert_allclose(expected, complete, rtol=1e-11, atol=1e-11)

    def test_pn_expects_a_share_of_it(self, loss, rho):
        positive, negative, unlabeled = found(mc.RiskMixture(pn=1.0, likelihood=loss)).T
        expected = (1 - rho) * (0.3 * positive + 0.7 * negative) + rho * unlabeled
        complete = np.array([0.3 * l(loss, z, 1) + 0.7 * l(loss, z, -1) for z in Z])
        np.testing.assert_allclose(expected, (1 - rho) * complete, rtol=1e-12)


def infima(**risk):
    return mc.RiskMixture(**risk, missing_rate=0.5).infimum


def test_infimum_is_exact():
    logistic, squared = mc.Bernoulli(), mc.Gaussian()
    assert infima(pn=1.0, likelihood=logistic) == 0.0
    assert infima(pu=1.0, likelihood=logistic) == -np.inf
    assert infima(nu=1.0, likelihood=logistic) == -np.inf
    # A positive costs (z - 1)^2 / 2 + (1 - 2 z) / 2, least at z = 2.
    assert infima(pu=1.0, likelihood=squared) == pytest.approx(-1.0)
    # No entry is missing: an unlabeled one would cost the entropy of (0.3, 0.7) at least.
    complete = mc.RiskMixture(pu=0.3, nu=0.7, missing_rate=0.0, likelihood=logistic)
    assert complete.infimum == 0.0
    z = np.linspace(-5, 5, 2001)
    assert -complete.conjugate(np.zeros(1), np.array([np.nan]))[0] == pytest.approx(
        complete.value(z, np.full_like(z, np.nan)).min(), abs=1e-6
    )


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("shares", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.2, 0.5, 0.3)])
def test_nearest_gradient_is_the_projection(loss, shares):
    """What it returns is where the conjugate is finite, and nothing of the domain is nearer."""
    pn, pu, nu = shares
    risk = mc.RiskMixture(pn=pn, pu=pu, nu=nu, missing_rate=0.9, likelihood=loss)
    for label in LABELS:
        gradients = np.linspace(-100.003, 99.71, 401)
        y = np.full_like(gradients, label)
        nearest = risk.nearest_gradient(gradients, y)
        assert np.all(np.isfinite(risk.conjugate(nearest, y)))
        inside = np.isfinite(risk.conjugate(gradients, y))
        np.testing.assert_array_equal(nearest[inside], gradients[inside])
        domain = np.concatenate([gradients[inside], nearest])
        least = np.abs(gradients[:, None] - domain).min(axis=1)
        np.testing.assert_allclose(np.abs(gradients - nearest), least, atol=1e-12)


def test_a_gradient_on_the_boundary_stays_in_the_domain():
    """Far out the gradient is the end of the domain, and k t / t is not k in floating point."""
    rng = np.random.default_rng(0)
    for scale in (1 / 7, 0.3, 13.0):
        for rate in rng.uniform(0.0, 0.9999, 50):
            risk = mc.RiskMixture.punu(0.37, rate, likelihood=mc.Bernoulli(scale=scale))
            z, y = np.meshgrid([-1e4 * scale, 1e4 * scale], LABELS, indexing="ij")
            assert np.all(np.isfinite(risk.conjugate(risk.value_and_gradient(z, y)[1], y)))


def test_the_expression_takes_part_in_a_convex_problem():
    """Three states, each minimised over a box by CVXPY, against a fine grid."""
    risk = mc.RiskMixture(pn=0.2, pu=0.5, nu=0.3, missing_rate=0.7, likelihood=mc.Bernoulli())
    variable = cp.Variable(3)
    losses, constraints = risk.statement(cp, variable, LABELS)
    constraints = [*constraints, cp.abs(variable) <= 2]
    problem = cp.Problem(cp.Minimize(cp.sum(losses)), constraints)
    assert problem.is_dcp()
    problem.solve(solver=cp.CLARABEL)
    grid, y = np.meshgrid(np.linspace(-2, 2, 4001), LABELS, indexing="ij")
    least = risk.value(grid, y).min(axis=0).sum()
    assert problem.value == pytest.approx(least, abs=1e-6)


class TestTheRate:
    def test_it_is_the_share_of_unlabeled_entries(self):
        risk = mc.RiskMixture(pu=1.0, likelihood=mc.Bernoulli())
        bound = risk.bound_to((4, 5), np.array([1.0, 0.0, 1.0, np.nan]))
        assert bound.missing_rate == pytest.approx(17 / 20)
        assert bound == mc.RiskMixture(
            pu=1.0, missing_rate=bound.missing_rate, likelihood=mc.Bernoulli()
        )

    def test_a_given_rate_stays(self):
        risk = mc.RiskMixture(pu=1.0, missing_rate=0.3, likelihood=mc.Bernoulli())
        assert risk.bound_to((4, 5), np.ones(3)) is risk

    def test_pn_needs_none_and_is_the_likelihood(self):
        risk = mc.RiskMixture(pn=1.0, likelihood=mc.Bernoulli())
        assert not risk.reads_unlabeled
        assert risk.bound_to((4, 5), np.ones(3)) == mc.Bernoulli()

    @pytest.mark.parametrize("labels", [[1.0, 1.0], [0.0, np.nan], []])
    def test_labels_of_one_kind_do_not_tell_it(self, labels):
        risk = mc.RiskMixture(pn=0.5, nu=0.5, likelihood=mc.Bernoulli())
        with pytest.raises(mc.DataError, match="give missing_rate"):
            risk.bound_to((2, 2), np.array(labels))

    def test_before_it_is_estimated_there_is_no_value(self):
        risk = mc.RiskMixture(nu=1.0, likelihood=mc.Bernoulli())
        assert "estimated" in risk.formula("z", "y")
        assert risk.convex
        assert risk.curvature == 0.25
        with pytest.raises(mc.ModelError, match="missing_rate=None has not been estimated"):
            risk.value(np.zeros(1), np.ones(1))


class TestProbit:
    """l(z, 1) - l(z, 0) is no line: only PN is convex."""

    @pytest.fixture
    def loss(self):
        return mc.Bernoulli("probit")

    @pytest.mark.parametrize("shares", [{"pu": 1.0}, {"pn": 0.5, "nu": 0.5}])
    @pytest.mark.parametrize("rate", [None, 0.0, 0.85])
    def test_a_mixture_is_refused(self, loss, shares, rate):
        with pytest.raises(mc.ModelError, match="nonconvex=True"):
            mc.RiskMixture(**shares, missing_rate=rate, likelihood=loss)

    def test_the_refusal_says_why(self, loss):
        with pytest.raises(mc.ModelError, match=r"positive entry carries l\(z, 0\).*negative"):
            mc.RiskMixture(pu=1.0, likelihood=loss)
        with pytest.raises(mc.ModelError, match=r"negative entry carries l\(z, 1\).*negative"):
            mc.RiskMixture(nu=1.0, likelihood=loss)

    def test_it_follows_the_equations_when_allowed(self, loss):
        risk = mc.RiskMixture.punu(0.4, 0.6, likelihood=loss, nonconvex=True)
        assert not risk.convex
        wanted = every_entry(lambda z, a: punu_loss(loss, z, a, 0.6, 0.4))
        np.testing.assert_allclose(found(risk), wanted, rtol=1e-11, atol=1e-11)
        with pytest.raises(mc.BackendError, match="no exact program"):
            risk.statement(cp, cp.Variable(3), LABELS)

    def test_it_is_not_convex_indeed(self, loss):
        risk = mc.RiskMixture.punu(0.4, 0.6, likelihood=loss, nonconvex=True)
        assert risk.second_derivative(Z, np.ones_like(Z)).min() < -0.1
        assert risk.infimum == -np.inf
        assert risk.conjugate(np.zeros(1), np.ones(1))[0] == np.inf

    def test_pn_is_the_likelihood(self, loss):
        risk = mc.RiskMixture(pn=1.0, likelihood=loss)
        assert risk.convex
        np.testing.assert_array_equal(
            risk.value(Z, np.ones_like(Z)), loss.value(Z, np.ones_like(Z))
        )
        np.testing.assert_array_equal(risk.value(Z, np.full_like(Z, np.nan)), 0.0)


def test_it_prints_its_shares_and_its_rate():
    risk = mc.RiskMixture(pn=0.3, pu=0.3, nu=0.4, missing_rate=0.85, likelihood=mc.Bernoulli())
    assert risk.formula("z", "y") == (
        "(0.3 PN + 0.3 PU + 0.4 NU at ρ = 0.85)[log(1 + exp((1 − 2y)(z)))]"
    )
    model = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(1.0)])
    assert r"+ 0.4\text{ NU at }\rho = 0.85)" in model._repr_latex_()
    pn = mc.RiskMixture(pn=1.0, likelihood=mc.Gaussian())
    assert pn.formula("z", "y") == "(PN)[(z − y)²/2]"


@attrs.frozen(kw_only=True)
class StaysOutside(mc.RiskMixture):
    """Leaves gradients of PU where scaling has brought them: its certificates would be -inf."""

    def nearest_gradient(self, gradient, y):
        return gradient


@attrs.frozen
class OtherLine(mc.Gaussian):
    """The difference of squared losses without its constant."""

    @property
    def label_difference(self):
        return -1.0 / self.variance, 0.0


@pytest.mark.parametrize(
    ("word", "law"),
    [
        (StaysOutside(pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli()), "nearest gradients"),
        (OtherLine(), "differ linearly"),
    ],
    ids=["StaysOutside", "OtherLine"],
)
def test_a_planted_fault_is_caught(word, law):
    valid = (0.0, 1.0, np.nan) if word.reads_unlabeled else (0.0, 1.0)
    with pytest.raises(mc.LawViolation, match=law):
        mc.laws.check_likelihood(word, valid)


@pytest.mark.parametrize("loss", [mc.Bernoulli(), mc.Gaussian()], ids=repr)
@pytest.mark.parametrize("bias", [False, True])
def test_a_fit_is_certified_and_the_reference_agrees(loss, bias):
    """With an estimated rate, on labels of which half are hidden."""
    rng = np.random.default_rng(3)
    latent = rng.normal(size=(14, 2)) @ rng.normal(size=(2, 9))
    labels = (rng.random(latent.shape) < 1 / (1 + np.exp(-2 * latent))).astype(float)
    labels[rng.random(latent.shape) < 0.5] = np.nan
    risk = mc.RiskMixture(pn=0.3, pu=0.3, nu=0.4, likelihood=loss)
    model = mc.Model([mc.Block("labels", risk, bias=bias)], [mc.NuclearNorm(3.0)])
    fast = mc.fit(model, {"labels": labels}, tol=1e-6)
    slow = mc.fit(model, {"labels": labels}, backend="reference", tol=1e-6)
    assert fast.status == slow.status == "certified"
    assert fast.objective == pytest.approx(slow.objective, rel=2e-6)
    assert 0 < fast.rank < 9
    assert np.all(np.isfinite(fast.predict("labels")))


def test_folds_have_fewer_labels_and_the_model_knows():
    """Held-out labels become unlabeled entries, of which positives are a larger share."""
    rng = np.random.default_rng(0)
    true = rng.random((200, 10)) < 0.4
    labels = np.where(true & (rng.random(true.shape) < 0.5), 1.0, np.nan)
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Gaussian())
    block, means = mc.Block("y", risk, bias=True), []

    def criterion(fit, held):
        means.append(fit.predict("y").mean())
        return 0.0

    options = {"weights": mc.selection.Grid([1e4, 9e3], patience=None), "cv": 2}
    model, data = mc.Model([block], [mc.NuclearNorm(1e4)]), {"y": labels}
    mc.cross_validate(model, data, criterion=criterion, **options)
    whole = mc.fit(model, data).predict("y").mean()
    np.testing.assert_allclose(means, whole, rtol=0.02)


@pytest.mark.parametrize("loss", [mc.Huber(1.0), mc.Quantile(0.3)], ids=repr)
def test_an_objective_that_falls_without_end_is_named_beside_any_loss(loss):
    rng = np.random.default_rng(0)
    labels = (rng.random((8, 3)) < 0.5) * 1.0
    labels[rng.random(labels.shape) < 0.3] = np.nan
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.4, likelihood=mc.Bernoulli())
    blocks = [mc.Block("x", loss, bias=True), mc.Block("y", risk)]
    data = {"x": rng.normal(size=(8, 4)) + 1.0, "y": labels}
    with pytest.warns(mc.NotCertifiedWarning, match="the objective falls without end"):
        mc.fit(mc.Model(blocks, [mc.NuclearNorm(0.8)]), data)


def test_a_mixture_of_squared_losses_predicts_probabilities_and_fills_labels():
    rng = np.random.default_rng(0)
    labels = (np.outer(rng.random(20), rng.random(8)) > 0.25).astype(float)
    labels[rng.random(labels.shape) < 0.3] = np.nan
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.3, likelihood=mc.Gaussian())
    fit = mc.fit(mc.Model([mc.Block("x", risk)], [mc.NuclearNorm(0.1)]), {"x": labels})
    assert np.max(fit.natural("x")) > 1.0
    assert np.min(fit.predict("x")) >= 0.0
    assert np.max(fit.predict("x")) <= 1.0
    assert set(np.unique(fit.impute("x"))) <= {0.0, 1.0}
