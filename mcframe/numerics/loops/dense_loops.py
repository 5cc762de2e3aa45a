"""Passes over whole matrices, compiled and fused: each reads and writes but once.

One thread each: it takes most of what memory gives, and threads of theirs would still be
spinning while those of the matrix products begin. Matrices are of 32 or 64 bits.
"""

from mcframe.contracts.arrays import Array, IntArray
from mcframe.numerics.loops.kernels import FAST
from mcframe.numerics.machine.compiled import compiled

__all__ = ["descend", "extrapolate", "products"]


@compiled(fastmath=FAST)
def extrapolate_loop(now, before, theta, out):  # type: ignore[no-untyped-def]
    for i in range(now.size):
        out[i] = now[i] + theta * (now[i] - before[i])


@compiled()
def descend_loop(places, z, slope, step, out):  # type: ignore[no-untyped-def]
    for p in range(places.size):
        out[places[p]] = z[p] - step * slope[p]


@compiled(fastmath=FAST)
def products_loop(new, now, before):  # type: ignore[no-untyped-def]
    squared = cross = 0.0
    for i in range(new.size):
        moved = new[i] - now[i]
        squared += moved * moved
        cross += moved * (now[i] - before[i])
    return squared, cross


def extrapolate(now: Array, before: Array, theta: float, out: Array) -> None:
    """``out = now + theta (now - before)``."""
    extrapolate_loop(now.ravel(), before.ravel(), theta, out.ravel())


def descend(places: IntArray, z: Array, slope: Array, step: float, out: Array) -> None:
    """``out[places] = z - step * slope``, the matrix read row by row."""
    descend_loop(places, z, slope, step, out.ravel())


def products(new: Array, now: Array, before: Array) -> tuple[float, float]:
    """``||new - now||^2`` and ``<new - now, now - before>``."""
    squared, cross = products_loop(new.ravel(), now.ravel(), before.ravel())
    return float(squared), float(cross)
