"""Floor 7: the papers behind mcframe: the problems they state, the algorithms they published."""

from mcframe.papers.goldberg import (
    fixed_point_mc_1,
    fixed_point_mc_b,
    fixed_point_path,
    mc_1,
    mc_b,
    published_weights,
)
from mcframe.papers.hayashi import (
    GrowingFactors,
    growing_factors,
    logistic_quantization,
    max_norm_radius,
    nu,
    pn,
    pnu,
    probit_quantization,
    projected_factors,
    pu,
    punu,
    shift_mc,
    trace_norm_radius,
    tri,
)
from mcframe.papers.wang import collective, mc0, tmcc, tmcc_accelerated
from mcframe.papers.xu import coco, coco_0, coco_subgradient, concatenated
from mcframe.papers.zheng import gamma, soft_impute, soft_impute_iterations

__all__ = [
    "GrowingFactors",
    "coco",
    "coco_0",
    "coco_subgradient",
    "collective",
    "concatenated",
    "fixed_point_mc_1",
    "fixed_point_mc_b",
    "fixed_point_path",
    "gamma",
    "growing_factors",
    "logistic_quantization",
    "max_norm_radius",
    "mc0",
    "mc_1",
    "mc_b",
    "nu",
    "pn",
    "pnu",
    "probit_quantization",
    "projected_factors",
    "pu",
    "published_weights",
    "punu",
    "shift_mc",
    "soft_impute",
    "soft_impute_iterations",
    "tmcc",
    "tmcc_accelerated",
    "trace_norm_radius",
    "tri",
]
