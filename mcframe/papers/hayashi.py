"""Hayashi, Sakai and Sugiyama, Binary Matrix Completion Using Unobserved Entries (2018).

The problems they state, as models of one block "labels": three risks and their mixtures, in a
ball of the max norm or of the trace norm, entries in a box. Labels are 0 and 1 here, NaN where
they are unobserved; theirs are -1, +1 and 0. ``hayashi_factors`` has their algorithm.
"""

import math
from typing import Any, Literal

from mcframe.constraints import Box, MaxNormBall, NuclearBall
from mcframe.contracts.errors import ModelError
from mcframe.contracts.term import Term
from mcframe.contracts.validators import number
from mcframe.likelihoods import Bernoulli
from mcframe.model import Block, Model
from mcframe.risks import RiskMixture

__all__ = [
    "logistic_quantization",
    "max_norm_radius",
    "nu",
    "pn",
    "pnu",
    "probit_quantization",
    "pu",
    "punu",
    "trace_norm_radius",
    "tri",
]

NormClass = Literal["max", "trace"]


def probit_quantization(sigma: float = 1.0) -> Bernoulli:
    """f(x) = Phi(x / sigma): Gaussian noise of that deviation (section 2.2.1).

    PU and NU are not convex with it: they take ``nonconvex=True``.
    """
    return Bernoulli("probit", scale=sigma)


def logistic_quantization(steepness: float = 1.0) -> Bernoulli:
    """f(x) = 1 / (1 + exp(-steepness x)): logistic noise; their section 6.2 has 7.

    Examples
    --------
    >>> from mcframe.papers import logistic_quantization
    >>> logistic_quantization(4.0)
    Bernoulli(link='logit', scale=0.25)
    """
    return Bernoulli("logit", scale=1.0 / positive_number(steepness, "steepness"))


def max_norm_radius(alpha: float, rank: float) -> float:
    """alpha sqrt(r): matrices of rank r within [-alpha, alpha] have no larger max norm (Eq. 14).

    Examples
    --------
    >>> from mcframe.papers import max_norm_radius
    >>> max_norm_radius(0.5, 4)
    1.0
    """
    return positive_number(alpha, "alpha") * math.sqrt(positive_number(rank, "rank"))


def trace_norm_radius(alpha: float, rank: float, shape: tuple[int, int]) -> float:
    """alpha sqrt(r d1 d2), that of the trace norm (Eq. 10).

    Examples
    --------
    >>> from mcframe.papers import trace_norm_radius
    >>> trace_norm_radius(0.5, 4, (3, 12))
    6.0
    """
    return max_norm_radius(alpha, rank) * math.sqrt(shape[0] * shape[1])


def tri(
    pn: float,
    pu: float,
    nu: float,
    radius: float,
    *,
    bound: float | None = None,
    norm: NormClass = "max",
    missing_rate: float | None = None,
    likelihood: Any = None,
    nonconvex: bool = False,
) -> Model:
    """The TRI risk, Eqs. 101 to 104: ``pn PN + pu PU + nu NU`` over K_max or K_*.

    Parameters
    ----------
    pn, pu, nu : float
        Their gamma_PN, gamma_PU and gamma_NU: at least 0, with sum 1.
    radius : float
        R, of the norm: see ``max_norm_radius`` and ``trace_norm_radius``.
    bound : float, optional
        alpha: entries of Z lie in [-alpha, alpha]. The max norm alone bounds them by R.
    norm : "max" (default) or "trace"
        K_max of Eq. 11, or K_* of Eq. 10.
    missing_rate : float, optional
        rho; estimated if None, see ``RiskMixture``.
    likelihood : default Bernoulli()
        Its mean is their quantization probability function.
    nonconvex : bool, default False
        Allow what is not convex: PU and NU of a probit.

    Examples
    --------
    >>> from mcframe.papers import tri
    >>> for term in tri(0.4, 0.3, 0.3, 2.0, bound=1.0, missing_rate=0.8).terms:
    ...     print(term.formula())
    ‖Z‖_max ≤ 2
    -1 ≤ z_ij ≤ 1
    """
    risk = RiskMixture(
        pn=pn,
        pu=pu,
        nu=nu,
        missing_rate=missing_rate,
        likelihood=Bernoulli() if likelihood is None else likelihood,
        nonconvex=nonconvex,
    )
    if norm not in ("max", "trace"):
        raise ModelError(f"norm={norm!r} was given; 'max' or 'trace' is needed")
    terms: list[Term] = [MaxNormBall(radius) if norm == "max" else NuclearBall(radius)]
    if bound is not None:
        terms.append(Box(-bound, bound))
    return Model([Block("labels", risk)], terms)


def pn(radius: float, **options: Any) -> Model:
    """The PN risk, Eq. 77: observed entries alone (Davenport et al.; Cai and Zhou).

    Parameters
    ----------
    radius, options : as in ``tri``
        Davenport et al. have ``norm="trace"``, Cai and Zhou the max norm. The missing rate
        plays no part.
    """
    return tri(1.0, 0.0, 0.0, radius, **options)


def pu(radius: float, **options: Any) -> Model:
    """The PU risk, Eqs. 83 and 84: positive labels, and all else as unlabeled (Hsieh et al.)."""
    return tri(0.0, 1.0, 0.0, radius, **options)


def nu(radius: float, **options: Any) -> Model:
    """The NU risk, Eqs. 86 and 87: the counterpart of PU."""
    return tri(0.0, 0.0, 1.0, radius, **options)


def punu(gamma: float, radius: float, **options: Any) -> Model:
    """The PUNU risk, Eq. 89: ``(1 - gamma) PU + gamma NU``, 0 <= gamma <= 1."""
    gamma = within(gamma, "gamma", 0.0)
    return tri(0.0, 1.0 - gamma, gamma, radius, **options)


def pnu(eta: float, radius: float, **options: Any) -> Model:
    """The PNU risk, Eqs. 90 to 92: ``(1 - |eta|) PN``, and |eta| of PU (above 0) or NU (below).

    Examples
    --------
    >>> from mcframe.papers import pnu, tri
    >>> pnu(-0.25, 2.0) == tri(0.75, 0.0, 0.25, 2.0)
    True
    """
    eta = within(eta, "eta", -1.0)
    return tri(1.0 - abs(eta), max(eta, 0.0), max(-eta, 0.0), radius, **options)


def positive_number(value: object, name: str) -> float:
    """A finite number above 0, or a ``ModelError`` that names what was given."""
    found = number(value, name)
    if found <= 0.0:
        raise ModelError(f"{name}={value!r} was given; a number above 0 is needed")
    return found


def within(value: object, name: str, least: float) -> float:
    """A number from the least one to 1, or a ``ModelError`` that names what was given."""
    found = number(value, name)
    if not least <= found <= 1.0:
        raise ModelError(f"{name}={value!r} was given; {least:g} to 1 is needed")
    return found
