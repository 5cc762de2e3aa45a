"""Loops over observed entries, compiled, and shared among threads by rows.

Rows are those of a matrix or, in the other order, of its transpose. ``starts`` says where the
entries of each row begin, ``across`` at which column each stands and ``places`` where its number
stands in the caller's order. Every row is summed by one thread in one order, and sums across rows
are cut where the sizes of the matrix say, so that results do not depend on the number of threads.

With N entries, k columns and 8-byte numbers the least that has to move through memory is, at 4
bytes of ``across``, 4 of ``places`` and 8 of each number for every entry: 16 N bytes for
``entries``, 12 N for ``product``, ``transposed_product`` and ``gram_product``, 24 N for
``ridge_solutions`` with a curvature for each entry. The arithmetic is 2 N k for an entry's
number and for a product, 4 N k for A'A, and N k (k + 4) + rows k^3 / 3 for regressions. The
gathered rows of the other factor come from the cache where that factor fits.
"""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.stored_classes import stored
from mcframe.runtime.machine import compiled, cuts, even_cuts, share

fours = Deferred("mcframe.numerics.fours", "every solver")

# Sums may be reordered for the vector units; infinities and NaN stay what they are.
FAST_MATH = {"reassoc", "contract", "nsz"}
# Entries that are gathered at a time: what fits the nearest caches. Rows of them are longer, for
# at distances of a power of two they would push each other out.
PANEL_ENTRIES, PANEL_STRIDE = 128, 136
# Numbers of normal equations that are held at a time: 0.5 MB.
NUMBERS_PER_BATCH = 65_536
# Rows with few entries are solved for these, divided by roots of their curvatures, where none is
# below this share of the largest: else the quotients lose digits.
SHORT_ROW_CURVATURE_RATIO = 1e-6
# A matrix in single precision serves where its diagonal is at most so many times the pivots, and
# one behind which Woodbury's formula takes differences also where that is relative to the weight.
LARGEST_SINGLE_CONDITION = 1e3
# Rows of a product of matrices in single precision that are gathered at a time.
PRODUCT_ROWS = 256
# Columns of the blocks that Lanczos steps have, for which there are loops of their own: with one,
# the bound takes three times the steps; with more than four, a step costs more than it saves.
BLOCK_WIDTH = 4
# Sums across rows are taken in so many parts at most, of so many multiplications at least: a
# number that does not depend on the threads, for the order of summation is part of the result.
MOST_SUM_PARTS, MULTIPLICATIONS_PER_PART = 16, 250_000


def over_rows(loop: Callable[..., None], cost: float, starts: IntArray, *arrays: Any) -> None:
    """Share ``loop(first, last, starts, *arrays)`` among threads; it takes so many products."""
    share(lambda first, last: loop(first, last, starts, *arrays), cuts(cost, starts))


@attrs.frozen(eq=False)
class SharedQuadratic:
    """``scales[row]/2 u' normals[row] u - <images[row], u>``: a quadratic behind each row.

    ``normals`` are one matrix for each row, or a single one for all.
    """

    normals: Array
    scales: Array
    images: Array

    def add_to(self, normals: Array, images: Array, rows: slice) -> None:
        """Add those of some rows to sums as ``Compressed.normal_sums`` has them."""
        row_normals = self.normals[rows] if self.normals.shape[0] > 1 else self.normals
        lower = np.tril_indices(self.normals.shape[1])
        normals += self.scales[rows, None] * row_normals[:, lower[0], lower[1]]
        images += self.images[rows]


@stored(renamed_fields={"as_given": "in_order"})
@attrs.frozen(eq=False)
class Compressed:
    """The entries of a matrix row by row, or those of its transpose.

    ``in_order`` says whether the caller's numbers already come in this order.
    """

    starts: IntArray
    across: IntArray
    places: IntArray
    in_order: bool

    @classmethod
    def of(cls, compressed: sp.csr_array) -> "Compressed":
        """The order of a matrix whose numbers are the places."""
        places = compressed.data.astype(np.uint32)
        return cls(
            compressed.indptr.astype(np.int64),
            compressed.indices.astype(np.uint32),
            places,
            in_order=bool(np.array_equal(places, np.arange(places.size))),
        )

    def reorder(self, values: Array) -> Array:
        """The caller's numbers in this order."""
        return values if self.in_order else values[self.places]

    def between(self, first: int, last: int | None) -> "Compressed":
        """The rows from first to last, of which the latter is no part."""
        starts = self.starts[first : None if last is None else last + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        return Compressed(
            starts - starts[0], self.across[entries], self.places[entries], in_order=False
        )

    def of_rows(self, rows: IntArray) -> "Compressed":
        """The entries of some rows, one below the other."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return Compressed(starts, self.across[entries], self.places[entries], in_order=False)

    @property
    def order(self) -> tuple[IntArray, IntArray, IntArray]:
        """Starts of rows, and of each entry its place across and that of its number."""
        return self.starts, self.across, self.places

    @property
    def longest(self) -> int:
        """The most entries of a row."""
        return int(np.max(np.diff(self.starts), initial=0))

    def entries(self, left: Array, right: Array, out: Array) -> None:
        """out[place] = <left[row], right[across]> for every entry."""
        over_rows(entries_of, self.across.size * left.shape[1], *self.order, left, right, out)

    def ridge_solutions(
        self,
        curvature: Array,
        linear: Array,
        right: Array,
        weight: float,
        shared: SharedQuadratic | None = None,
    ) -> Array:
        """The u of each row with least ``sum of (c/2 <u, v>^2 - p <u, v>) + weight/2 ||u||^2``.

        The rows v of ``right`` are those across, c the ``curvature``, one element for each entry,
        or a single one for all, and p the ``linear`` coefficients. The quadratics ``shared`` are
        added. By a Cholesky factorisation for each row, of the order of its entries or of u,
        whichever is less; with ``shared`` of u.
        """
        n_rows, width = self.starts.size - 1, right.shape[1]
        numbers, out = width * (width + 1) // 2, np.empty((n_rows, width))
        cost = self.across.size * width * (width + 4) / 2 + n_rows * width**3 / 6
        if shared is None:
            right = np.ascontiguousarray(right)
            over_rows(ridge_rows, cost, *self.order, curvature, linear, right, float(weight), out)
            return out
        at_a_time = max(1, NUMBERS_PER_BATCH // max(numbers, 1))

        def solve(first: int, last: int) -> None:
            for begin in range(first, last, at_a_time):
                end = min(begin + at_a_time, last)
                normals, images = np.empty((end - begin, numbers)), np.empty((end - begin, width))
                sum_rows(begin, end, *self.order, curvature, linear, right, normals, images)
                shared.add_to(normals, images, slice(begin, end))
                solve_rows(normals, images, weight, out[begin:end])

        share(solve, cuts(cost, self.starts))
        return out

    def newton_solutions(
        self, curvature: Array, gradient: Array, right: Array, weight: float, current: Array
    ) -> Array:
        """``u - (V'CV + weight I)^-1 (V'g + weight u)`` of each row u of ``current``.

        These are the ``ridge_solutions`` where their linear coefficients are ``C V u - g``, with
        the ``gradient`` g at ``V u``. That is summed in double precision, and the matrices are
        summed and factorised in single precision, which takes 0.7 of the time with a hundred
        columns and 0.6 with 181: what is off is a small share of the step, and less the closer it
        is. A row begins with NaN where its matrix is too ill-conditioned for that.
        """
        n_rows, width = current.shape
        out, largest = np.empty((n_rows, width)), float(np.max(np.abs(right), initial=0.0))
        cost = self.across.size * width * (width + 8) / 4 + n_rows * width**3 / 12
        right, current = np.ascontiguousarray(right), np.ascontiguousarray(current)
        arrays = curvature, gradient, right, largest, float(weight), current, out
        over_rows(newton_rows, cost, *self.order, *arrays)
        return out

    def normal_sums(self, curvature: Array, linear: Array, right: Array) -> tuple[Array, Array]:
        """Sums of c v v' and of p v over the entries of each row, as in ``ridge_solutions``.

        Of each matrix the lower triangle, row after row.
        """
        n_rows, width = self.starts.size - 1, right.shape[1]
        normals, images = np.empty((n_rows, width * (width + 1) // 2)), np.empty((n_rows, width))

        def add(first: int, last: int) -> None:
            sums = normals[first:last], images[first:last]
            sum_rows(first, last, *self.order, curvature, linear, right, *sums)

        share(add, cuts(self.across.size * width * (width + 4) / 2, self.starts))
        return normals, images

    def short_solutions(self, roots: Array, wanted: Array, gram: Array) -> Array:
        """S q with ``(I + S G S) q = wanted`` for the entries of each row by themselves.

        S has the ``roots`` of its entries on the diagonal, G is ``gram`` between their places
        across. Each takes e^3 / 3 operations for e entries, by a Cholesky factorisation.
        """
        lengths, out = np.diff(self.starts), np.empty(self.across.size)
        cost = float(np.sum(np.square(lengths) * (lengths + 6.0))) / 6
        over_rows(solve_short_rows, cost, *self.order, roots, wanted, gram, out)
        return out


@compiled(nogil=True, fastmath=FAST_MATH)
def entries_of(first, last, starts, across, places, left, right, out):  # type: ignore[no-untyped-def]
    """out[p] = <left[row], right[across]> at the entries p of some rows."""
    width = left.shape[1]
    for row in range(first, last):
        for p in range(starts[row], starts[row + 1]):
            other = across[p]
            total = 0.0
            for c in range(width):
                total += left[row, c] * right[other, c]
            out[places[p]] = total


def low_rank_entries(rows: IntArray, columns: IntArray, left: Array, right: Array) -> Array:
    """<left[rows[p]], right[columns[p]]> of entries in any order.

    Of m products, (m x N), where ``left`` and ``right`` have a dimension more.
    """
    out = np.empty((*left.shape[:-2], rows.size))
    arrays = (left, right, out) if left.ndim > 2 else (left[None], right[None], out[None])
    pieces = even_cuts(out.size * left.shape[-1], out.size)
    share(lambda first, last: sampled_of(first, last, rows, columns, *arrays), pieces)
    return out


@compiled(nogil=True, fastmath=FAST_MATH)
def sampled_of(first, last, rows, columns, left, right, out):  # type: ignore[no-untyped-def]
    """out[m, p] = <left[m, rows[p]], right[m, columns[p]]> for some entries of all products."""
    n, width = rows.size, left.shape[2]
    while first < last:
        of = first // n
        stop = min(n, last - of * n)
        thin, wide, entries = left[of], right[of], out[of]
        for p in range(first - of * n, stop):
            total = 0.0
            for c in range(width):
                total += thin[rows[p], c] * wide[columns[p], c]
            entries[p] = total
        first = of * n + stop


@compiled(nogil=True)
def take_shares(  # type: ignore[no-untyped-def]
    first, last, numbers, of_rows, of_columns, rows, columns, row_shares, column_shares
):
    """Lower some numbers of entries by shares of others, one for each row and for each column."""
    for p in range(first, last):
        numbers[p] -= row_shares[rows[p]] * of_rows[p]
        numbers[p] -= column_shares[columns[p]] * of_columns[p]


def product(starts: IntArray, across: IntArray, values: Array, thin: Array) -> Array:
    """The sums of values[p] thin[across[p]], row by row: a sparse matrix times a thin one.

    In the precision of both: in single precision it takes half of the time where ``thin`` is wide.
    """
    out = np.empty((starts.size - 1, thin.shape[1]), np.result_type(values, thin))
    loop = fours.product_of if is_of_fours(values, thin) else product_of
    thin = np.ascontiguousarray(thin)
    over_rows(loop, across.size * thin.shape[1], starts, across, values, thin, out)
    return out


@compiled(nogil=True, fastmath=FAST_MATH)
def product_of(first, last, starts, across, values, right, out):  # type: ignore[no-untyped-def]
    """Some rows of it."""
    width = right.shape[1]
    for row in range(first, last):
        for c in range(width):
            out[row, c] = 0.0
        for p in range(starts[row], starts[row + 1]):
            value, other = values[p], across[p]
            for c in range(width):
                out[row, c] += value * right[other, c]


def is_of_fours(values: Array, thin: Array) -> bool:
    """True where there is a loop for the width and the precision of both."""
    return thin.shape[1] == BLOCK_WIDTH and values.dtype == thin.dtype == np.float64


def parts_of(starts: IntArray, n_across: int, width: int) -> IntArray:
    """Cuts of rows into parts of about equal size, each with a sum across rows of its own."""
    n_entries = int(starts[-1])
    most = min(
        n_entries * width // MULTIPLICATIONS_PER_PART,
        n_entries // (2 * n_across * max(width, 1)),
        MOST_SUM_PARTS,
    )
    places = np.searchsorted(starts, np.linspace(0, n_entries, max(most, 1) + 1)[1:-1])
    return np.array([0, *np.unique(places).tolist(), starts.size - 1], dtype=np.int64)


def sum_of_parts(
    loop: Callable[..., None],
    starts: IntArray,
    across: IntArray,
    values: Array,
    thin: Array,
    n_across: int,
) -> Array:
    """The sum of what a loop adds to zeros, over parts of the rows."""
    thin = np.ascontiguousarray(thin)
    parts = parts_of(starts, n_across, thin.shape[1])
    totals = np.zeros((parts.size - 1, n_across, thin.shape[1]), np.result_type(values, thin))

    def add(first: int, last: int) -> None:
        for part in range(first, last):
            loop(parts[part], parts[part + 1], starts, across, values, thin, totals[part])

    share(add, range(parts.size))
    return np.asarray(np.sum(totals, axis=0))


def transposed_product(
    starts: IntArray, across: IntArray, values: Array, thin: Array, n_across: int
) -> Array:
    """The sums of values[p] thin[row] at across[p]: A' times a thin matrix, by A's own rows.

    It writes to the shorter of the two thin matrices, where ``product`` of the other order reads
    the longer one: twice as fast where that does not fit the cache.
    """
    loop = fours.transposed_product_of if is_of_fours(values, thin) else transposed_product_of
    return sum_of_parts(loop, starts, across, values, thin, n_across)


@compiled(nogil=True, fastmath=FAST_MATH)
def transposed_product_of(first, last, starts, across, values, left, out):  # type: ignore[no-untyped-def]
    """The part of some rows in the product."""
    width = left.shape[1]
    for row in range(first, last):
        for p in range(starts[row], starts[row + 1]):
            value, other = values[p], across[p]
            for c in range(width):
                out[other, c] += value * left[row, c]


def gram_product(starts: IntArray, across: IntArray, values: Array, thin: Array) -> Array:
    """A'A V for a thin V, reading the entries once: 2.2 times as fast as two products."""
    loop = fours.gram_product_of if thin.shape[1] == BLOCK_WIDTH else gram_product_of
    return sum_of_parts(loop, starts, across, values, thin, thin.shape[0])


@compiled(nogil=True, fastmath=FAST_MATH)
def gram_product_of(first, last, starts, across, values, right, out):  # type: ignore[no-untyped-def]
    """The part of some rows: a row a of A adds a (a'V)."""
    width = right.shape[1]
    image = np.empty(width)
    for row in range(first, last):
        for c in range(width):
            image[c] = 0.0
        for p in range(starts[row], starts[row + 1]):
            value, other = values[p], across[p]
            for c in range(width):
                image[c] += value * right[other, c]
        for p in range(starts[row], starts[row + 1]):
            value, other = values[p], across[p]
            for c in range(width):
                out[other, c] += value * image[c]


@compiled(nogil=True)
def gram_matrix_of(starts, across, values, out):  # type: ignore[no-untyped-def]
    """out += A'A, to which each row adds the products of all pairs of its entries."""
    for line in range(starts.size - 1):
        for p in range(starts[line], starts[line + 1]):
            row, value = out[across[p]], values[p]
            for q in range(starts[line], starts[line + 1]):
                row[across[q]] += value * values[q]


def solutions(normals: Array, images: Array, weight: float) -> Array:
    """(N + weight I)^-1 b of each row, of sums as ``Compressed.normal_sums`` has them."""
    out = np.empty_like(images)

    def solve(first: int, last: int) -> None:
        solve_rows(normals[first:last], images[first:last], weight, out[first:last])

    share(solve, even_cuts(images.size * images.shape[1] ** 2 / 6, len(images)))
    return out


@compiled(nogil=True, fastmath=FAST_MATH)
def solve_rows(normals, images, weight, out):  # type: ignore[no-untyped-def]
    """Some rows of it."""
    n_rows, width = out.shape
    normal = np.empty((width, width))
    for row in range(n_rows):
        for c in range(width):
            start = c * (c + 1) // 2
            for b in range(c + 1):
                normal[c, b] = normals[row, start + b]
            normal[c, c] += weight
            out[row, c] = images[row, c]
        solve_normal(normal, out[row])


@compiled(nogil=True, fastmath=FAST_MATH)
def sum_rows(  # type: ignore[no-untyped-def]
    first_row, last_row, starts, across, places, curvature, linear, right, normals, images
):
    """The sums of some rows, from the first of ``normals`` and ``images`` on."""
    width = right.shape[1]
    even = width + width % 2  # since sums are taken two columns at a time
    panels, normal, image = panels_of(width), np.empty((even, even)), np.empty(width)
    for row in range(first_row, last_row):
        normal[:, :] = 0.0
        image[:] = 0.0
        first, last = starts[row], starts[row + 1]
        add_row(first, last, across, places, curvature, linear, right, panels, normal, image)
        images[row - first_row, :] = image
        for c in range(width):
            start = c * (c + 1) // 2
            for b in range(c + 1):
                normals[row - first_row, start + b] = normal[c, b]


@compiled(nogil=True, fastmath=FAST_MATH)
def ridge_rows(  # type: ignore[no-untyped-def]
    first_row, last_row, starts, across, places, curvature, linear, right, weight, out
):
    """The ridge regressions of some rows: ``(V'CV + weight I) u = V'p`` for each.

    Where a row has fewer entries than u has numbers, ``u = V'C^(1/2) b`` with
    ``(C^(1/2) V V' C^(1/2) + weight I) b = C^(-1/2) p``, unless some curvatures are tiny.
    """
    width = right.shape[1]
    even = width + width % 2  # since sums are taken two columns at a time
    panels, normal = panels_of(width), np.empty((even, even))
    scaled, image = np.zeros((even, width)), np.empty(width)
    for row in range(first_row, last_row):
        first, last = starts[row], starts[row + 1]
        count = last - first
        normal[:, :] = 0.0
        image[:] = 0.0
        short, least, most = count < width, np.inf, 0.0
        if short:
            for p in range(first, last):
                c = curvature[0 if curvature.size == 1 else places[p]]
                least, most = min(least, c), max(most, c)
        if not short or least <= SHORT_ROW_CURVATURE_RATIO * most:
            add_row(first, last, across, places, curvature, linear, right, panels, normal, image)
            for c in range(width):
                normal[c, c] += weight
            solve_normal(normal, image)
            out[row, :] = image
            continue
        rows = count + count % 2
        for p in range(count):
            place, other = places[first + p], across[first + p]
            root = np.sqrt(curvature[0 if curvature.size == 1 else place])
            image[p] = linear[place] / root
            for c in range(width):
                scaled[p, c] = root * right[other, c]
        if rows > count:
            scaled[count, :] = 0.0
        add_products(scaled[:rows], scaled[:rows], width, normal[:rows, :rows])
        for p in range(count):
            normal[p, p] += weight
        solve_normal(normal, image[:count])
        out[row, :] = 0.0
        for p in range(count):
            for c in range(width):
                out[row, c] += image[p] * scaled[p, c]


@compiled(nogil=True, fastmath=FAST_MATH, error_model="numpy")
def newton_rows(  # type: ignore[no-untyped-def]
    first_row,
    last_row,
    starts,
    across,
    places,
    curvature,
    gradient,
    right,
    largest,
    weight,
    current,
    out,
):
    """The Newton steps of some rows: ``u - (V'CV + weight I)^-1 (V'g + weight u)`` for each.

    ``largest`` is the largest number of ``right``. With B for C^(1/2) V divided by a unit, so that
    its numbers are at most 1, ``B'B + share I`` is factorised, or where B has fewer rows than
    columns ``B B' + share I``, by Woodbury's formula.
    """
    width, uniform = right.shape[1], curvature.size == 1
    single = np.float32
    scaled = np.empty((max(width, PRODUCT_ROWS), width), single)
    square, product = np.empty(width * width, single), np.empty((width, width), single)
    diagonal, step, descent = np.empty(width, single), np.empty(width, single), np.empty(width)
    for row in range(first_row, last_row):
        first, last = starts[row], starts[row + 1]
        count = last - first
        if count == 0:
            out[row, :] = 0.0
            continue
        most = curvature[0] if uniform else 0.0
        for p in range(first, first if uniform else last):
            most = max(most, curvature[places[p]])
        unit, short = np.sqrt(most) * largest, count < width
        share, order = weight / unit / unit, count if short else width
        normal = square[: order * order].reshape(order, order)
        normal[:, :] = 0.0
        for c in range(width):
            descent[c] = -weight * current[row, c]
        for begin in range(first, last, scaled.shape[0]):
            end = min(begin + scaled.shape[0], last)
            for p in range(begin, end):
                place, other = places[p], across[p]
                root = np.sqrt(curvature[0 if uniform else place]) / unit
                for c in range(width):
                    descent[c] -= gradient[place] * right[other, c]
                    scaled[p - begin, c] = root * right[other, c]
            if not short:
                np.dot(scaled[: end - begin].T, scaled[: end - begin], product)
                normal += product
        size = 0.0
        for c in range(width):
            size = max(size, abs(descent[c]))
        if size == 0.0:
            out[row, :] = current[row]
            continue
        if short:
            np.dot(scaled[:count], scaled[:count].T, normal)
            for p in range(count):
                total = 0.0
                for c in range(width):
                    total += scaled[p, c] * descent[c]
                step[p] = total / size
        else:
            for c in range(width):
                step[c] = descent[c] / size
        for c in range(order):
            normal[c, c] += share
            diagonal[c] = normal[c, c]
        solve_normal(normal, step[:order])
        exact = True
        for c in range(order):
            # The diagonal holds reciprocals of the roots of pivots now, or of what overflows.
            exact &= normal[c, c] * normal[c, c] * diagonal[c] < LARGEST_SINGLE_CONDITION
            exact &= not short or diagonal[c] < LARGEST_SINGLE_CONDITION * share
        if not exact:
            out[row, 0] = np.nan
            continue
        if short:
            for p in range(count):
                for c in range(width):
                    descent[c] -= size * step[p] * scaled[p, c]
        for c in range(width):
            out[row, c] = current[row, c] + (
                descent[c] / weight if short else size * step[c] / unit / unit
            )


@compiled(nogil=True)
def panels_of(width):  # type: ignore[no-untyped-def]
    """Buffers for some entries of a row: rows v, curvature v, curvatures, linear coefficients.

    Entries stand along the last axis, so that the sums over them run through vector units.
    """
    even = width + width % 2
    return (
        np.zeros((even, PANEL_STRIDE)),
        np.zeros((even, PANEL_STRIDE)),
        np.empty(PANEL_ENTRIES),
        np.empty(PANEL_ENTRIES),
    )


@compiled(nogil=True, fastmath=FAST_MATH)
def add_row(  # type: ignore[no-untyped-def]
    start, stop, across, places, curvature, linear, right, panels, normal, image
):
    """Add the sums of one row's entries to the lower triangle of a matrix, and to a vector."""
    width, uniform = right.shape[1], curvature.size == 1
    panel, curved, curvatures, linears = panels
    for first in range(start, stop, PANEL_ENTRIES):
        count = min(PANEL_ENTRIES, stop - first)
        for p in range(count):
            place = places[first + p]
            linears[p] = linear[place]
            curvatures[p] = curvature[0 if uniform else place]
        for p in range(count):
            other = across[first + p]
            for c in range(width):
                panel[c, p] = right[other, c]
        for c in range(width):
            total = 0.0
            for p in range(count):
                total += linears[p] * panel[c, p]
                curved[c, p] = curvatures[p] * panel[c, p]
            image[c] += total
        add_products(curved, panel, count, normal)


@compiled(nogil=True, fastmath=FAST_MATH)
def solve_short_rows(  # type: ignore[no-untyped-def]
    first_row, last_row, starts, across, places, roots, wanted, gram, out
):
    """The systems of some rows."""
    longest = 0
    for row in range(first_row, last_row):
        longest = max(longest, starts[row + 1] - starts[row])
    system, image, root = np.empty((longest, longest)), np.empty(longest), np.empty(longest)
    for row in range(first_row, last_row):
        first, count = starts[row], starts[row + 1] - starts[row]
        for c in range(count):
            root[c] = roots[places[first + c]]
            image[c] = wanted[places[first + c]]
        for c in range(count):
            other = across[first + c]
            for b in range(c + 1):
                system[c, b] = root[c] * root[b] * gram[other, across[first + b]]
            system[c, c] += 1.0
        solve_normal(system, image[:count])
        for c in range(count):
            out[places[first + c]] = root[c] * image[c]


@compiled(nogil=True, fastmath=FAST_MATH)
def add_products(left, right, count, out):  # type: ignore[no-untyped-def]
    """out[c, b] += <left[c, :count], right[b, :count]> for b <= c, of an even number of rows.

    Two by two: each number that is read serves two sums.
    """
    for c in range(0, out.shape[0], 2):
        for b in range(0, c + 2, 2):
            first = second = third = fourth = 0.0
            for p in range(count):
                first += left[c, p] * right[b, p]
                second += left[c, p] * right[b + 1, p]
                third += left[c + 1, p] * right[b, p]
                fourth += left[c + 1, p] * right[b + 1, p]
            out[c, b] += first
            out[c, b + 1] += second
            out[c + 1, b] += third
            out[c + 1, b + 1] += fourth


@compiled(nogil=True, fastmath=FAST_MATH, error_model="numpy")
def solve_normal(normal, image):  # type: ignore[no-untyped-def]
    """image = normal^-1 image by Cholesky; of ``normal`` the lower triangle is read, and lost.

    Two rows and two columns at a time: each number that is read serves two sums.
    """
    width = image.size
    for c in range(0, width, 2):
        d = min(c + 1, width - 1)
        for b in range(0, c, 2):
            first, second = normal[c, b], normal[c, b + 1]
            third, fourth = normal[d, b], normal[d, b + 1]
            for a in range(b):
                first -= normal[c, a] * normal[b, a]
                second -= normal[c, a] * normal[b + 1, a]
                third -= normal[d, a] * normal[b, a]
                fourth -= normal[d, a] * normal[b + 1, a]
            first, third = first * normal[b, b], third * normal[b, b]
            second = (second - first * normal[b + 1, b]) * normal[b + 1, b + 1]
            fourth = (fourth - third * normal[b + 1, b]) * normal[b + 1, b + 1]
            normal[c, b], normal[c, b + 1] = first, second
            normal[d, b], normal[d, b + 1] = third, fourth
        first, third, fourth = normal[c, c], normal[d, c], normal[d, d]
        for a in range(c):
            first -= normal[c, a] * normal[c, a]
            third -= normal[d, a] * normal[c, a]
            fourth -= normal[d, a] * normal[d, a]
        normal[c, c] = 1.0 / np.sqrt(first)  # the diagonal holds reciprocals
        if d > c:
            third *= normal[c, c]
            normal[d, c], normal[d, d] = third, 1.0 / np.sqrt(fourth - third * third)
    for c in range(width):
        total = image[c]
        for b in range(c):
            total -= normal[c, b] * image[b]
        image[c] = total * normal[c, c]
    for c in range(width - 1, -1, -1):
        image[c] *= normal[c, c]
        for b in range(c):
            image[b] -= normal[c, b] * image[c]


# Passes over whole matrices, one thread each: it takes most of what memory gives, and threads of
# theirs would still be spinning while those of the matrix products begin. Matrices are of 32 or
# 64 bits. Products with a few columns read a matrix of 32 bits as it is, and add in 64.


@compiled(fastmath=FAST_MATH)
def extrapolate(now, before, theta, out):  # type: ignore[no-untyped-def]
    """out = now + theta (now - before)."""
    now, before, out = now.ravel(), before.ravel(), out.ravel()
    for i in range(now.size):
        out[i] = now[i] + theta * (now[i] - before[i])


@compiled()
def descend(places, z, gradient, step, out):  # type: ignore[no-untyped-def]
    """out[places] = z - step * gradient, the matrix read row by row."""
    out = out.ravel()
    for p in range(places.size):
        out[places[p]] = z[p] - step * gradient[p]


@compiled(fastmath=FAST_MATH)
def products(new, now, before):  # type: ignore[no-untyped-def]
    """||new - now||^2 and <new - now, now - before>."""
    new, now, before = new.ravel(), now.ravel(), before.ravel()
    squared = cross = 0.0
    for i in range(new.size):
        moved = new[i] - now[i]
        squared += moved * moved
        cross += moved * (now[i] - before[i])
    return squared, cross


@compiled(nogil=True, fastmath=FAST_MATH)
def rows_times(matrix, right, out):  # type: ignore[no-untyped-def]
    """out = matrix right' for a few rows of ``right``."""
    for i in range(matrix.shape[0]):
        for c in range(right.shape[0]):
            total = 0.0
            for j in range(matrix.shape[1]):
                total += matrix[i, j] * right[c, j]
            out[i, c] = total


@compiled(nogil=True, fastmath=FAST_MATH)
def add_columns_times(matrix, left, out):  # type: ignore[no-untyped-def]
    """out += left' matrix for a few columns of ``left``.

    Four rows at a time: the numbers of ``out`` are read and written once for them.
    """
    n_rows, n_columns = matrix.shape
    fours = n_rows - n_rows % 4
    for c in range(out.shape[0]):
        for i in range(0, fours, 4):
            w, x, y, z = left[i, c], left[i + 1, c], left[i + 2, c], left[i + 3, c]
            for j in range(n_columns):
                two = w * matrix[i, j] + x * matrix[i + 1, j]
                out[c, j] += two + (y * matrix[i + 2, j] + z * matrix[i + 3, j])
        for i in range(fours, n_rows):
            for j in range(n_columns):
                out[c, j] += left[i, c] * matrix[i, j]
