"""Floor 7: the papers behind mcframe: the problems they state, the algorithms they published."""

from mcframe.papers.goldberg import fixed_point_mc_1, fixed_point_mc_b, mc_1, mc_b
from mcframe.papers.hayashi import projected_factors, tri
from mcframe.papers.wang import collective, mc0, tmcc, tmcc_accelerated
from mcframe.papers.xu import coco, coco_subgradient
from mcframe.papers.zheng import gamma, soft_impute, soft_impute_iterations

__all__ = [
    "coco",
    "coco_subgradient",
    "collective",
    "fixed_point_mc_1",
    "fixed_point_mc_b",
    "gamma",
    "mc0",
    "mc_1",
    "mc_b",
    "projected_factors",
    "soft_impute",
    "soft_impute_iterations",
    "tmcc",
    "tmcc_accelerated",
    "tri",
]
