"""Loads, stores and calls at raw addresses, for the runtime's numba functions.

Addresses are int64. Nothing is checked here: the callers know what they point to.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _loader(type_: Any, wide: Any) -> Any:
    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.PointerType(type_))
            value = builder.load(pointer, align=1)
            if isinstance(type_, ir.IntType) and type_.width < 64:
                return builder.zext(value, ir.IntType(64))
            if isinstance(type_, ir.FloatType):
                return builder.fpext(value, ir.DoubleType())
            return value

        return wide(types.int64), codegen

    return load


def _storer(type_: Any, wide: Any) -> Any:
    @intrinsic
    def store(typing: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.PointerType(type_))
            value = arguments[1]
            if isinstance(type_, ir.IntType) and type_.width < 64:
                value = builder.trunc(value, type_)
            elif isinstance(type_, ir.FloatType):
                value = builder.fptrunc(value, type_)
            builder.store(value, pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, wide), codegen

    return store


load_u8 = _loader(ir.IntType(8), types.int64)
load_u16 = _loader(ir.IntType(16), types.int64)
load_u32 = _loader(ir.IntType(32), types.int64)
load_u64 = _loader(ir.IntType(64), types.int64)
load_f32 = _loader(ir.FloatType(), types.float64)
load_f64 = _loader(ir.DoubleType(), types.float64)
store_u8 = _storer(ir.IntType(8), types.int64)
store_u16 = _storer(ir.IntType(16), types.int64)
store_u32 = _storer(ir.IntType(32), types.int64)
store_u64 = _storer(ir.IntType(64), types.int64)
store_f32 = _storer(ir.FloatType(), types.float64)
store_f64 = _storer(ir.DoubleType(), types.float64)


@intrinsic
def exchange_u64(typing: Any, address: Any, value: Any) -> Any:
    """Store a 64-bit value atomically and return the one that it replaced."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.PointerType(ir.IntType(64)))
        return builder.atomic_rmw("xchg", pointer, arguments[1], "acq_rel")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def add_u32(typing: Any, address: Any, value: Any) -> Any:
    """Add to a 32-bit counter atomically and return the value before."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.PointerType(ir.IntType(32)))
        narrow = builder.trunc(arguments[1], ir.IntType(32))
        old = builder.atomic_rmw("add", pointer, narrow, "acq_rel")
        return builder.zext(old, ir.IntType(64))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def add_u64(typing: Any, address: Any, value: Any) -> Any:
    """Add to a 64-bit counter atomically and return the value before."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.PointerType(ir.IntType(64)))
        return builder.atomic_rmw("add", pointer, arguments[1], "acq_rel")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def give_way(typing: Any) -> Any:
    """Let another thread of the host run (sched_yield)."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def call_step(typing: Any, function: Any, thread: Any, block: Any, launch: Any) -> Any:
    """Call `i64 function(i64 thread, i64 block, i64 launch)` at an address."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(64)
        kind = ir.FunctionType(wide, [wide] * 3)
        target = builder.inttoptr(arguments[0], ir.PointerType(kind))
        return builder.call(target, arguments[1:])

    return types.int64(*[types.int64] * 4), codegen


@intrinsic
def call_handler(typing: Any, function: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
    """Call `void function(i64 x 6)` at an address."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [wide] * 6)
        target = builder.inttoptr(arguments[0], ir.PointerType(kind))
        builder.call(target, arguments[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), codegen


@intrinsic
def fill(typing: Any, address: Any, nbytes: Any, value: Any) -> Any:
    """Set bytes at an address to one value."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.PointerType(ir.IntType(8)))
        byte = builder.trunc(arguments[2], ir.IntType(8))
        name = "llvm.memset.p0.i64"
        kind = ir.FunctionType(
            ir.VoidType(),
            [ir.PointerType(ir.IntType(8)), ir.IntType(8), ir.IntType(64), ir.IntType(1)],
        )
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(function, [place, byte, arguments[1], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def copy_bytes(typing: Any, to: Any, source: Any, nbytes: Any) -> Any:
    """Copy bytes between addresses that do not overlap."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.PointerType(ir.IntType(8))
        to, source = (builder.inttoptr(one, pointer) for one in arguments[:2])
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, ir.IntType(64), ir.IntType(1)])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.memcpy.p0.p0.i64")
        builder.call(function, [to, source, arguments[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen
