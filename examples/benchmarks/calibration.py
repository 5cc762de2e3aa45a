"""Simulation-based calibration of posteriors: ranks of what tables were drawn from.

    python examples/benchmarks/calibration.py run [--method chains] [--tables 500]
    python examples/benchmarks/calibration.py page

For each of some models, tables of 12 rows and 6 columns are drawn from the prior, 30 % of the
cells are hidden, and what the tables were drawn from is ranked among draws of their posteriors
(``mc.laws.check_posterior``). Methods are ``variational`` and ``sampler``, as ``mc.posterior``
has them, and ``chains``: the steps of the sampler alone, one chain for each table, all tables side
by side, which takes a small part of the time. Its chains begin at the prior, and every 15th of the
sweeps after the first 400 is a draw. Each model and method is a line of ``calibration.jsonl``;
what is there is not run again. ``page`` writes the table into docs/quality.md.
"""

import argparse
import json
import pathlib
import time
import warnings

import attrs
import numpy as np
from pages import DOCUMENT, markdown, write_part

import mcframe as mc
from mcframe.contracts.endings import Status
from mcframe.laws import posterior_laws
from mcframe.laws.posterior_laws import PosteriorCalibration, Template
from mcframe.model import Problem
from mcframe.posterior.answer import Posterior
from mcframe.posterior.attributes import stored_attributes
from mcframe.posterior.chain_diagnostics import SamplerDiagnostics, effective_sizes
from mcframe.posterior.chains import FactorChains, FactorDraws
from mcframe.posterior.estimation import PosteriorOptions, with_attributes
from mcframe.posterior.factor_state import initial_state
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.observed import Observed
from mcframe.posterior.prior_draws import draw_from_prior
from mcframe.posterior.row_pass import PosteriorRows
from mcframe.posterior.sampled_engines import SampledFactors

RESULTS = pathlib.Path(__file__).with_name("calibration.jsonl")
SHAPE, FACTORS, SHARE = (12, 6), 2, 0.3
BURN_IN, SPACING, DRAWS = 400, 15, 63
MODELS = {
    "Gaussian, variance .5": (mc.Gaussian(variance=0.5), 1.0, {}),
    "Gaussian, noise drawn": (mc.Gaussian(variance=None), 1.0, {}),
    "Gaussian, precisions drawn, row effects": (
        mc.Gaussian(variance=None),
        None,
        {"row_effects": True},
    ),
    "Gaussian, biases with a ridge": (
        mc.Gaussian(variance=None),
        1.0,
        {"bias": True, "effects_weight": 2.0},
    ),
    "Huber": (mc.Huber(delta=1.0), 1.0, {}),
    "quantile .3": (mc.Quantile(0.3), 1.0, {}),
    "labels, biases with a ridge": (
        mc.Bernoulli(),
        1.0,
        {"bias": True, "effects_weight": 1.0},
    ),
    "labels, probit": (mc.Bernoulli("probit"), 0.7, {}),
    "levels, thresholds given": (mc.Ordinal(4, (-1.0, 0.0, 1.5)), 0.7, {}),
    "levels, thresholds drawn": (mc.Ordinal(4), 1.0, {}),
    "classes": (mc.Multinomial(3), 1.0, {}),
    "counts, Poisson": (mc.Poisson(), 1.5, {}),
    "counts, negative binomial": (mc.NegativeBinomial(0.5), 1.5, {}),
    "durations, gamma": (mc.Gamma(shape=2.0), 1.5, {}),
    "Gaussian, attributes of rows and columns": (
        mc.Gaussian(variance=None),
        1.0,
        {"row_effects": True},
    ),
}
# Of the models that have them. The first row and the first column have no entries.
NORMAL = np.random.default_rng(0).standard_normal
ATTRIBUTES = {
    "Gaussian, attributes of rows and columns": {
        "row_attributes": {"two": NORMAL((SHAPE[0], 2)), "one": NORMAL(SHAPE[0])},
        "column_attributes": NORMAL((SHAPE[1], 2)),
    },
}


def model_of(name):
    """A model by its name."""
    likelihood, weight, options = MODELS[name]
    return mc.Model([mc.Block("y", likelihood, **options)], [mc.NuclearNorm(weight)])


def hidden_cells(name, rng):
    """The cells that are hidden in all tables of the steps of the sampler."""
    hidden = rng.random(SHAPE) < SHARE
    if name in ATTRIBUTES:
        hidden[0], hidden[:, 0] = True, True
    return {"y": hidden}


def of_chains(name, n_tables, seed):
    """The calibration of the sampler's steps, and the mean number of effective draws of z."""
    model, began, rng = model_of(name), time.process_time(), np.random.default_rng(seed)
    options = PosteriorOptions(
        method="sampler", factors=FACTORS, tol=None, max_iter=None, max_seconds=np.inf, n_jobs=1
    )
    given = ATTRIBUTES.get(name, {})
    sides = given.get("row_attributes"), given.get("column_attributes")
    options.update(stored_attributes(*sides))
    hidden = hidden_cells(name, rng)
    template = Template.of(model, {"y": SHAPE}, rng)
    tasks, n_redrawn = template.tasks(n_tables, SHARE, hidden, options, rng)
    problem = Problem.bind(tasks[0].model, tasks[0].data)
    observed = Observed.of(problem)
    [summary], [scales] = observed.summaries, template.observed.summaries
    summary = attrs.evolve(summary.with_scales(scales), centres=scales.centres)
    observed = observed.with_summaries((summary,))
    state = initial_state(observed, FACTORS, model.terms[0].weight, rng)
    about_zero = np.zeros_like(state.priors.bias_means)
    state = attrs.evolve(state, priors=attrs.evolve(state.priors, bias_means=about_zero))
    state = with_attributes(observed, state, options)
    begin = FactorPosterior(PosteriorRows(observed), observed, state)
    chains = FactorChains.begin(begin, n_tables, rng)
    draw_from_prior(chains)
    chains.targets = [np.array([task.data["y"].values[~hidden["y"]] for task in tasks])]
    states = []
    for sweep in range(BURN_IN + SPACING * DRAWS):
        chains.sweep()
        if sweep >= BURN_IN and (sweep - BURN_IN) % SPACING == SPACING - 1:
            states.append(chains.snapshot())
    tables, sizes = [], []
    for t, task in enumerate(tasks):
        draws = FactorDraws.joined([state.take(np.array([t])) for state in states])
        z = np.einsum("snk,sdk->snd", draws.rows, draws.columns)
        sizes.append(np.mean(effective_sizes(z[None])))
        engine = SampledFactors(
            observed,
            chains.design,
            draws.rows,
            draws.columns,
            draws.priors,
            chains.weight,
            -np.inf,
            SamplerDiagnostics(1, sweep + 1, BURN_IN, DRAWS, 1.0, DRAWS, 0, (1.0, 1.0)),
            chains.attributes,
            draws.coefficients,
        )
        posterior = Posterior(
            problem,
            engine,
            Status.CONVERGED,
            "",
            (),
            t,  # the seed of draws of new observations
            options,
            problem.tables,
        )
        tables.append(task.ranks(posterior))
    answer = PosteriorCalibration(
        method="chains",
        shapes={"y": SHAPE},
        counts=posterior_laws.joined([table.counts for table in tables]),
        log_ratios={},
        n_redrawn=n_redrawn,
        n_not_converged=0,
        seconds=time.process_time() - began,
    )
    return answer, float(np.mean(sizes))


def line_of(name, method, n_tables, seed):
    """What is stored of one model and method."""
    effective = None
    if method == "chains":
        answer, effective = of_chains(name, n_tables, seed)
    else:
        answer = mc.laws.check_posterior(
            model_of(name),
            {"y": SHAPE},
            method=method,
            factors=FACTORS,
            share=SHARE,
            n_tables=n_tables,
            error_rate=0.0,
            tol=0.1 if method == "sampler" else None,
            random_state=seed,
            progress=False,
            **ATTRIBUTES.get(name, {}),
        )
    print(answer, flush=True)
    kinds = {
        kind: {
            "n": ranks.n,
            "coverage": {f"{level:g}": pair for level, pair in ranks.coverage.items()},
            "mean_rank": ranks.mean_rank,
            "p": ranks.test.p_value,
        }
        for kind, ranks in answer.ranks.items()
    }
    return {
        "model": name,
        "method": method,
        "tables": answer.n_tables,
        "seed": seed,
        "p": answer.p_value,
        "worst": answer.worst,
        "kinds": kinds,
        "ratios": {
            kind: float(np.exp(ratios.mean())) for kind, ratios in answer.log_ratios.items()
        },
        "not_converged": answer.n_not_converged,
        "redrawn": answer.n_redrawn,
        "effective_draws": effective,
        "seconds": answer.seconds,
    }


def stored():
    """All lines of the file, of equal ones the last."""
    if not RESULTS.exists():
        return []
    lines = map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines())
    return list({(one["model"], one["method"]): one for one in lines}.values())


def run(method, names, n_tables, seed, again):
    """Compute and store what is not stored yet."""
    ready = {(one["model"], one["method"]) for one in stored()} if not again else set()
    for name in names:
        if (name, method) in ready:
            continue
        line = line_of(name, method, n_tables, seed)
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{name}, {method}: p = {line['p']:.2g}, {line['seconds']:.0f} s", flush=True)


def page():
    """Write the table into docs/quality.md."""
    header = ["model", "method", "tables", "z, hidden: 50 %", "90 %", "z, observed: 90 %"]
    header += ["new values, hidden: 90 %", "totals: 90 %", "parameters: 90 %", "least p", "CPU s"]

    def share(kinds, name, level="0.9"):
        if name not in kinds:
            return ""
        value, error = kinds[name]["coverage"][level]
        return f"{100 * value:.1f} ± {100 * error:.1f}"

    rows = []
    order = {name: place for place, name in enumerate(MODELS)}
    for line in sorted(stored(), key=lambda one: (one["method"], order[one["model"]])):
        kinds = line["kinds"]
        parameters = [
            share(kinds, name)
            for name in kinds
            if not name.startswith(("z,", "new observations", "total"))
        ]
        rows.append(
            [
                line["model"],
                line["method"],
                str(line["tables"]),
                share(kinds, "z, hidden cells", "0.5"),
                share(kinds, "z, hidden cells"),
                share(kinds, "z, observed cells"),
                share(kinds, "new observations, hidden cells"),
                share(kinds, "total of hidden values"),
                "; ".join(parameters),
                f"{line['p']:.2g}",
                f"{line['seconds']:.0f}",
            ]
        )
    write_part(DOCUMENT, "calibration", markdown(header, rows))


def main():
    """Run, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["run", "page"])
    parser.add_argument("--method", choices=["chains", "sampler", "variational"], default="chains")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", mc.NotConvergedWarning)
    warnings.simplefilter("ignore", mc.UnobservedWarning)
    if options.verb == "page":
        page()
    else:
        run(options.method, options.models, options.tables, options.seed, options.again)


if __name__ == "__main__":
    main()
