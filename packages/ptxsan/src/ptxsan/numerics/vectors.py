"""One step of the tensor cores on eight outputs, as vector instructions (`panels.step8`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 8
# Sizes of zeros, and of infinities and NaN, so that products of them and of any finite factors
# stay below LEAST or above MOST.
NOTHING, ENDLESS = 2.0**-450, 2.0**900
LEAST, MOST = 2.0**-300, 2.0**300

_I32, _I64, _F32, _F64 = ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()


def _vector(kind: Any) -> Any:
    return ir.VectorType(kind, LANES)


_V64, _VF = _vector(_I64), _vector(_F64)


def _all(value: float, kind: Any = _VF) -> Any:
    return ir.Constant(kind, [value] * LANES)


class _Step:
    """Builds the instructions of one step."""

    def __init__(self, builder: Any) -> None:
        self.builder = self._b = builder

    def at(self, address: Any, kind: Any, index: Any = None) -> Any:
        """Load `kind` at an address, or element `index` of an array of them there."""
        pointer = self._b.inttoptr(address, ir.PointerType(kind))
        if index is not None:
            pointer = self._b.gep(pointer, [index], source_etype=kind)
        return self._b.load(pointer, align=8, typ=kind)

    def put(self, address: Any, value: Any) -> None:
        pointer = self._b.inttoptr(address, ir.PointerType(value.type))
        self._b.store(value, pointer, align=8)

    def every(self, scalar: Any) -> Any:
        """Return a vector that holds a scalar in every lane."""
        empty = ir.Constant(_VF, ir.Undefined)
        one = self._b.insert_element(empty, scalar, ir.Constant(_I32, 0))
        return self._b.shuffle_vector(
            one, empty, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
        )

    def larger(self, x: Any, y: Any) -> Any:
        return self._b.select(self._b.fcmp_ordered(">", y, x), y, x)

    def cut(self, value: Any) -> Any:
        kind = ir.FunctionType(_VF, [_VF])
        name = "llvm.trunc.v8f64"
        module = self._b.module
        declared = (
            module.globals[name] if name in module.globals else ir.Function(module, kind, name)
        )
        return self._b.call(declared, [value])

    def bits(self, value: Any) -> Any:
        return self._b.bitcast(value, _V64)

    def inverse(self, power: Any) -> Any:
        """Return 1 / power of powers of two."""
        return self._b.bitcast(self._b.sub(_all(2046 << 52, _V64), self.bits(power)), _VF)

    def accumulators(self, codes: Any) -> tuple[Any, Any]:
        """Return the values and sizes of f32 codes."""
        b = self._b
        narrow = b.trunc(codes, _vector(_I32))
        value = b.fpext(b.bitcast(narrow, _vector(_F32)), _VF)
        field = b.and_(b.lshr(codes, _all(23, _V64)), _all(255, _V64))
        nothing = b.icmp_signed("==", b.and_(codes, _all(0x7FFFFFFF, _V64)), _all(0, _V64))
        raised = b.select(b.icmp_signed("==", field, _all(0, _V64)), _all(1, _V64), field)
        size = b.bitcast(b.shl(b.add(raised, _all(1023 - 127, _V64)), _all(52, _V64)), _VF)
        endless = b.icmp_signed("==", field, _all(255, _V64))
        size = b.select(endless, _all(ENDLESS), size)
        return value, b.select(nothing, _all(NOTHING), size)

    def over(self, count: Any, start: Any, body: Any) -> Any:
        """Return `start` after `count` > 0 turns of value = body(value, index)."""
        b = self._b
        before, loop = b.block, b.append_basic_block("turn")
        b.branch(loop)
        b.position_at_end(loop)
        index, value = b.phi(_I64), b.phi(_VF)
        new, following = body(value, index), b.add(index, ir.Constant(_I64, 1))
        index.add_incoming(ir.Constant(_I64, 0), before)
        value.add_incoming(start, before)
        index.add_incoming(following, b.block)
        value.add_incoming(new, b.block)
        after = b.append_basic_block("after")
        b.cbranch(b.icmp_signed("<", following, count), b.block, after)
        b.position_at_end(after)
        return new

    def ends(self, total: Any) -> tuple[Any, Any]:
        """Return f32 codes of sums cut toward zero, and which need another look."""
        b = self._b
        bits = self.bits(total)
        magnitude = b.bitcast(b.and_(bits, _all(0x7FFFFFFFFFFFFFFF, _V64)), _VF)
        odd = b.fcmp_unordered(">=", magnitude, _all(2.0**128))
        small = b.fcmp_ordered("<", magnitude, _all(2.0**-126))
        odd = b.or_(odd, b.and_(small, b.fcmp_ordered(">", magnitude, _all(0.0))))
        moved = b.sub(b.lshr(self.bits(magnitude), _all(29, _V64)), _all(896 << 23, _V64))
        zero = b.fcmp_ordered("==", magnitude, _all(0.0))
        moved = b.select(zero, _all(0, _V64), moved)
        sign = b.and_(b.lshr(bits, _all(32, _V64)), _all(0x80000000, _V64))
        return b.or_(sign, moved), odd


def _sums(s: _Step, value: Any, size: Any, factors: list[Any]) -> tuple[Any, Any]:
    """Return the sums of a step from accumulators' values and sizes, and their largest sizes."""
    b = s.builder
    a, a_size, rows, row_sizes, count, power = factors

    def raised(top: Any, k: Any) -> Any:
        return s.larger(top, b.fmul(s.every(s.at(a_size, _F64, k)), s.at(row_sizes, _VF, k)))

    top = s.over(count, size, raised)
    scale = b.fmul(s.every(power), s.inverse(s.larger(top, _all(LEAST))))

    def added(total: Any, k: Any) -> Any:
        term = b.fmul(s.every(s.at(a, _F64, k)), s.at(rows, _VF, k))
        return b.fadd(total, s.cut(b.fmul(term, scale)))

    total = s.over(count, s.cut(b.fmul(value, scale)), added)
    # Adding zero makes a negative zero positive: a sum that is cut to zero loses its sign.
    return b.fadd(b.fmul(total, s.inverse(scale)), _all(0.0)), top


def _step(builder: Any, given: list[Any]) -> Any:
    codes_at, *factors, totals_at, sizes_at = given
    b, s = builder, _Step(builder)
    codes = s.at(codes_at, _V64)
    total, top = _sums(s, *s.accumulators(codes), factors)
    found, odd = s.ends(total)
    odd = b.or_(odd, b.fcmp_unordered(">=", top, _all(MOST)))
    s.put(totals_at, total)
    s.put(sizes_at, top)
    mask = ir.IntType(LANES)
    anything = b.icmp_unsigned("!=", b.bitcast(odd, mask), ir.Constant(mask, 0))
    s.put(codes_at, b.select(anything, codes, found))
    return b.zext(anything, _I64)


def _product(context: Any, builder: Any, given: list[Any]) -> Any:
    a, rows, count, totals_at = given
    s = _Step(builder)

    def added(total: Any, k: Any) -> Any:
        return builder.fadd(total, builder.fmul(s.every(s.at(a, _F64, k)), s.at(rows, _VF, k)))

    s.put(totals_at, s.over(count, s.at(totals_at, _VF), added))
    return context.get_dummy_value()


_FACTORS = (*[types.int64] * 5, types.float64)
_PLACES = (types.int64, types.int64)

if TYPE_CHECKING:

    def step_vector(
        codes: int, a: int, a_size: int, b: int, b_size: int, count: int, power: float,
        totals: int, sizes: int, /,
    ) -> int:  # fmt: skip
        """Add `count` products to eight f32 accumulators; return 1 where they need another look.

        All but `count` and `power` are addresses: int64[8] codes in and out, float64[count] of a
        row of A and its sizes, float64[count, 8] of a panel of B and its sizes, and where to put
        float64[8] sums and their largest sizes. `power` is two to the fraction bits. Where it
        returns 1 the codes are left alone.
        """

    def sum_vector(
        a: int, a_size: int, b: int, b_size: int, count: int, power: float, totals: int,
        sizes: int, /,
    ) -> None:  # fmt: skip
        """Do the same to accumulators that are given as values and sizes, in place."""

    def product_vector(a: int, b: int, count: int, totals: int, /) -> None:
        """Add a row of A times a panel of B to float64[8] at `totals`, in the order of k."""

else:

    @intrinsic
    def step_vector(typing, codes, a, a_size, b, b_size, count, power, totals, sizes):
        """Add `count` products to eight f32 accumulators; see above."""

        def codegen(context, builder, signature, arguments):
            return _step(builder, list(arguments))

        return types.int64(types.int64, *_FACTORS, *_PLACES), codegen

    @intrinsic
    def sum_vector(typing, a, a_size, b, b_size, count, power, totals, sizes):
        """Do the same to accumulators that are given as values and sizes, in place."""

        def codegen(context, builder, signature, arguments):
            *factors, totals_at, sizes_at = list(arguments)
            s = _Step(builder)
            total, top = _sums(s, s.at(totals_at, _VF), s.at(sizes_at, _VF), factors)
            s.put(totals_at, total)
            s.put(sizes_at, top)
            return context.get_dummy_value()

        return types.void(*_FACTORS, *_PLACES), codegen

    @intrinsic
    def product_vector(typing, a, b, count, totals):
        """Add a row of A times a panel of B to float64[8] at `totals`, in the order of k."""

        def codegen(context, builder, signature, arguments):
            return _product(context, builder, list(arguments))

        return types.void(*[types.int64] * 4), codegen
