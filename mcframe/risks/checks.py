"""What a mixture of risks refuses, each with a sentence."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import (
    Conjugate,
    Likelihood,
    LinearDifference,
    TwiceDifferentiable,
)
from mcframe.contracts.validators import number

__all__ = ["is_rate", "is_share", "is_switch", "takes_labels", "why_not_convex"]


def is_share(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: a finite number of at least 0, kept as a Python float."""
    share = number(value, f"RiskMixture: {attribute.name}")
    object.__setattr__(instance, attribute.name, share)
    if share < 0.0:
        raise ModelError(
            f"RiskMixture: {attribute.name}={value!r} was given; it must be at least 0"
        )


def is_rate(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: None, or a number in [0, 1)."""
    if value is None:
        return
    rate = number(value, "RiskMixture: missing_rate")
    object.__setattr__(instance, attribute.name, rate)
    if not 0.0 <= rate < 1.0:
        raise ModelError(
            f"RiskMixture: missing_rate={value!r} was given; 0 <= missing_rate < 1 is needed,"
            " or None to estimate it"
        )


def takes_labels(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: a smooth likelihood whose losses at the labels 0 and 1 compare."""
    abilities = (Likelihood, LinearDifference, Conjugate, TwiceDifferentiable)
    fits = all(isinstance(value, ability) for ability in abilities)
    if isinstance(value, Likelihood) and fits:
        fits = value.smooth and value.width == 1 and not value.invalid(np.array([0.0, 1.0])).any()
    if not fits:
        raise ModelError(
            f"RiskMixture: likelihood={value!r} was given; a loss for labels 0 and 1 is needed,"
            " such as mc.Bernoulli() or mc.Gaussian()"
        )


def is_switch(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: True or False."""
    if not isinstance(value, bool):
        raise ModelError(
            f"RiskMixture: {attribute.name}={value!r} was given; True or False is needed"
        )


def why_not_convex(pu: float, missing_rate: float | None, likelihood: Likelihood) -> str:
    """The sentence that refuses PU and NU of a loss whose d is no line."""
    label, coefficient, other = ("positive", "pu", 0) if pu > 0.0 else ("negative", "nu", 1)
    reason = (
        f"RiskMixture: with {likelihood!r} the mixture is not convex: l(z, 1) - l(z, 0) is not a"
        f" line in z, and a {label} entry carries l(z, {other}) with the negative coefficient"
        f" -{coefficient} * missing_rate / (1 - missing_rate)"
    )
    if missing_rate == 0.0:
        reason = (
            "RiskMixture: missing_rate=0 says that no entry is unlabeled, where PU and NU are"
            f" PN; with {likelihood!r} only pn=1 is taken as convex"
        )
    return (
        f"{reason}; take likelihood=mc.Bernoulli('logit') or pn=1, or write nonconvex=True to"
        " minimise it without a certificate"
    )
