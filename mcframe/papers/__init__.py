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
from mcframe.papers.xu import coco, coco_0, coco_subgradient

__all__ = [
    "coco",
    "coco_0",
    "coco_subgradient",
    "fixed_point_mc_1",
    "fixed_point_mc_b",
    "fixed_point_path",
    "mc_1",
    "mc_b",
    "projected_factors",
    "published_weights",
    "tri",
]
