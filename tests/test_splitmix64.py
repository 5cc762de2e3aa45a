"""The hash of whole numbers, by the published generator and by what a hash must do."""

import numpy as np

from mcframe.numerics.splitmix64 import INCREMENT, splitmix64


def test_the_hash_is_that_of_the_published_generator():
    # The first outputs of the generator in C by Sebastiano Vigna, with the seeds 0 and 1234567:
    # output n is the hash of the seed plus n increments.
    steps = np.arange(5, dtype=np.uint64) * np.uint64(INCREMENT)
    assert splitmix64(steps)[:3].tolist() == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]
    assert splitmix64(np.uint64(1234567) + steps).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_different_numbers_have_different_hashes_with_half_of_their_bits_set():
    hashes = splitmix64(np.arange(-1000, 100_000))
    assert np.unique(hashes).size == hashes.size
    bits = np.unpackbits(hashes.view(np.uint8)).mean()
    assert abs(bits - 0.5) < 0.001


def test_the_numbers_stay_as_they_are_and_other_multipliers_give_another_hash():
    numbers = np.arange(4, dtype=np.uint64)
    hashes = splitmix64(numbers)
    assert numbers.tolist() == [0, 1, 2, 3]
    others = splitmix64(numbers, multipliers=(0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53))
    assert not np.any(hashes == others)
