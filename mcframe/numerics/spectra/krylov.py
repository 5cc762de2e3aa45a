"""Krylov spaces of symmetric matrices that are known by their products."""

from collections.abc import Callable

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.numerics.machine.clock import check_time

__all__ = ["krylov"]


def krylov(times: Callable[[Array], Array], start: Array, steps: int) -> tuple[Array, Array]:
    """An orthonormal basis of a Krylov space, row by row, and the matrix in it."""
    basis = np.zeros((steps, start.size))
    images = np.zeros((steps, start.size))
    vector = start / np.linalg.norm(start)
    for k in range(steps):
        check_time()
        basis[k] = vector
        images[k] = times(vector)
        vector = images[k].copy()
        for _ in range(2):
            vector -= basis[: k + 1].T @ (basis[: k + 1] @ vector)
        length = float(np.linalg.norm(vector))
        if length <= 1e-12 * float(np.linalg.norm(images[k])):
            basis, images = basis[: k + 1], images[: k + 1]
            break
        vector /= length
    ritz = basis @ images.T
    return basis, 0.5 * (ritz + ritz.T)
