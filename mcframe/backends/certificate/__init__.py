"""The certificate of an answer, from the formula to the number.

``candidate`` evaluates one, asks ``compile.dual_point`` for gradients, and says how exactly
objective and bound are known; ``bound`` scales gradients into every domain and adds up conjugates,
that of the main regularizer, which covers all of Z, among them.
"""

from mcframe.backends.certificate.candidate import (
    Certificate,
    Point,
    Rounding,
    at_zero,
    certify,
    relative_gap,
    uncertified,
)
from mcframe.compile import Dual

__all__ = [
    "Certificate",
    "Dual",
    "Point",
    "Rounding",
    "at_zero",
    "certify",
    "relative_gap",
    "uncertified",
]
