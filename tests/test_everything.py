"""No false certificate on random models of everything: all words, options, scales and data forms.

There is no oracle at such scales. But every objective that any fit reaches is an upper bound on
the optimum: no bound of another fit may lie above it, and no certified objective may lie above it
by more than its ``tol``.
"""

import itertools
import warnings
from collections import Counter

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.backends import eligibilities
from mcframe.compile import CompiledProblem
from mcframe.partitions.partitioned_data import RowsInMemory

from .strategies import everything

TOLERANCES = (1e-6, 1e-9, 1e-12)


def fits_of(model, data, n_partitions, other, tol, seconds):
    """One model by the backend that is chosen, by another one, and with rows in partitions."""
    problem = mc.Problem.bind(model, data)
    able = [v.name for v in eligibilities(CompiledProblem(problem)) if v.can_run]
    ways = [("auto", data)]
    if able:
        ways.append((able[other % len(able)], data))
    ways.append(("auto", RowsInMemory(data, n_partitions)))
    found = []
    for backend, given_as in ways:
        try:
            found.append(mc.fit(model, given_as, backend=backend, tol=tol, max_seconds=seconds))
        except mc.McframeError as error:
            found.append(error)
    return found


def contradictions(fits, tol):
    """What cannot be true together, in words."""
    for fit in fits:
        if fit.status == "certified" and not fit.gap <= tol:
            yield f"certified by {fit.backend} with a gap of {fit.gap}"
    for one, other in itertools.product(fits, fits):
        slack = max(one.allowed_excess, other.allowed_excess)
        if not one.bound <= other.objective + slack:
            yield f"bound {one.bound!r} of {one.backend}, objective {other.objective!r}"
        size = max(abs(one.objective), abs(one.bound))
        slack = max(slack, one.rounding.zero_below)  # an objective up to this counts as 0
        if one.status == "certified" and one.objective > other.objective + tol * size + slack:
            yield (
                f"{one.backend} certifies {one.objective!r}, bound {one.bound!r},"
                f" {other.backend} has {other.objective!r}"
            )


def check(example, other, tol, seconds, tally):
    """Fits of one model do not contradict each other; only errors of the package are raised."""
    tally["models"] += 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for known in (mc.UnobservedWarning, mc.NotCertifiedWarning):
            warnings.simplefilter("ignore", known)
        try:
            found = fits_of(*example, other, tol, seconds)
        except (mc.DataError, mc.ModelError) as error:
            tally[type(error).__name__] += 1
            return
        fits = [fit for fit in found if isinstance(fit, mc.Fit)]
        tally.update(fit.status for fit in fits)
        tally["refused"] += len(found) - len(fits)
        tally["in partitions"] += isinstance(found[-1], mc.Fit)
        wrong = list(contradictions(fits, tol))
        str([*map(str, fits)])
    assert not wrong, wrong


@pytest.mark.parametrize(
    ("part", "n_examples", "seconds"),
    [
        (0, 5, 1.0),
        pytest.param(0, 20, 1.0, marks=pytest.mark.slow(seconds=5)),
        *(pytest.param(k, 300, 2.0, marks=pytest.mark.slow) for k in range(100, 110)),
    ],
)
def test_no_certificate_is_false(part, n_examples, seconds, record_property):
    tally = Counter()

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])  # shrinking takes minutes
    @given(everything(), st.integers(0, 6), st.sampled_from(TOLERANCES))
    def holds(example, other, tol):
        check(example, other, tol, seconds, tally)

    holds()
    record_property("everything", ", ".join(f"{k} {v}" for k, v in sorted(tally.items())))
    assert tally["models"] >= n_examples
    assert tally["certified"] >= n_examples / 3
