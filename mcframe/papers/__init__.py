"""Floor 7: the papers behind mcframe: the problems they state, the algorithms they published."""

from mcframe.papers.goldberg import fixed_point_mc_1, fixed_point_mc_b, mc_1, mc_b

__all__ = ["fixed_point_mc_1", "fixed_point_mc_b", "mc_1", "mc_b"]
