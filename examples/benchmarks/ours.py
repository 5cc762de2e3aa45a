"""mcframe on the standard problems: the models, its runs, and the judge of every answer."""

import warnings
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
from methods import Answer, Method
from problems import COUNTS, GAUSSIAN, LABELS

__all__ = ["Imputation", "Judge", "Mcframe", "data", "imputation_errors", "model"]

# Weights, relative to the largest useful one, that imputation chooses from.
PATH = (0.3, 0.2, 0.1, 0.05, 0.03, 0.02)


def model(instance):
    """Losses by the kind of column, and a nuclear norm."""
    import mcframe as mc

    likelihoods = {GAUSSIAN: mc.Gaussian(), LABELS: mc.Bernoulli(), COUNTS: mc.Poisson()}
    reduce = "mean" if instance.mean else "sum"
    blocks = [
        mc.Block(kind, likelihoods[kind], reduce=reduce, bias=instance.mean and kind == LABELS)
        for kind in instance.blocks()
    ]
    return mc.Model(blocks, [mc.NuclearNorm(instance.weight)])


def data(instance):
    """The columns of each block, dense with NaN or sparse as they come."""
    table = instance.data()
    return {kind: table[:, columns] for kind, columns in instance.blocks().items()}


class Judge:
    """The objective and the held-out errors of anybody's answer, by mcframe's own judge."""

    def __init__(self, instance):
        self.instance = instance

    @cached_property
    def problem(self):
        """The model bound to the data, once."""
        import mcframe as mc

        return mc.Problem.bind(model(self.instance), data(self.instance))

    def objective(self, answer):
        """Losses and nuclear norm at Z and the biases."""
        from mcframe.numerics.operators import LowRank

        latent = LowRank(np.ascontiguousarray(answer.left), np.ascontiguousarray(answer.right))
        return float(self.problem.objective(latent, answer.biases))

    def errors(self, answer):
        """By kind: the relative error of Z, of labels the share that Z gives the wrong sign."""
        instance = self.instance
        z = np.empty(instance.truth.size)
        for part in np.array_split(np.arange(z.size), 20):
            rows, columns = instance.held_rows[part], instance.held_columns[part]
            z[part] = np.einsum("ij,ij->i", answer.left[rows], answer.right[columns])
        for kind, biases in answer.biases.items():
            at = instance.blocks()[kind]
            held = (instance.held_columns >= at.start) & (instance.held_columns < at.stop)
            z[held] += biases[instance.held_columns[held] - at.start]
        return by_kind(instance, z, relative, partial(share_apart, threshold=0.0))


def imputation_errors(instance, predicted):
    """Mean absolute errors; of binary columns the share that is wrong when rounded."""
    return by_kind(instance, predicted, mean_absolute, partial(share_apart, threshold=0.5))


def mean_absolute(predicted, truth):
    """The mean of |predicted - truth|."""
    return float(np.mean(np.abs(predicted - truth)))


def share_apart(predicted, truth, threshold):
    """How often the two lie on different sides of a threshold."""
    return float(np.mean((predicted >= threshold) != (truth >= threshold)))


def by_kind(instance, predicted, error, error_of_labels):
    """An error for each kind of column, over the held-out positions."""
    kinds = instance.kinds[instance.held_columns]
    errors = {}
    for kind in instance.blocks():
        here = kinds == kind
        measure = error_of_labels if kind == LABELS else error
        errors[kind] = measure(predicted[here], instance.truth[here])
    return errors


def relative(z, truth):
    """|z - truth| / |truth|."""
    return float(np.linalg.norm(z - truth) / np.linalg.norm(truth))


class Mcframe(Method):
    """``mc.fit`` with its defaults: it stops when its certified gap is at most ``tol``.

    Its clock counts everything from the data to the answer, certificates included.
    """

    def __init__(self, backend, tol=1e-6, name=None):
        self.backend, self.tol = backend, tol
        self.name = name or ("mcframe" if backend == "auto" else f"mcframe {backend}")
        self.stoppable = backend != "reference"
        self.note = "CVXPY with SCS" if backend == "reference" else ""

    def unsuitable(self, instance):
        """By what each backend is for; ``auto`` takes all."""
        if instance.name == "imputation":
            return "imputation is a row of its own"
        if self.backend == "reference" and instance.name != "mc-b":
            return "a conic solver: tiny problems only"
        if self.backend == "alternating" and (instance.sparse or instance.mean):
            return "what auto takes there" if instance.sparse else "for tables too large to hold"
        return None

    def solve(self, task, clock):
        """One fit; each certificate is a point of the trace."""
        import mcframe as mc

        given, tied = data(task.instance), model(task.instance)
        clock.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mc.NotCertifiedWarning)
            fit = mc.fit(
                tied,
                given,
                backend=self.backend,
                tol=self.tol,
                max_iter=task.iterations or 20_000,
                max_seconds=task.max_seconds,
                callback=lambda record: clock.note(record.objective, record.bound),
            )
        clock.stop()
        clock.note(fit.objective, fit.bound)
        return Answer(fit.latent.left, fit.latent.right, dict(fit.effects))


class Imputation(Method):
    """A likelihood for each kind of column; the weight by a tenth of the observed entries.

    The clock counts the path of weights. Continuous columns are standardised. Errors
    are absolute, so that medians are predicted: of a Poisson distribution, not its mean.
    """

    name = "mcframe"
    stoppable = False
    note = "weight chosen on a tenth of the entries, all fits counted"

    def unsuitable(self, instance):
        """It is for the table that is to be imputed."""
        return None if instance.name == "imputation" else "for imputation"

    def solve(self, task, clock):
        """Weights on nine tenths until the others rise, then the best of them on all entries."""
        clock.start()
        whole = standardised(task.instance)
        checked = np.random.default_rng(0).random(whole.values.size) < 0.1
        start, lowest, best = None, np.inf, PATH[0]
        for fraction in PATH:
            start = fitted(only(whole, ~checked), fraction, start)
            loss = loss_of(start, only(whole, checked))
            if loss > lowest:
                break
            lowest, best = loss, fraction
        fit = fitted(whole, best, None)
        predicted = medians(fit, task.instance)
        clock.stop()
        return Answer(predicted=predicted)


def centre_and_spread(instance):
    """Means and standard deviations of the observed entries, (0, 1) but for Gaussian columns."""
    table = instance.data()
    continuous = instance.kinds == GAUSSIAN
    return (
        np.where(continuous, np.nanmean(table, axis=0), 0.0),
        np.where(continuous, np.nanstd(table, axis=0), 1.0),
    )


def standardised(instance):
    """The instance with its continuous columns centred and of spread 1."""
    centre, spread = centre_and_spread(instance)
    values = (instance.values - centre[instance.columns]) / spread[instance.columns]
    return replace(instance, values=values)


def only(instance, kept):
    """An instance with some of its entries."""
    return replace(
        instance,
        rows=instance.rows[kept],
        columns=instance.columns[kept],
        values=instance.values[kept],
    )


def fitted(instance, fraction, start):
    """A fit with a bias a column, at a fraction of the largest useful weight."""
    import mcframe as mc

    table = instance.data()
    # Of all three likelihoods the gradient at Z = 0 with the best biases is mean - y.
    gradient = np.nan_to_num(np.nanmean(table, axis=0) - table)
    weight = fraction * np.linalg.norm(gradient, 2)
    likelihoods = {GAUSSIAN: mc.Gaussian(), LABELS: mc.Bernoulli(), COUNTS: mc.Poisson()}
    blocks = [mc.Block(kind, likelihoods[kind], bias=True) for kind in instance.blocks()]
    tied = mc.Model(blocks, [mc.NuclearNorm(weight)])
    return mc.fit(tied, data(instance), tol=1e-4, start=start)


def loss_of(fit, instance):
    """The losses of entries that a fit has not seen."""
    table, total = instance.data(), 0.0
    for kind, columns in instance.blocks().items():
        here = table[:, columns]
        seen = ~np.isnan(here)
        total += float(np.sum(fit.likelihood(kind).value(fit.natural(kind)[seen], here[seen])))
    return total


def medians(fit, instance):
    """What a fit predicts at the held-out positions, in the units of the data."""
    from scipy.stats import poisson

    predicted = np.hstack([fit.predict(kind) for kind in instance.blocks()])
    centre, spread = centre_and_spread(instance)
    predicted = predicted * spread + centre
    counts = instance.kinds == COUNTS
    predicted[:, counts] = poisson.median(predicted[:, counts])
    return predicted[instance.held_rows, instance.held_columns]
