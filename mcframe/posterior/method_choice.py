"""The choice of ``mc.posterior(method="auto")``: chains where they take seconds."""

from collections.abc import Sequence

from mcframe.backends.reference import cost_in_words
from mcframe.contracts.likelihood import GaussianNoise, LogisticTerms
from mcframe.contracts.term import PriorOfRows
from mcframe.posterior.observed import Observed
from mcframe.posterior.sampling import chain_count

# Chains that are estimated to take longer are not begun.
MAX_SAMPLER_SECONDS = 15.0
# Chains with a larger R-hat than this at their last sweep are not believed.
MAX_R_HAT = 1.05
# Sweeps that most small tables need, and how many times as many are made at most.
TYPICAL_SWEEPS, MOST_SWEEPS_RATIO = 2_000, 3
# Seconds of a sweep: at least, for an entry of a chain, and for each factor more. A pair of
# attributes, or of rows with entries where these are fewer, is an entry of equations.
SWEEP_SECONDS, ENTRY_SECONDS, FACTOR_SECONDS = 2.5e-3, 5e-8, 8e-8
# How many times faster a sweep of factors is where every loss is a parabola or has logistic terms.
COMPILED_SPEED = 3.0


def too_long(observed: Observed, n_factors: int | None, n_coefficients: Sequence[int] = ()) -> str:
    """The reason against chains that are expected to take longer than seconds, or "".

    Gaussian rows have no factors: a step of a row of d columns costs as much as one of d / 4.
    Likelihoods that are not Gaussian need twice as long, for proposals and their acceptance.
    ``n_coefficients`` are the unknowns of the equations for coefficients, of rows and of columns.
    """
    losses = [block.unfitted for block in observed.blocks]
    compiled = all(isinstance(loss, GaussianNoise | LogisticTerms) for loss in losses)
    speed = COMPILED_SPEED if compiled and n_factors is not None else 1.0
    n_factors = max(observed.shape[1] // 4, 1) if n_factors is None else n_factors
    an_entry = (1 + observed.needs_bounds) * (ENTRY_SECONDS + FACTOR_SECONDS * n_factors)
    n_chains = chain_count(observed)
    seconds = (SWEEP_SECONDS + n_chains * observed.n_entries * an_entry) / speed
    seconds += sum(SWEEP_SECONDS + n_chains * ENTRY_SECONDS * n**2 for n in n_coefficients)
    seconds *= TYPICAL_SWEEPS
    if seconds <= MAX_SAMPLER_SECONDS:
        return ""
    return f"chains would take {cost_in_words(seconds)}"


def reason_against(prior: PriorOfRows, observed: Observed, is_wide: bool) -> str:
    """The reason why chains of Gaussian rows cannot or should not begin, or ""."""
    if prior.gaussian is not None:
        return ""
    if prior.groups is not None:
        return "rows have groups, which chains have not"
    if prior.row_weights is not None:
        return "rows have weights, which chains have not"
    if is_wide:
        return "the table has too many columns for its rows"
    if prior.prior_rows is None and observed.needs_bounds:
        return "chains rarely agree where prior_rows is learned and observations are not Gaussian"
    return ""
