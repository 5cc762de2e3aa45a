"""Floor 7: the papers behind mcframe: the problems they state, the algorithms they published."""

from mcframe.papers.goldberg import fixed_point_mc_1, fixed_point_mc_b, mc_1, mc_b
from mcframe.papers.hayashi import (
    logistic_quantization,
    max_norm_radius,
    nu,
    pn,
    pnu,
    probit_quantization,
    pu,
    punu,
    trace_norm_radius,
    tri,
)
from mcframe.papers.hayashi_factors import projected_factors
from mcframe.papers.hayashi_growth import GrowingFactors, growing_factors
from mcframe.papers.xu import coco, coco_subgradient

__all__ = [
    "GrowingFactors",
    "coco",
    "coco_subgradient",
    "fixed_point_mc_1",
    "fixed_point_mc_b",
    "growing_factors",
    "logistic_quantization",
    "max_norm_radius",
    "mc_1",
    "mc_b",
    "nu",
    "pn",
    "pnu",
    "probit_quantization",
    "projected_factors",
    "pu",
    "punu",
    "trace_norm_radius",
    "tri",
]
