"""Products of sparse matrices with four columns: a row of the thin matrix is one vector register.

Numba leaves loops over four numbers to scalar instructions, for it does not ask LLVM to join
them, and joins entries instead, whose gathers cost more than they save. So the one operation that
these loops are made of is written in LLVM's vectors: 1.5 times as fast at A'A V of P3.

Imported when it is first needed, since numba is.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 4
VECTOR = ir.VectorType(ir.DoubleType(), LANES)
FIRST_LANE = ir.Constant(ir.IntType(32), 0)
BROADCAST_LANES = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
ALIGNMENT_BYTES = 8  # of rows


def typed_sum(typing: Any, out: Any, row: Any, factor: Any, thin: Any, other: Any) -> Any:
    """The types of ``add_multiple``, and what writes its instructions."""
    signature = types.void(out, types.int64, types.float64, thin, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def row_of(array: int) -> Any:
            made = cgutils.create_struct_proxy(signature.args[array])  # type: ignore[no-untyped-call]
            first = made(context, builder, value=arguments[array]).data
            place = builder.mul(arguments[array + 1], ir.Constant(ir.IntType(64), LANES))
            return builder.bitcast(builder.gep(first, [place]), VECTOR.as_pointer())

        target, source = row_of(0), row_of(3)
        before, added = (
            builder.load(target, align=ALIGNMENT_BYTES),
            builder.load(source, align=ALIGNMENT_BYTES),
        )
        nothing = ir.Constant(VECTOR, ir.Undefined)
        one = builder.insert_element(nothing, arguments[2], FIRST_LANE)
        factors = builder.shuffle_vector(one, nothing, BROADCAST_LANES)
        product = builder.fmul(factors, added, flags=("contract",))
        total = builder.fadd(before, product, flags=("contract",))
        builder.store(total, target, align=ALIGNMENT_BYTES)
        return context.get_dummy_value()

    return signature, generate


# out[row] += factor * thin[other] for arrays of four columns.
add_multiple: Any = intrinsic(typed_sum)


@numba.njit(cache=True, nogil=True)
def product_of(first, last, starts, across, values, right, out):  # type: ignore[no-untyped-def]
    """out[line] = sum of values[p] right[across[p]] for some lines."""
    for line in range(first, last):
        out[line] = 0.0
        for p in range(starts[line], starts[line + 1]):
            add_multiple(out, line, values[p], right, np.int64(across[p]))


@numba.njit(cache=True, nogil=True)
def transposed_product_of(first, last, starts, across, values, left, out):  # type: ignore[no-untyped-def]
    """The part of some lines in out[across[p]], the sum of values[p] left[line]."""
    for line in range(first, last):
        for p in range(starts[line], starts[line + 1]):
            add_multiple(out, np.int64(across[p]), values[p], left, line)


@numba.njit(cache=True, nogil=True)
def gram_product_of(first, last, starts, across, values, right, out):  # type: ignore[no-untyped-def]
    """The part of some lines in A'A V: a row a of A adds a (a'V)."""
    image = np.empty((1, LANES))
    for line in range(first, last):
        image[0] = 0.0
        for p in range(starts[line], starts[line + 1]):
            add_multiple(image, 0, values[p], right, np.int64(across[p]))
        for p in range(starts[line], starts[line + 1]):
            add_multiple(out, np.int64(across[p]), values[p], image, 0)
