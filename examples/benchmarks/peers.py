"""The peers, each with its best settings and why they are that, and a plain reference method.

All of them that know the objective 1/2 ||P(Z - Y)||^2 + w ||Z||_* minimise exactly it. Those that
work in factors minimise 1/2 ||P(U V' - Y)||^2 + w/2 (||U||^2 + ||V||^2), whose minimum is the same
where the rank allows it; they are given the rank that the certified optimum needs, which a user
would not know. Iterations are their only knob: they run at several fixed counts, each a
measurement.
"""

import pathlib
import subprocess
import tempfile

import numpy as np
from methods import Answer, Method, squared_loss_only, tables_to_impute_only
from ours import Imputation, Mcframe
from problems import GAUSSIAN

__all__ = ["METHODS", "REFERENCE", "method"]


class FullSVD(Method):
    """Accelerated proximal gradient with a full SVD an iteration, the way one writes it first.

    Step 1, since no loss here curves more; momentum restarts by the gradient test. It has no
    certificate: it stops at the objective it is told, which favours it, and its monitoring is
    not counted.
    """

    name = "full SVD"
    note = "told where to stop"

    def unsuitable(self, instance):
        """It is dense, and knows squared and logistic losses without biases."""
        if instance.sparse:
            return "dense matrices only"
        return None if instance.name.startswith("p") else "losses summed, without biases"

    def solve(self, task, clock):
        """FISTA of Beck and Teboulle (2009), restarted as by O'Donoghue and Candes (2015)."""
        table, weight = task.instance.data(), task.instance.weight
        seen, kinds = ~np.isnan(table), task.instance.kinds == GAUSSIAN
        table = np.where(seen, table, 0.0)
        clock.start()
        x = y = np.zeros(table.shape)
        t = 1.0
        for _ in range(task.iterations or 1000):
            gradient = loss_and_gradient(table, seen, kinds, y)[1]
            left, s, right = np.linalg.svd(y - gradient, full_matrices=False)
            s = np.maximum(s - weight, 0.0)
            new = (left * s) @ right
            step = new - x
            if np.vdot(y - new, step) > 0.0:
                t, y = 1.0, new
            else:
                t, previous = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t)), t
                y = new + ((previous - 1.0) / t) * step
            x = new
            clock.stop()
            clock.note(loss_and_gradient(table, seen, kinds, x)[0] + weight * s.sum())
            if clock.trace[-1][1] <= task.goal or clock.seconds > task.max_seconds:
                break
            clock.start()
        kept = s > 0.0
        return Answer(left[:, kept] * s[kept], right[kept].T)


def loss_and_gradient(table, seen, squared, z):
    """Half squares and logistic losses of what is seen, and their derivative."""
    gradient = (z - table) * seen
    value = 0.5 * np.sum(gradient[:, squared] ** 2)
    labels = z[:, ~squared]
    losses = np.logaddexp(0.0, labels) - table[:, ~squared] * labels
    value += np.sum(losses * seen[:, ~squared])
    chance = 0.5 * (1.0 + np.tanh(0.5 * labels))
    gradient[:, ~squared] = (chance - table[:, ~squared]) * seen[:, ~squared]
    return value, gradient


class Cmfrec(Method):
    """Collective matrix factorisation by alternating least squares, compiled, all cores.

    No centring and no biases, since the objective has none; ``lambda_`` is the weight, because
    its sweeps solve (V'V + lambda I) u = V' y; double precision, as the others; no
    precomputation for later predictions.
    """

    package = "cmfrec"
    iterations = (3, 6, 10, 20, 40, 80, 160)

    def __init__(self, use_cg):
        self.use_cg = use_cg
        self.name = "cmfrec als_cg" if use_cg else "cmfrec als_chol"
        self.note = "told the rank"

    def unsuitable(self, instance):
        """It knows squared residuals."""
        return squared_loss_only(instance)

    def solve(self, task, clock):
        """So many sweeps."""
        import cmfrec
        import scipy.sparse

        table = task.instance.data()
        table = scipy.sparse.coo_matrix(table) if task.instance.sparse else table
        clock.start()
        fit = cmfrec.CMF(
            k=task.rank,
            lambda_=task.instance.weight,
            method="als",
            use_cg=self.use_cg,
            finalize_chol=False,
            niter=task.iterations,
            user_bias=False,
            item_bias=False,
            center=False,
            use_float=False,
            precompute_for_predictions=False,
            verbose=False,
            nthreads=-1,
        ).fit(table)
        clock.stop()
        return Answer(np.asarray(fit.A_), np.asarray(fit.B_))


class FancySoftImpute(Method):
    """SoftImpute with full decompositions: its truncated ones are randomised and do not converge.

    A threshold of 0 leaves the count of iterations to decide. It returns the table with observed
    entries put back; one more shrinkage, not counted, gives its Z.
    """

    name = "fancyimpute SoftImpute"
    package = "fancyimpute"
    iterations = (10, 20, 40, 80)

    def unsuitable(self, instance):
        """It is dense, and knows squared residuals."""
        return "dense matrices only" if instance.sparse else squared_loss_only(instance)

    def solve(self, task, clock):
        """So many shrinkages."""
        import fancyimpute

        accept_renamed_option(fancyimpute)
        table, weight = task.instance.data(), task.instance.weight
        clock.start()
        filled = fancyimpute.SoftImpute(
            shrinkage_value=weight,
            convergence_threshold=0.0,
            max_iters=task.iterations,
            verbose=False,
        ).fit_transform(table)
        clock.stop()
        left, s, right = np.linalg.svd(filled, full_matrices=False)
        return Answer(left * np.maximum(s - weight, 0.0), right.T)


def accept_renamed_option(fancyimpute):
    """fancyimpute 0.7 calls scikit-learn by a name of an option that later versions dropped."""
    from sklearn.utils import check_array

    def checked(array, force_all_finite=True):
        return check_array(array, ensure_all_finite=force_all_finite)

    fancyimpute.solver.check_array = checked
    fancyimpute.soft_impute.check_array = checked


class Implicit(Method):
    """ALS for implicit feedback: another objective, so that only its time counts.

    Conjugate gradients in single precision on all cores, its defaults and its fastest; BLAS with
    one thread, as it asks for.
    """

    name = "implicit ALS"
    package = "implicit"
    iterations = (10,)
    note = "another objective, single precision: time only"

    def unsuitable(self, instance):
        """It takes sparse tables of positive and negative preferences."""
        return squared_loss_only(instance) if instance.sparse else "sparse matrices only"

    def solve(self, task, clock):
        """So many sweeps."""
        from implicit.cpu.als import AlternatingLeastSquares
        from threadpoolctl import threadpool_limits

        table = task.instance.data().astype(np.float32)
        fit = AlternatingLeastSquares(
            factors=task.rank,
            regularization=task.instance.weight,
            iterations=task.iterations,
            random_state=0,
        )
        with threadpool_limits(1, "blas"):
            clock.start()
            fit.fit(table, show_progress=False)
            clock.stop()
        return Answer()


class RSoftImpute(Method):
    """softImpute of R by alternating least squares, its authors' choice for large tables.

    The rank is what the optimum needs and thresh = 0. R's clock counts the fit alone, not reading
    the data; its memory is that of R.
    """

    name = "R softImpute als"
    package = "Rscript"
    iterations = (5, 10, 20, 40, 80, 160)
    stoppable = False  # its script begins with one iteration
    note = "told the rank"

    def unsuitable(self, instance):
        """It knows squared residuals."""
        return squared_loss_only(instance)

    def solve(self, task, clock):
        """One R process for data, a first iteration, and the fit."""
        instance = task.instance
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            instance.rows.astype(np.int32).tofile(folder / "rows")
            instance.columns.astype(np.int32).tofile(folder / "columns")
            instance.values.tofile(folder / "values")
            script = pathlib.Path(__file__).with_name("softimpute.R")
            numbers = [*instance.shape, instance.values.size, task.rank, instance.weight]
            form = "sparse" if instance.sparse else "dense"
            told = [folder, *numbers, task.iterations, form]
            subprocess.run([task.program, script, *map(str, told)], check=True)
            seconds, rank, peak = (folder / "report").read_text().split()
            clock.seconds = float(seconds)
            left = np.fromfile(folder / "left").reshape(int(rank), -1).T
            right = np.fromfile(folder / "right").reshape(int(rank), -1).T
        return Answer(left, right, peak_mb=float(peak) / 1024 if peak != "NA" else None)


class Imputer(Method):
    """A method that fills a table; binary columns are rounded for everybody alike."""

    stoppable = False

    def unsuitable(self, instance):
        """It is for the table that is to be imputed."""
        return tables_to_impute_only(instance)

    def filled(self, table):
        """The table without holes."""
        raise NotImplementedError

    def solve(self, task, clock):
        """Fill once, and read off the held-out positions."""
        table = task.instance.data()
        clock.start()
        filled = np.asarray(self.filled(table))
        clock.stop()
        return Answer(predicted=filled[task.instance.held_rows, task.instance.held_columns])


class ColumnMean(Imputer):
    """The mean of each column: what any method has to beat."""

    name = "column means"

    def filled(self, table):
        """Means where there is nothing."""
        return np.where(np.isnan(table), np.nanmean(table, axis=0), table)


class Iterative(Imputer):
    """scikit-learn's chained Bayesian ridge regressions, with its defaults (10 rounds)."""

    name = "scikit-learn IterativeImputer"
    package = "sklearn"

    def filled(self, table):
        """Regressions are equivariant to scale: no standardisation."""
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        return IterativeImputer(random_state=0).fit_transform(table)


class Neighbours(Imputer):
    """scikit-learn's ten nearest neighbours, columns standardised, since distances add them up."""

    name = "scikit-learn KNNImputer"
    package = "sklearn"

    def filled(self, table):
        """Scaled, filled, scaled back."""
        from sklearn.impute import KNNImputer
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler()
        scaled = KNNImputer(n_neighbors=10).fit_transform(scaler.fit_transform(table))
        return scaler.inverse_transform(scaled)


class Copula(Imputer):
    """The Gaussian copula of gcimpute with its defaults, which recognise the kinds of columns."""

    name = "gcimpute GaussianCopula"
    package = "gcimpute"

    def filled(self, table):
        """Expectation maximisation until it stops by itself."""
        from gcimpute.gaussian_copula import GaussianCopula

        return GaussianCopula().fit_transform(table)


REFERENCE = Mcframe("auto", tol=1e-9, name="reference")
METHODS = (
    Mcframe("auto"),
    Mcframe("alternating"),
    Mcframe("reference"),
    Imputation(),
    FullSVD(),
    Cmfrec(use_cg=True),
    Cmfrec(use_cg=False),
    FancySoftImpute(),
    RSoftImpute(),
    Implicit(),
    ColumnMean(),
    Iterative(),
    Neighbours(),
    Copula(),
)


def method(name, instance):
    """The method of this name that is for an instance."""
    named = [m for m in (*METHODS, REFERENCE) if m.name == name]
    return next((m for m in named if m.unsuitable(instance) is None), named[0])
