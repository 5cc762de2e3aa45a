"""The likelihood of waiting times."""

import attrs

from mcframe.likelihoods.gamma import Gamma


@attrs.frozen
class Exponential(Gamma):
    """``l(z, y) = z + y exp(-z)``: waiting times with the log link, ``Gamma(shape=1.0)``.

    Domain: y > 0; the mean is exp(z). This is the whole negative log-likelihood of the
    exponential distribution with mean exp(z), nothing is dropped. A loss may be negative. The
    curvature y exp(-z) is unbounded: backends with fixed steps refuse it, ``proximal`` finds
    its steps by backtracking.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Exponential().value(np.array([0.0]), np.array([3.0]))
    array([3.])
    """

    shape: float = attrs.field(default=1.0, init=False, repr=False)
