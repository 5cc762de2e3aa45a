"""The certificate: what an answer is worth at least, from the formula to the number.

``judging`` evaluates a candidate and asks ``compile.dual_point`` for gradients; ``bound`` scales
them into every domain and adds up conjugates; ``main_term`` answers for the norm that covers all
of Z; ``rounding`` says how exactly all of it is known.
"""

from mcframe.backends.certificate.judging import at_zero, judge, judge_objective
from mcframe.backends.certificate.point import Judgement, Point
from mcframe.backends.certificate.rounding import Rounding, relative_gap
from mcframe.compile import Dual

__all__ = [
    "Dual",
    "Judgement",
    "Point",
    "Rounding",
    "at_zero",
    "judge",
    "judge_objective",
    "relative_gap",
]
