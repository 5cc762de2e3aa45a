"""The losses of cells that are no entries: too many to be written out."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Self

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.numerics.kernels import SharedQuadratic
from mcframe.numerics.operators import LowRank, Operator, Placed, Rescaled, Scales


class ImplicitCells(ABC):
    """The losses of a block's cells that are no entries, all the same function of z."""

    #: For each column a bound on the second derivative of a cell's loss.
    weights: Array

    @abstractmethod
    def at(self, latent: LowRank, z: Array) -> "ImplicitCellsAt":
        """The losses at Z of the block, whose entries are z."""

    @abstractmethod
    def of_lines(self, latent: LowRank, z: Array, by_rows: bool) -> Array:
        """The sum over each row of Z, or each column."""

    @abstractmethod
    def recession(self, moved: LowRank) -> tuple[float, float]:
        """lim (losses at Z + t D) / t as t grows, and the sum of the sizes of its summands."""

    @property
    @abstractmethod
    def n_read(self) -> int:
        """The number of cells that a pass reads one by one, 0 where Gram matrices do."""

    @property
    @abstractmethod
    def held_bytes(self) -> int:
        """The bytes that a fit holds for these cells at its peak, without thin factors."""


class ImplicitCellsAt(ABC):
    """The losses at one Z, and their gradients T.

    T may have numbers where entries are, ``at_entries``, which the caller takes off.
    """

    at_entries: Array

    @property
    @abstractmethod
    def value(self) -> float:
        """The sum of the losses."""

    @abstractmethod
    def gradient(self) -> Operator:
        """T, the gradients, as an operator."""

    @abstractmethod
    def products(self) -> tuple[Array, Array]:
        """T V and T' U with the factors U V' of Z."""

    @abstractmethod
    def hessians(self, by_rows: bool) -> tuple[Array, float, float]:
        """Second derivatives in each row of U (``by_rows``) or of V, where Z = U V'.

        A matrix for each row or one for all, their factor, and the second derivative that they
        hold where entries are.
        """

    @abstractmethod
    def curvature_along(self, after: Self, moved: LowRank, z: Array) -> float:
        """Twice the distance of losses from their tangent after Z moves by D with entries z."""

    @abstractmethod
    def conjugate(self, share: float) -> tuple[float, float]:
        """The sum of the conjugates at ``share`` times T, and a size that stands for its rounding.

        Rounding moves the sum by less than a few units in the last place of that size.
        """


@attrs.frozen(eq=False)
class QuadraticCells(ImplicitCells):
    """``weight/2 (z - centre)^2 + constant`` for every cell z of U V' but the entries.

    Centring adds a column to the factors: A = [U, 1] and B = [V, -centre] have
    ``A B' = Z - centre``. Sums over all cells follow from the Gram matrices A'A and B'B, at
    (n_rows + n_columns) k^2 operations: the identity behind alternating least squares for
    implicit feedback (Hu, Koren and Volinsky, Collaborative filtering for implicit feedback
    datasets, 2008). The entries, whose rows and columns are given, are then taken off.
    """

    weight: float
    centre: float
    constant: float
    shape: tuple[int, int]
    rows: IntArray
    columns: IntArray

    @property
    def weights(self) -> Array:  # type: ignore[override]
        """The second derivative in each column."""
        return np.full(self.shape[1], self.weight)

    @property
    def n_read(self) -> int:
        """None is read one by one."""
        return 0

    @property
    def held_bytes(self) -> int:
        """0: Gram matrices are all that it takes."""
        return 0

    def at(self, latent: LowRank, z: Array) -> "QuadraticCellsAt":
        """The quadratics at Z, whose entries are z."""
        return QuadraticCellsAt(self, latent, z)

    def minus_centre(self, latent: LowRank) -> LowRank:
        """Z - centre."""
        n_rows, n_columns = latent.shape
        return LowRank(
            np.hstack([latent.left, np.ones((n_rows, 1))]),
            np.hstack([latent.right, np.full((n_columns, 1), -self.centre)]),
        )

    def quadratics(self, z: Array) -> Array:
        """The losses of some cells, by their definition."""
        apart = z - self.centre
        return 0.5 * self.weight * apart * apart + self.constant

    def squares(self, latent: LowRank) -> float:
        """The sum over all cells, without the constants."""
        return 0.5 * self.weight * self.minus_centre(latent).squared_length

    def of_lines(self, latent: LowRank, z: Array, by_rows: bool) -> Array:
        """The sum over each row of Z, or over each column."""
        both, lines = self.minus_centre(latent), self.rows if by_rows else self.columns
        factor, other_factor = (both.left, both.right) if by_rows else (both.right, both.left)
        squares = np.einsum("ij,ij->i", factor @ (other_factor.T @ other_factor), factor)
        total = 0.5 * self.weight * squares + other_factor.shape[0] * self.constant
        return total - np.bincount(lines, weights=self.quadratics(z), minlength=total.size)

    def recession(self, moved: LowRank) -> tuple[float, float]:
        """Infinite: squares grow in all directions but 0."""
        limit = np.inf if moved.length > 0.0 else 0.0
        return limit, limit


@attrs.frozen(eq=False)
class QuadraticCellsAt(ImplicitCellsAt):
    """The quadratics at a Z."""

    uniform: QuadraticCells
    latent: LowRank
    z: Array

    @property
    def n_cells(self) -> int:
        """The number of all cells."""
        return self.latent.shape[0] * self.latent.shape[1]

    @cached_property
    def value(self) -> float:
        """The sum of the losses."""
        uniform = self.uniform
        total = uniform.squares(self.latent) + self.n_cells * uniform.constant
        return total - float(np.sum(uniform.quadratics(self.z)))

    @property
    def at_entries(self) -> Array:  # type: ignore[override]
        """The gradients where entries are."""
        return self.uniform.weight * (self.z - self.uniform.centre)

    def gradient(self) -> LowRank:
        """The gradients of all cells."""
        both = self.uniform.minus_centre(self.latent)
        return LowRank(both.left, self.uniform.weight * both.right)

    def products(self) -> tuple[Array, Array]:
        """T V and T' U."""
        gradient = self.gradient()
        return gradient @ self.latent.right, gradient.T @ self.latent.left

    def hessians(self, by_rows: bool) -> tuple[Array, float, float]:
        """The weight times one Gram matrix for all rows."""
        other = self.latent.right if by_rows else self.latent.left
        return (other.T @ other)[None], self.uniform.weight, self.uniform.weight

    def curvature_along(self, after: "QuadraticCellsAt", moved: LowRank, z: Array) -> float:
        """The weighted squares of D but for its entries."""
        return self.uniform.weight * (moved.squared_length - float(np.dot(z, z)))

    def conjugate(self, share: float) -> tuple[float, float]:
        """The sum of ``t centre + t^2 / (2 weight) - constant``, by Gram matrices again.

        Sums over n rows or d columns round by (n + d) eps of the sizes of their summands; with
        the products of lengths in place of products of columns these are bounded.
        """
        uniform, thin = self.uniform, self.gradient()
        tilt = uniform.centre * float(np.sum(thin.left, axis=0) @ np.sum(thin.right, axis=0))
        squares, constant = uniform.squares(self.latent), self.n_cells * uniform.constant
        everywhere = share * tilt + share**2 * squares - constant
        apart = self.z - uniform.centre
        entries = share * uniform.weight * apart * (uniform.centre + 0.5 * share * apart)
        entries = entries - uniform.constant
        return everywhere - float(np.sum(entries)), self.size()

    def size(self) -> float:
        """(n + d) times the sizes of the summands, for shares up to 1."""
        uniform, both = self.uniform, self.uniform.minus_centre(self.latent)
        left, right = (np.linalg.norm(factor, axis=0) for factor in (both.left, both.right))
        length = float(left @ right)
        size = uniform.weight * (length + np.sqrt(self.n_cells) * abs(uniform.centre)) * length
        return sum(self.latent.shape) * (size + self.n_cells * abs(uniform.constant))


@attrs.frozen(eq=False)
class UnlabeledBlock:
    """The unwritten cells of one block: its columns of Z, and its entries among all entries."""

    cells: ImplicitCells
    columns: slice
    entries: slice

    def at(self, latent: LowRank, z: Array) -> ImplicitCellsAt:
        """The unwritten losses at Z, whose entries are z."""
        return self.cells.at(latent.columns(self.columns), z[self.entries])


@attrs.frozen(eq=False)
class ImplicitLoss:
    """The losses of all cells of some blocks but their entries; of none as a rule.

    ``columns`` are the entries' columns of Z, of all blocks. Where a quadratic stands for a
    cell's loss, it is one of all cells, so that Gram matrices serve, minus that of the entries.
    All methods take memory of the entries and of thin factors, and of a few blocks of rows.

    Matrices are W, and gradients those in W, with ``Z = diag(a) W diag(b)`` where there are
    ``scales``; entries are those of Z.
    """

    parts: tuple[UnlabeledBlock, ...]
    columns: IntArray
    shape: tuple[int, int]
    scales: Scales | None = None

    def latent(self, variable: LowRank) -> LowRank:
        """The Z of a W."""
        return variable if self.scales is None else self.scales.apply(variable)

    @cached_property
    def weights(self) -> Array:
        """A bound on the second derivative of the cells' losses, for each column of Z."""
        weights = np.zeros(self.shape[1])
        for part in self.parts:
            weights[part.columns] = part.cells.weights
        return weights

    def __bool__(self) -> bool:
        """True if there are such cells."""
        return bool(self.parts)

    @property
    def n_read(self) -> int:
        """The number of cells that a pass reads one by one."""
        return sum(part.cells.n_read for part in self.parts)

    @property
    def held_bytes(self) -> int:
        """The bytes that a fit holds for these cells at its peak, without thin factors."""
        return sum(part.cells.held_bytes for part in self.parts)

    def at(self, latent: LowRank | Array, z: Array) -> "ImplicitLossAt":
        """The background at W with entries z of Z; in factors where there are such cells."""
        points: tuple[ImplicitCellsAt, ...] = ()
        if self.parts:
            assert isinstance(latent, LowRank)
            points = tuple(part.at(self.latent(latent), z) for part in self.parts)
        return ImplicitLossAt(self, latent, z, points)

    def excess_curvature(self, curvature: Array) -> Array:
        """The entries' curvature beyond that of all cells."""
        if not self.parts:
            return curvature
        return curvature - self.weights[self.columns]

    def of_lines(self, latent: LowRank, z: Array, by_rows: bool) -> Array:
        """The sum over each row of Z, or each column."""
        total, latent = np.zeros(self.shape[0 if by_rows else 1]), self.latent(latent)
        for part in self.parts:
            block, entries = latent.columns(part.columns), z[part.entries]
            lines = slice(None) if by_rows else part.columns
            total[lines] += part.cells.of_lines(block, entries, by_rows)
        return total

    def recession(self, moved: LowRank) -> Array:
        """lim (losses at W + t D) / t as t grows, and the sum of the sizes of its summands."""
        moved = self.latent(moved)
        recessions = [part.cells.recession(moved.columns(part.columns)) for part in self.parts]
        return np.sum(recessions, axis=0) if recessions else np.zeros(2)

    def curvatures_along(self, left: Array, right: Array) -> Array:
        """A bound on the second derivative of all cells' sum along each a b', a column of each."""
        moved = self.latent(LowRank(left, right))
        left, right = moved.left, moved.right
        return np.sum(left * left, axis=0) * (self.weights @ (right * right))


@attrs.frozen(eq=False)
class ImplicitLossAt:
    """The losses of unwritten cells at one W, and their gradients."""

    background: ImplicitLoss
    latent: LowRank | Array
    z: Array
    points: tuple[ImplicitCellsAt, ...]

    def __bool__(self) -> bool:
        """True if there are such cells."""
        return bool(self.points)

    @property
    def value(self) -> float:
        """The sum of the losses."""
        return sum(point.value for point in self.points)

    @cached_property
    def at_entries(self) -> Array:
        """The gradients that stand where entries are, and are no losses."""
        gradients = np.zeros(self.z.size)
        for part, point in zip(self.background.parts, self.points, strict=True):
            gradients[part.entries] = point.at_entries
        return gradients

    def excess_gradients(self, gradients: Array, share: float = 1.0) -> Array:
        """Gradients of the entries minus those that ``gradients(share)`` has at the entries."""
        return gradients - share * self.at_entries if self else gradients

    def gradients(self, share: float = 1.0) -> list[Operator]:
        """``share`` times the gradients of all cells, those where entries are included, by blocks.

        Of convex losses that is their share of a certificate's dual point.
        """
        n_columns, scales = self.background.shape[1], self.background.scales
        pairs = zip(self.background.parts, self.points, strict=True)
        placed = [
            Placed(point.gradient(), part.columns, n_columns).multiple(share)
            for part, point in pairs
        ]
        return placed if scales is None else [Rescaled(operator, scales) for operator in placed]

    @cached_property
    def products(self) -> tuple[Array, Array]:
        """T V and T' U for Z = U V' and the gradients T, those where entries are included."""
        assert isinstance(self.latent, LowRank)
        forward, backward = np.zeros_like(self.latent.left), np.zeros_like(self.latent.right)
        for part, point in zip(self.background.parts, self.points, strict=True):
            forward_part, backward_part = point.products()
            forward += forward_part
            backward[part.columns] += backward_part
        scaled = self.background.latent(LowRank(forward, backward))
        return scaled.left, scaled.right

    @property
    def column_products(self) -> Array:
        """T' U."""
        return self.products[1]

    def normal_equations(
        self, by_rows: bool, curvature: Array, linear: Array
    ) -> tuple[SharedQuadratic | None, Array, Array]:
        """The part of all cells in the normal equations of each row of one factor.

        Newton's: with Hessian N and gradient T V of a row u of U, N u - T V is its image. Also
        the entries' ``curvature/2 x^2 - linear x`` less the part that N has already.
        """
        if not self:
            return None, curvature, linear
        assert isinstance(self.latent, LowRank)
        factor_rows = self.latent.left if by_rows else self.latent.right
        held, hessians = np.zeros(self.z.size), []
        for part, point in zip(self.background.parts, self.points, strict=True):
            matrices, factor, held[part.entries] = point.hessians(by_rows)
            hessians.append((slice(None) if by_rows else part.columns, matrices, factor))
        matrices, scales = sum_of_hessians(hessians, factor_rows.shape[0], by_rows)
        stretch = self.background.scales
        if stretch is not None:
            scales = scales * np.square(stretch.rows if by_rows else stretch.columns)
        images = scales[:, None] * np.squeeze(matrices @ factor_rows[:, :, None], axis=2)
        shared = SharedQuadratic(matrices, scales, images - self.products[0 if by_rows else 1])
        return shared, curvature - held, linear - (held * self.z - self.at_entries)

    def curvature_along(self, after: "ImplicitLossAt", moved: LowRank, z: Array) -> float:
        """Twice the distance of F from its tangent after Z moves by D with entries z."""
        total, moved = 0.0, self.background.latent(moved)
        pairs = zip(self.background.parts, self.points, after.points, strict=True)
        for part, point, then in pairs:
            total += point.curvature_along(then, moved.columns(part.columns), z[part.entries])
        return total

    def conjugate(self, share: float) -> tuple[float, float]:
        """Sum of the conjugates at ``share`` times the gradients, and a size for its rounding."""
        total, size = 0.0, 0.0
        for point in self.points:
            value, unsure = point.conjugate(share)
            total, size = total + value, size + unsure
        return total, size


def sum_of_hessians(
    hessians: list[tuple[slice, Array, float]], n_lines: int, by_rows: bool
) -> tuple[Array, Array]:
    """Matrices of the sum of ``hessians``, one for all rows if each has one, and their factors.

    By rows each part has the same factor in all of them, else it stands in lines of its own.
    """
    if all(len(matrices) == 1 for _, matrices, _ in hessians):
        if by_rows:
            return np.sum([f * matrices for _, matrices, f in hessians], axis=0), np.ones(n_lines)
        scales = np.zeros(n_lines)
        for lines, _, factor in hessians:
            scales[lines] += factor
        return hessians[0][1], scales
    _, first, factor = hessians[0]
    if len(hessians) == 1 and len(first) == n_lines:  # nothing to add, or to copy
        return first, np.full(n_lines, factor)
    total = np.zeros((n_lines, *first.shape[1:]))
    for lines, matrices, factor in hessians:
        total[lines] += factor * matrices
    return total, np.ones(n_lines)
