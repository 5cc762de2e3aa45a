"""Floor 7: the papers behind mcframe: the problems they state, the algorithms they published."""

from mcframe.papers.goldberg import (
    fixed_point_mc_1,
    fixed_point_mc_b,
    fixed_point_path,
    mc_1,
    mc_b,
    published_weights,
)
from mcframe.papers.hayashi import projected_factors, tri
from mcframe.papers.wang import collective, mc0, tmcc, tmcc_accelerated
from mcframe.papers.xu import coco, coco_0, coco_subgradient
from mcframe.papers.zheng import gamma, soft_impute, soft_impute_iterations

__all__ = [
    "coco",
    "coco_0",
    "coco_subgradient",
    "collective",
    "fixed_point_mc_1",
    "fixed_point_mc_b",
    "fixed_point_path",
    "gamma",
    "mc0",
    "mc_1",
    "mc_b",
    "projected_factors",
    "published_weights",
    "soft_impute",
    "soft_impute_iterations",
    "tmcc",
    "tmcc_accelerated",
    "tri",
]
