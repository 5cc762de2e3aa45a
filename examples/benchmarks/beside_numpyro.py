"""The sampler beside NumPyro's NUTS: the same posteriors, by two programs that share no code.

    python examples/benchmarks/beside_numpyro.py [--models labels levels ...] [--page]

For each of six models a table is drawn, 30 % of its entries are hidden, and both programs draw
from the posterior with the same priors. The table shows how far the posterior means of the
predictors z of all cells differ, in Monte Carlo standard errors of the difference (about 1 where
both are right), the ratio of their standard deviations, and what an effective draw of the slowest
number costs. NumPyro's clock starts after a first run, which compiles. It has to be installed
beside mcframe: ``python -m pip install numpyro``.
"""

import argparse
import time
import warnings

import certainty
import numpy as np
from pages import DOCUMENT, markdown, write_part

import mcframe as mc
from mcframe.contracts.likelihood import ExpectedLogLikelihood
from mcframe.model import Problem
from mcframe.posterior.chain_diagnostics import effective_sizes, r_hats
from mcframe.posterior.observed import NOISE_PRIOR_ENTRIES, Observed

N_CHAINS, N_WARMUP, N_DRAWS, TOL = 4, 1000, 2000, 0.04
MODELS = {
    "Gaussian, variance .25": (mc.Gaussian(variance=0.25), 1.0),
    "Gaussian, noise drawn": (mc.Gaussian(variance=None), 1.0),
    "labels": (mc.Bernoulli(), 2.0),
    "levels": (mc.Ordinal(5, (-2.0, -0.7, 0.7, 2.0)), 2.0),
    "counts, Poisson": (mc.Poisson(), 0.7),
    "counts, negative binomial": (mc.NegativeBinomial(0.5), 0.7),
}


def table(name, seed):
    """Observations with holes, the model and the weight of its norm."""
    likelihood, deviation = MODELS[name]
    drawn_from = likelihood
    if isinstance(likelihood, mc.Gaussian) and likelihood.variance is None:
        drawn_from = mc.Gaussian(variance=0.25)
    _, y, hidden, weight = certainty.drawn(drawn_from, deviation, seed)
    model = mc.Model([mc.Block("y", likelihood)], [mc.NuclearNorm(weight)])
    return np.where(hidden, np.nan, y), model, weight


def by_mcframe(model, y):
    """Draws of z (S x n x d), effective draws of the slowest number, seconds, and R-hat."""
    began = time.process_time()
    posterior = mc.posterior(
        model, {"y": y}, factors=certainty.FACTORS, method="sampler", tol=TOL, max_iter=200_000
    )
    seconds = time.process_time() - began
    engine = posterior.engine
    z = np.einsum("snk,sdk->snd", engine.rows, engine.columns)
    return z, posterior.diagnostics.effective_draws, seconds, posterior.diagnostics.r_hat


def numpyro_model(likelihood, weight, y, mean_square):
    """The same priors and observations in NumPyro's words."""
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions as dist

    rows, columns = np.nonzero(~np.isnan(y))
    values = y[rows, columns]

    def model():
        k = certainty.FACTORS
        u = numpyro.sample("u", dist.Normal(0.0, 1.0).expand([len(y), k]).to_event(2))
        v = numpyro.sample("v", dist.Normal(0.0, 1.0).expand([y.shape[1], k]).to_event(2))
        z = numpyro.deterministic("z", u @ v.T / weight)[rows, columns]
        if isinstance(likelihood, mc.Gaussian):
            variance = likelihood.variance
            if variance is None:
                half = 0.5 * NOISE_PRIOR_ENTRIES
                centre = numpyro.sample("centre", dist.Exponential(1.0)) * mean_square
                variance = numpyro.sample(
                    "noise", dist.InverseGamma(half, half * centre).expand([y.shape[1]])
                )[columns]
            observed = dist.Normal(z, jnp.sqrt(variance))
        elif isinstance(likelihood, mc.Bernoulli):
            observed = dist.Bernoulli(logits=z)
        elif isinstance(likelihood, mc.Ordinal):
            cuts = jnp.array(likelihood.thresholds)
            observed = dist.OrderedLogistic(z, cuts)
        else:
            if isinstance(likelihood, ExpectedLogLikelihood):  # whose predictors have noise
                deviation = numpyro.sample("deviation", dist.HalfNormal(1.0))
                with numpyro.plate("entries", values.size):
                    z = z + deviation * numpyro.sample("noise of z", dist.Normal(0.0, 1.0))
            if isinstance(likelihood, mc.Poisson):
                observed = dist.Poisson(jnp.exp(z))
            else:
                size = 1.0 / likelihood.dispersion
                observed = dist.NegativeBinomial2(jnp.exp(z), size)
        first = likelihood.lowest if isinstance(likelihood, mc.Ordinal) else 0
        whole = not isinstance(likelihood, mc.Gaussian)
        values_of_peer = (values - first).astype(int) if whole else values
        numpyro.sample("y", observed, obs=values_of_peer)

    return model


def by_numpyro(model, y, weight):
    """Draws of z (chains x S x n x d), effective draws of each cell, seconds, and R-hat."""
    import jax
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    observed = Observed.of(Problem.bind(model, {"y": y}))
    [likelihood] = [block.likelihood for block in model.blocks]
    kernel = NUTS(numpyro_model(likelihood, weight, y, float(np.mean(observed.mean_squares))))
    chains = MCMC(
        kernel,
        num_warmup=N_WARMUP,
        num_samples=N_DRAWS,
        num_chains=N_CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )
    chains.run(jax.random.PRNGKey(0))  # compiles
    began = time.process_time()
    chains.run(jax.random.PRNGKey(1))
    z = np.asarray(chains.get_samples(group_by_chain=True)["z"])
    seconds = time.process_time() - began
    flat = z.reshape(N_CHAINS, N_DRAWS, -1)
    return z, effective_sizes(flat), seconds, r_hats(flat).max()


def compared(name, seed):
    """One row of the table."""
    y, model, weight = table(name, seed)
    ours, n_ours, s_ours, r_ours = by_mcframe(model, y)
    peer, n_peer, s_peer, r_peer = by_numpyro(model, y, weight)
    flat = peer.reshape(-1, y.size)
    means, deviations = ours.reshape(-1, y.size).mean(axis=0), flat.std(axis=0)
    n_kept = min(n_ours, len(ours))  # of all draws some alone are kept
    errors = deviations * np.sqrt(1.0 / n_kept + 1.0 / n_peer)
    scores = (means - flat.mean(axis=0)) / errors
    ratios = ours.reshape(-1, y.size).std(axis=0) / deviations
    low, middle, high = np.quantile(ratios, [0.05, 0.5, 0.95])
    distance = np.sqrt(np.mean(np.square((means - flat.mean(axis=0)) / deviations)))
    return [
        name,
        f"{np.sqrt(np.mean(np.square(scores))):.2f}",
        f"{distance:.3f}",
        f"{middle:.3f} ({low:.2f} to {high:.2f})",
        f"{r_ours:.3f}; {r_peer:.3f}",
        f"{n_ours:.0f} in {s_ours:.1f} s",
        f"{n_peer.min():.0f} in {s_peer:.1f} s",
        f"{(n_ours / s_ours) / (n_peer.min() / s_peer):.2g}",
    ]


def main():
    """Print the table, or write it into docs/quality.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", action="store_true", help="write the table into docs/quality.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore", mc.NotConvergedWarning)
    header = ["model", "means differ by standard errors", "by posterior sd", "ratio of sd"]
    header += ["R-hat: mcframe; NumPyro", "effective draws: mcframe", "NumPyro"]
    header += ["draws a second, ratio"]
    rows = []
    for name in options.models:
        rows.append(compared(name, options.seed))
        print(rows[-1], flush=True)
    written = markdown(header, rows)
    print(*written, sep="\n")
    if options.page:
        write_part(DOCUMENT, "numpyro", written)


if __name__ == "__main__":
    main()
