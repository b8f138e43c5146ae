"""A vector of eight 32-bit floats for numba: loops over heads become single instructions.

LLVM seldom vectorises short inner loops by itself, since it cannot tell that arrays do not overlap. Here
the vector is a type of its own, with loads, stores, arithmetic, ``exp`` and dropout.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

LANES = 8
FLAGS = ("reassoc", "contract", "nsz", "arcp")  # sums may be reordered; nothing is assumed to be finite
FLOATS, INTS = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(ir.IntType(32), LANES)


class VectorType(types.Type):
    """Eight 32-bit floats."""

    def __init__(self) -> None:
        super().__init__(name="float32x8")


vector_type = VectorType()


@register_model(VectorType)
class VectorModel(models.PrimitiveModel):
    """A vector lives in a register."""

    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, FLOATS)


def constant(value: float) -> ir.Constant:
    """The same float in all lanes."""
    return ir.Constant(FLOATS, [value] * LANES)


def whole(value: int) -> ir.Constant:
    """The same integer in all lanes."""
    return ir.Constant(INTS, [value] * LANES)


def splat(builder: Any, value: Any, kind: ir.VectorType) -> Any:
    """A runtime value in all lanes."""
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, whole(0))


def pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Address of eight floats of a contiguous array, from its flat ``index`` on."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), FLOATS.as_pointer())


@intrinsic
def load(typing_context: Any, array: Any, index: Any) -> Any:
    """Eight floats of a contiguous array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(pointer(context, builder, signature.args[0], *arguments), align=4)

    return vector_type(array, types.intp), generate


@intrinsic
def store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Write eight floats into a contiguous array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], pointer(context, builder, signature.args[0], *arguments[:2]), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector_type), generate


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line at ``index``, which will be read soon: gathers from far memory need not wait."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.bitcast(
            pointer(context, builder, signature.args[0], *arguments), ir.IntType(8).as_pointer()
        )
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def fill(typing_context: Any, value: Any) -> Any:
    """The same number in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return splat(builder, arguments[0], FLOATS)

    return vector_type(types.float32), generate


def define(emit: Callable[..., Any], arity: int) -> Any:
    """A numba function of ``arity`` vectors from a function that writes its LLVM instructions."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return emit(builder, *arguments)

    if arity == 1:

        @intrinsic
        def unary(typing_context: Any, a: Any) -> Any:
            return vector_type(vector_type), generate

        return unary

    @intrinsic
    def binary(typing_context: Any, a: Any, b: Any) -> Any:
        return vector_type(vector_type, vector_type), generate

    return binary


def call(builder: Any, name: str, *arguments: Any) -> Any:
    """An LLVM intrinsic on vectors."""
    kind = ir.FunctionType(FLOATS, [FLOATS] * len(arguments))
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v8f32"), arguments)


def _emit_maximum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _emit_sign(builder: Any, a: Any) -> Any:
    positive = builder.select(builder.fcmp_ordered(">", a, constant(0)), constant(1), constant(0))
    return builder.select(builder.fcmp_ordered("<", a, constant(0)), constant(-1), positive)


def _emit_exp(builder: Any, x: Any) -> Any:
    """``2^k · e^r`` with r in ±ln(2)/2, where e^r is a polynomial (Cephes' coefficients)."""

    def madd(a: Any, b: Any, c: Any) -> Any:
        return builder.fadd(builder.fmul(a, b, flags=FLAGS), c, flags=FLAGS)

    x = _emit_maximum(builder, x, constant(-87.0))
    k = call(builder, "floor", madd(x, constant(1.4426950408889634), constant(0.5)))
    # ln 2 in two parts, the first one short, so that x - k·ln 2 keeps its digits.
    r = builder.fadd(x, builder.fmul(k, constant(-0.693359375)))
    r = builder.fadd(r, builder.fmul(k, constant(2.12194440e-4)))
    y = constant(1.9875691500e-4)
    for coefficient in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        y = madd(y, r, constant(coefficient))
    y = builder.fadd(madd(builder.fmul(y, r, flags=FLAGS), r, r), constant(1.0), flags=FLAGS)
    power = builder.shl(builder.add(builder.fptosi(k, INTS), whole(127)), whole(23))
    return builder.fmul(y, builder.bitcast(power, FLOATS), flags=FLAGS)


maximum = define(_emit_maximum, 2)
absolute = define(lambda builder, a: call(builder, "fabs", a), 1)
sign = define(_emit_sign, 1)
exp = define(_emit_exp, 1)
"""``e^x`` for x ≤ 0, to 32-bit accuracy."""


def _swap(stride: int) -> Any:
    order = ir.Constant(INTS, [lane ^ stride for lane in range(LANES)])
    return define(lambda builder, a: builder.shuffle_vector(a, ir.Constant(FLOATS, ir.Undefined), order), 1)


swap_1, swap_2, swap_4 = _swap(1), _swap(2), _swap(4)
"""Exchange lanes with their neighbours, pairs with pairs, halves."""


def _operator(python_operator: Any, method: str) -> None:
    instruction = define(lambda builder, a, b: getattr(builder, method)(a, b, flags=FLAGS), 2)

    @overload(python_operator, strict=False)
    def on_vectors(a: Any, b: Any) -> Any:
        if isinstance(a, VectorType) and isinstance(b, VectorType):
            return lambda a, b: instruction(a, b)
        return None


_operator(operator.add, "fadd")
_operator(operator.sub, "fsub")
_operator(operator.mul, "fmul")
_operator(operator.truediv, "fdiv")


def emit_scramble(builder: Any, x: Any) -> Any:
    """A 32-bit hash of each lane."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = builder.mul(builder.xor(x, builder.lshr(x, whole(shift))), whole(factor))
    return builder.xor(x, builder.lshr(x, whole(16)))


@intrinsic
def keep(typing_context: Any, seed: Any, counter: Any, shift: Any, limit: Any) -> Any:
    """Dropout: 1 in lanes that stay, else 0; random bits come from a counter, so threads do not matter.

    Args:
        typing_context: numba's.
        seed: 32 random bits.
        counter: number of the first lane.
        shift: ``2^shift`` lanes share one number, and fate.
        limit: the dropout rate in units of 2^-32.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        seed, counter, shift, limit = (splat(builder, argument, INTS) for argument in arguments)
        lane = builder.lshr(ir.Constant(INTS, list(range(LANES))), shift)
        bits = emit_scramble(builder, builder.add(counter, lane))
        bits = emit_scramble(builder, builder.xor(bits, seed))
        return builder.select(builder.icmp_unsigned(">=", bits, limit), constant(1), constant(0))

    return vector_type(types.uint32, types.uint32, types.uint32, types.uint32), generate
