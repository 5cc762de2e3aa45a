"""What may stand among a model's ``terms``: regularizers and constraints."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Protocol, Self

import attrs

from mcframe.contracts.arrays import Array, IntArray, Matrix, Shape, singular_values, svd
from mcframe.contracts.errors import ModelError
from mcframe.contracts.rounding import SET_ROUNDING
from mcframe.contracts.row_groups import RowGroups

__all__ = [
    "Composed",
    "Constraint",
    "EquationGroup",
    "Factored",
    "Norm",
    "Prior",
    "PriorOfFactors",
    "PriorOfRows",
    "Prox",
    "Regularizer",
    "RowQuadratic",
    "SmoothTerm",
    "Spectral",
    "Sums",
    "Term",
]


class Prior(Enum):
    """The distribution of Z whose negative logarithm a term is."""

    FACTORS = "Gaussian factors"
    ROWS = "Gaussian rows"


class Term(ABC):
    """A convex function of the latent matrix Z; a constraint is one with values 0 and inf.

    A term that names a ``block`` speaks of that block's columns alone: every method is then
    given those columns of Z. Without one it is given the columns of all blocks, and the column
    that a constraint adds if ``Spectral``.
    """

    #: The block that it speaks of; None for all of Z.
    block: str | None = None
    #: Whether it compares Z with the observed values of its block.
    needs_values: bool = False
    #: The prior by which a posterior reads the term; None where it has no such reading. The
    #: abilities ``PriorOfFactors`` and ``PriorOfRows`` declare it.
    prior: Prior | None = None
    #: The share of counts in the scales of rows and columns; above 0 the methods are given the
    #: matrix ``R Z C`` of these scales in the place of Z.
    count_share: float = 0.0
    #: The reason why no optimum exists with the term as declared, with a remedy; None if one does.
    why_no_optimum: str | None = None

    @property
    def entry_bounds(self) -> tuple[float, float] | None:
        """(lower, upper) where it is the set of all matrices with entries between these two."""
        return None

    @property
    def word(self) -> str:
        """The name that the user writes, by which messages call it."""
        return type(self).__name__

    @abstractmethod
    def value(self, latent: Array) -> float:
        """The term at a dense Z, by its plain definition."""

    @abstractmethod
    def conjugate(self, dual: Array) -> float:
        """sup over Z of <dual, Z> - value(Z), or an upper bound on it; ``inf`` outside its domain.

        What certificates add up: it must never be too small.
        """

    def conjugate_size(self, dual: Array) -> float:
        """Sum of the sizes of the conjugate's summands, if these may cancel each other.

        Times the unit roundoff it bounds the rounding of the conjugate. By default 0: no summand
        is larger than the conjugate.
        """
        return 0.0

    def rounding(self, latent: Array) -> float:
        """Bound on how far rounding moves the value at a dense Z, beyond that of a short sum.

        By default 0: the value is known to some units in its last place.
        """
        return 0.0

    def nearest_dual(self, dual: Array) -> Array:
        """A dual matrix close by at which the conjugate is finite; by default the same one."""
        return dual

    def bound_to(self, shape: Shape, rows: IntArray, columns: IntArray, values: Array) -> "Term":
        """The term with the observed entries of its block, which most terms have no use for.

        Also the place to refuse, by a ``DataError``, what does not fit the block's shape.
        """
        return self

    def in_units(self, unit: float) -> "Term | None":
        """The term g with g(W) = f(unit W) for all W, f this one; None where it has none.

        A conic solver's tolerances are made for numbers of about 1.
        """
        return None

    def recession(self) -> "Term | None":
        """The term g with g(D) = lim f(Z + t D) / t as t grows, f this one and f(Z) finite.

        Of a constraint it is the cone of the directions in which the set goes on without end. By
        default None: g is infinite but at D = 0, as of squares and of bounded sets.
        """
        return None

    @abstractmethod
    def statement(self, cp: Any, latent: Any) -> tuple[Any, list[Any]]:
        """The definition for CVXPY: a DCP expression of Z, and constraints.

        The term is the least value of the expression over the variables that it has besides Z;
        where nothing meets the constraints it is inf. ``cp`` is the cvxpy module, passed in so
        that the vocabulary never imports it. Whoever reads a term asks for this.
        """

    @abstractmethod
    def formula(self) -> str:
        """The term as plain text, for ``print(model)``."""


class Regularizer(Term):
    """A finite convex function of Z that is added to the objective.

    It gives ``expression``, or, where it needs variables of its own, ``statement``.
    """

    def with_weight(self, weight: float) -> "Regularizer | None":
        """A copy of the term with another weight above 0, as along a path; None where it has none.

        By default another value of the attrs field ``weight``, where the class has one.
        """
        kind: type = type(self)
        if not attrs.has(kind) or "weight" not in attrs.fields_dict(kind):
            return None
        term: Any = self
        return attrs.evolve(term, weight=weight)

    def expression(self, cp: Any, latent: Any) -> Any:
        """The definition as a DCP expression of CVXPY in Z alone."""
        raise NotImplementedError(
            f"{type(self).__name__} gives no expression(cp, Z); a regularizer gives that or, with"
            " variables of its own, statement(cp, Z), which is what to ask it for"
        )

    def statement(self, cp: Any, latent: Any) -> tuple[Any, list[Any]]:
        """The definition for CVXPY: by default ``expression``, without constraints."""
        return self.expression(cp, latent), []


class Constraint(Term):
    """A convex set of latent matrices: the value is 0 inside and inf outside."""

    #: Columns that the constraint adds to Z, to the right of all blocks.
    extra_columns: int = 0
    #: The value that all entries of its columns have, where the set is that one point.
    fixed: float | None = None

    def halfspace(self, latent: Array) -> tuple[Array, float] | None:
        """G and c with ``<G, X> <= c`` for all X of the set, though not for this Z outside of it.

        For a set without a prox: points that meet other sets, too, are then found by projections
        onto such halfspaces. By default None: no such G is at hand.
        """
        return None

    @abstractmethod
    def constraints(self, cp: Any, latent: Any) -> list[Any]:
        """The definition as CVXPY constraints."""

    def statement(self, cp: Any, latent: Any) -> tuple[Any, list[Any]]:
        """The definition for CVXPY: 0 under ``constraints``."""
        return cp.Constant(0.0), self.constraints(cp, latent)

    def feasibility_tolerance(self, dual: Array, length: float) -> float:
        """The most by which <dual, Z> exceeds the conjugate at a Z that counts as inside.

        ``length`` is ||Z||_F. By default 1e-9 of the conjugate, as of a set so much larger.
        """
        return SET_ROUNDING * abs(self.conjugate(dual))


class Prox(ABC):
    """Ability of a term: its proximal map, a projection where it is a set."""

    @abstractmethod
    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """argmin over X of value(X) + ||X - Z||_F^2 / (2 step), and the value there."""


class Norm(Term):
    """Ability of a term: it is ``weight`` times a norm of all of Z.

    ``path`` then knows where to begin: Z = 0 is optimal from the weight upwards that is the
    dual norm of everything else's gradient at Z = 0.
    """

    weight: float

    def in_units(self, unit: float) -> Term:
        """The norm with ``weight * unit``."""
        norm: Any = self
        return attrs.evolve(norm, weight=self.weight * unit)

    def recession(self) -> Term:
        """The norm itself."""
        return self

    @abstractmethod
    def dual_norm(self, gradient: Matrix) -> float:
        """max of <gradient, Z> over all Z of norm at most 1, or an upper bound close to it."""


class SmoothTerm(ABC):
    """Ability of a term: a gradient with a bound on its curvature; it then needs no prox."""

    @property
    @abstractmethod
    def curvature(self) -> float:
        """The Lipschitz constant of the gradient."""

    @abstractmethod
    def value_and_gradient(self, latent: Array) -> tuple[float, Array]:
        """The value at a dense Z and its gradient, of the shape of Z."""


class RowQuadratic(Term):
    """Ability of a term over all of Z: it is a square of each row by itself.

    Where it is the main regularizer every row can be found by itself, and its conjugate is finite
    everywhere.
    """

    @property
    @abstractmethod
    def squares(self) -> Any:
        """The ``RowSquares`` (``numerics.row_squares``): centre and loadings of the rows."""


class PriorOfFactors(Term):
    """Ability of a term: a posterior reads it as Gaussian factors of Z = U V'.

    Minus the logarithm of their density is ``weight / 2 * (||U||_F^2 + ||V||_F^2)``.
    """

    prior = Prior.FACTORS
    #: The precision of all factors, above 0; None where one is learned for each factor.
    weight: float | None


class PriorOfRows(Term):
    """Ability of a term: a posterior reads it as independent Gaussian rows of Z, or as a mixture.

    The Gaussian is given by ``gaussian``, or the posterior estimates as many as ``components``
    says.
    """

    prior = Prior.ROWS
    #: The number of Gaussians that are estimated and mixed, or "auto".
    components: int | str = 1
    #: How many rows the prior of an estimated covariance counts as, above 0; None by default.
    prior_rows: float | None = None
    #: A label for each column: of those with one label the prior of an estimated covariance
    #: expects a share of their variances that is learned (d,); None for all of them.
    variables: IntArray | None = None
    #: The groups of the rows, whose means are Gaussian themselves; None without groups.
    groups: RowGroups | None = None
    #: How many of a population each row stands for, above 0 (n,); None for one.
    row_weights: Array | None = None

    @property
    def gaussian(self) -> tuple[Array, Array] | None:
        """Mean (d,) and covariance (d x d) of the rows; by default None: they are estimated."""
        return None


def row_groups_of(terms: Iterable[Term]) -> RowGroups | None:
    """The groups of the rows that a prior among these terms has; None without groups."""
    priors = (term for term in terms if isinstance(term, PriorOfRows))
    return next((prior.groups for prior in priors if prior.groups is not None), None)


class Composed(Term):
    """Ability of a term: it is ``inner(forward(Z))``, a term with a prox after an affine map.

    ``forward(Z) = K Z - c`` with ||K|| <= 1. Multipliers and certificates then work with dual
    matrices of inner: K' Y is the subgradient in Z that a dual matrix Y gives.
    """

    @property
    @abstractmethod
    def inner(self) -> Any:
        """A term with the ability ``Prox``."""

    @abstractmethod
    def forward(self, latent: Array) -> Array:
        """K Z - c."""

    @abstractmethod
    def forward_expression(self, cp: Any, latent: Any) -> Any:
        """K Z - c as an affine expression of CVXPY."""

    @abstractmethod
    def adjoint(self, dual: Array) -> Array:
        """K' Y, of the shape of Z."""

    @abstractmethod
    def pairing(self, dual: Array) -> float:
        """<Y, c>: the conjugate at K' Y is at most inner's conjugate at Y plus this."""

    def value(self, latent: Array) -> float:
        """inner(K Z - c)."""
        return float(self.inner.value(self.forward(latent)))

    def statement(self, cp: Any, latent: Any) -> tuple[Any, list[Any]]:
        """The statement of inner at K Z - c."""
        return self.inner.statement(cp, self.forward_expression(cp, latent))


class EquationGroup(Protocol):
    """Equations ``U diag(s) V' Q = C`` of the same columns of Q, with orthonormal U and V.

    Q is P, or P' where sums are over the columns of P. U has no part in C that no Q gives.
    """

    @property
    def lines(self) -> IntArray:
        """The columns of Q of which they speak: columns of P, or rows."""

    @property
    def right(self) -> Array:
        """V (rows of Q x rank)."""

    @property
    def singular_values(self) -> Array:
        """The singular values s of A that are not 0, an array of shape (rank,)."""

    def distances(self, predictors: Array) -> Array:
        """V'Q - diag(1 / s) U'C (rank x lines), for the group's columns of Q."""


class Sums(Term):
    """Ability of a term of a block: linear equations A P = B, or P A' = B, in its predictors P.

    P is Z plus the effects and the offset of the block, in the units of the data, a cell each.
    With a ``weight`` the term is that times the square of the residual, without one the set of
    solutions. Once ``about`` has taken offsets and units into account, methods are given Z plus
    effects.
    """

    weight: float | None
    #: 0 for sums over the rows, of each column: A P = B. 1 for sums over the columns, of each
    #: row: P A' = B.
    axis: int = 0
    #: Whether the user declares that the sums are those of predictors and not of means, which
    #: are the same where z is the mean.
    sums_predictors: bool = False

    def turned(self, matrix: Any) -> Any:
        """The matrix Q whose columns are summed up: P, or P'. And P of Q."""
        return matrix if self.axis == 0 else matrix.T

    @property
    def block_names(self) -> tuple[str, ...]:
        """The blocks of whose predictors they are; of several ``block`` is None, P that of all."""
        return () if self.block is None else (self.block,)

    @property
    @abstractmethod
    def groups(self) -> Sequence[EquationGroup]:
        """The equations, those of columns (rows) with the same ones together."""

    def with_columns(self, names: Sequence[Any], width: int) -> Self:
        """The term with columns by place that it has by name; by default itself.

        ``names`` are those of the block, which has ``width`` predictors for each column; where
        ``block`` is None, pairs of the names of block and column, for all blocks of the model.
        """
        return self

    @property
    def summary(self) -> str:
        """The equations in a line, for ``explain``; by default nothing."""
        return ""

    @abstractmethod
    def residual(self, predictors: Array) -> float:
        """The distance of the sums from those stated: a Frobenius norm, 0 where they agree."""

    def about(self, origin: Array, scale: Array | float) -> Self:
        """The term that says of V what this one says of the predictors ``origin + scale * V``.

        For an origin of each cell and one scale for each column: effects counted from elsewhere,
        offsets, and the units of a standardised block. A ``ModelError`` where a term does not
        know.
        """
        raise ModelError(
            f"{type(self).__name__} does not say what it states of a block with effects, offsets"
            " or standard units; drop these, or define about(origin, scale)"
        )


class Spectral(Term, Prox):
    """Ability of a term: it is a symmetric function of the singular values of Z.

    A final class gives the function on vectors of singular values; value, prox and conjugate
    of the matrix follow from it by one singular value decomposition (Lewis, The convex
    analysis of unitarily invariant matrix functions, 1995).
    """

    #: w where the term is exactly w / 2 * ||Z||_F^2, else 0: such a term joins any prox.
    quadratic_weight: float = 0.0

    @property
    def linear_weight(self) -> float | None:
        """w where the term is exactly w times the sum of the singular values, else None."""
        return None

    @property
    def largest_sum(self) -> float | None:
        """r of the set of matrices whose singular values sum to at most r, else None."""
        return None

    @abstractmethod
    def of_singular_values(self, singular_values: Array) -> float:
        """The value at a matrix with these singular values."""

    @abstractmethod
    def shrink(self, singular_values: Array, step: float) -> Array:
        """The singular values of the prox, in the same order."""

    @property
    @abstractmethod
    def threshold(self) -> float:
        """Singular values up to ``step * threshold`` are shrunk to exactly 0."""

    @property
    @abstractmethod
    def dual_radius(self) -> float:
        """The largest spectral norm of a dual matrix at which the conjugate is finite."""

    @abstractmethod
    def conjugate_of_singular_values(self, singular_values: Array) -> float:
        """The convex conjugate at a matrix with these singular values; may be ``inf``.

        It must not fall when a singular value grows, so that bounds on them give a bound.
        """

    def value(self, latent: Array) -> float:
        """The term at a dense Z, through its singular values."""
        return self.of_singular_values(singular_values(latent))

    def conjugate(self, dual: Array) -> float:
        """The conjugate at a dense matrix, through its singular values."""
        return self.conjugate_of_singular_values(singular_values(dual))

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """The prox at a dense Z: its singular values shrunk, its singular vectors kept."""
        left, values, right = svd(latent)
        shrunk = self.shrink(values, step)
        return (left * shrunk) @ right, self.of_singular_values(shrunk)


class Factored(Term):
    """Ability of a term: it is the least h(U, V) over all factors Z = U V'.

    h is a function of the rows of U and V, stacked into one (n_rows + n_columns) x k matrix
    W, and is convex in W with a closed prox. Its minimum over k grows no smaller once k
    passes the square root of twice the number of rows (Burer and Monteiro, 2005).

    Gradients and dual matrices are dense, or on large tables sparse: a ``Matrix`` that knows
    products (``G @ V``, ``G.T @ U``), multiples and its shape.
    """

    @abstractmethod
    def of_factors(self, stacked: Array) -> float:
        """h(W): an upper bound on the value at Z = U V', equal to it for the best factors."""

    @property
    @abstractmethod
    def chart(self) -> Any:
        """A ``Chart`` (``numerics.charts``): factors of finite h as functions of free vectors."""

    @abstractmethod
    def prox_factors(self, stacked: Array, step: float) -> Array:
        """argmin over X of h(X) + ||X - W||_F^2 / (2 step)."""

    @abstractmethod
    def row_multipliers(self, gradient: Matrix, stacked: Array) -> Array:
        """The diagonal D of the dual matrix ``D + [[0, G], [G', 0]]``, one number a row of W.

        G is the gradient of everything else in Z. At an optimal W that matrix times W is 0, and
        at a global optimum it has no negative eigenvalue: an eigenvector of one is the column
        that W lacks.
        """

    def bounding_multipliers(self, gradient: Matrix, stacked: Array, allowed_gap: float) -> Array:
        """Multipliers for ``conjugate_from`` and ``feasible_scale``; by default the same ones.

        A W that is not quite optimal has multipliers that are not quite right; those of better
        factors for this gradient may give a better bound. ``feasibility_tolerance`` is how far
        below the objective the bound may stay: work that cannot bring it there, or brings it
        closer, is left out. 0 asks for the best bound.
        """
        return self.row_multipliers(gradient, stacked)

    @abstractmethod
    def conjugate_from(self, dual: Matrix, multipliers: Array) -> float:
        """An upper bound on the conjugate that is tight if the multipliers are the right ones."""

    @abstractmethod
    def feasible_scale(self, dual: Matrix, multipliers: Array) -> float:
        """The largest c <= 1 that is sure to make the conjugate finite at ``c dual``."""
