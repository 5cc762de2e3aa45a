"""A hash of whole numbers of 64 bits."""

from typing import Any

import numpy as np
import numpy.typing as npt

# The odd number next to 2^64 over the golden ratio, and the multipliers of the two rounds.
INCREMENT = 0x9E3779B97F4A7C15
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def splitmix64(
    numbers: npt.NDArray[Any],
    increment: int = INCREMENT,
    multipliers: tuple[int, int] = MULTIPLIERS,
) -> npt.NDArray[np.uint64]:
    """Return whole numbers spread over 64 bits: a permutation of all numbers of 64 bits.

    With the increment g and the multipliers a and b, all modulo 2^64::

        z = n + g
        z = (z xor z >> 30) a
        z = (z xor z >> 27) b
        z xor z >> 31

    Parameters
    ----------
    numbers : array of integers
    increment : int
    multipliers : tuple of two odd integers
        Other ones make another hash of the same kind, independent of this.

    Returns
    -------
    array of uint64, of the shape of the numbers

    References
    ----------
    Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
    """
    bits = numbers.astype(np.uint64) + np.uint64(increment)
    for multiplier, shift in zip(multipliers, (30, 27), strict=True):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(multiplier)
    return bits ^ (bits >> np.uint64(31))
