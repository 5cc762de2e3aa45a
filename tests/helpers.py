"""What several test files share: answers of any status, small tables, comparisons, abilities."""

import warnings

import numpy as np

import mcframe as mc


def of_any_status(verb, *arguments, **options):
    """The answer of a verb, without a warning if it is not certified."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        return verb(*arguments, **options)


def table_of_rank_two(seed, shape):
    """Numbers of rank two and noise; a quarter is missing, and no row is empty."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    values += 0.3 * rng.standard_normal(shape)
    missing = rng.random(shape) < 0.25
    missing[:, 0] = False
    return np.where(missing, np.nan, values)


def check_equal_fits(ours, theirs, backend=None):
    """Both are the same to the bit; ours is by another backend if one is named."""
    assert ours.status == theirs.status
    assert ours.backend == (backend or theirs.backend)
    assert (ours.objective, ours.bound) == (theirs.objective, theirs.bound)
    assert [r.objective for r in ours.history] == [r.objective for r in theirs.history]
    np.testing.assert_array_equal(ours.latent.dense(), theirs.latent.dense())


def members_of(abilities):
    """The members of abilities that a word may define, by name; None of declarations alone."""
    members = {}
    for ability in abilities:
        for name, member in vars(ability).items():
            if not name.startswith("_"):
                members.setdefault(name, member)
        members.update(dict.fromkeys(getattr(ability, "__annotations__", {})))
    return members
