"""Floor 7: the papers behind mcframe: the problems they state, the algorithms they published."""

from mcframe.papers.goldberg import fixed_point_mc_1, fixed_point_mc_b, mc_1, mc_b
from mcframe.papers.hayashi import projected_factors, tri
from mcframe.papers.xu import coco, coco_0, coco_subgradient, concatenated

__all__ = [
    "coco",
    "coco_0",
    "coco_subgradient",
    "concatenated",
    "fixed_point_mc_1",
    "fixed_point_mc_b",
    "mc_1",
    "mc_b",
    "projected_factors",
    "tri",
]
