"""Vectors of 64 numbers for numba: one query's costs to 64 candidates stay in registers while they add up.

LLVM splits such a vector over as many registers as the machine needs. Left to itself it would write the sums
of a short loop back to memory at every step.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

LANES = 64
FLAGS = ("reassoc", "contract", "nsz")
KINDS = {
    types.int16: ir.VectorType(ir.IntType(16), LANES),
    types.uint16: ir.VectorType(ir.IntType(16), LANES),
    types.float32: ir.VectorType(ir.FloatType(), LANES),
}


class WideType(types.Type):
    """64 numbers of one type."""

    def __init__(self, element: types.Number) -> None:
        self.element = element
        super().__init__(name=f"{element}x{LANES}")


@register_model(WideType)
class WideModel(models.PrimitiveModel):
    """A vector lives in registers."""

    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, KINDS[numba_type.element])


def splat(builder: Any, value: Any, kind: ir.VectorType) -> Any:
    """A number in all lanes."""
    undefined, zero = ir.Constant(kind, ir.Undefined), ir.Constant(ir.IntType(32), 0)
    first = builder.insert_element(undefined, value, zero)
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(zero.type, LANES), [0] * LANES))


def address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """That of 64 numbers of a contiguous array, from its flat ``index`` on."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), KINDS[array_type.dtype].as_pointer())


@intrinsic
def zeros(typing_context: Any, array: Any) -> Any:
    """64 zeros of the array's type."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(KINDS[array.dtype], [0] * LANES)

    return WideType(array.dtype)(array), generate


@intrinsic
def load(typing_context: Any, array: Any, index: Any) -> Any:
    """64 numbers of a contiguous array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(address(context, builder, array, *arguments), align=2)

    return WideType(array.dtype)(array, types.intp), generate


@intrinsic
def store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Write 64 numbers into a contiguous array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], address(context, builder, array, *arguments[:2]), align=2)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate


def _step(emit: Callable[[Any, Any, Any, Any], Any]) -> Any:
    """A function ``(total, lanes, number) -> total`` from the instructions it is made of."""

    @intrinsic
    def step(typing_context: Any, total: Any, lanes: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            sums, values, query = arguments
            return emit(builder, sums, values, splat(builder, query, KINDS[total.element]))

        return total(total, lanes, total.element), generate

    return step


def _emit_larger(builder: Any, total: Any, lanes: Any, number: Any) -> Any:
    return builder.add(total, builder.select(builder.icmp_signed(">", lanes, number), lanes, number))


def _emit_square(builder: Any, total: Any, lanes: Any, number: Any) -> Any:
    apart = builder.fsub(lanes, number, flags=FLAGS)
    return builder.fadd(total, builder.fmul(apart, apart, flags=FLAGS), flags=FLAGS)


def _emit_product(builder: Any, total: Any, lanes: Any, number: Any) -> Any:
    return builder.fsub(total, builder.fmul(lanes, number, flags=FLAGS), flags=FLAGS)


add_larger, add_square, subtract_product = _step(_emit_larger), _step(_emit_square), _step(_emit_product)
"""``total + max(lanes, number)``, ``total + (lanes - number)²`` and ``total - lanes · number``."""
