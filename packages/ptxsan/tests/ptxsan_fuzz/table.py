"""The instructions that random programs are made of: spelling, result and operands, as data.

Registers are untyped bits (`.b16`, `.b32`, `.b64`), which PTX lets every instruction of that width
use, so that integers, floats, packed halves and their special codes meet in every operand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

RESULT_OR_SOURCE = "hrdp"  # 16, 32, 64 bits, predicate
SMALL_IMMEDIATE = "i"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One spelling. `result` and `sources` are letters of RESULT_OR_SOURCE or SMALL_IMMEDIATE.

    `leaf` marks an approximate result: it is dumped, but no other instruction reads it.
    `divisor` is the index of a source that must be positive.
    """

    opcode: str
    result: str
    sources: str
    leaf: bool = False
    divisor: int | None = None


def _rows(
    result: str, sources: str, opcodes: Iterable[str], *, leaf: bool = False
) -> Iterator[Row]:
    for opcode in opcodes:
        yield Row(opcode=opcode, result=result, sources=sources, leaf=leaf)


_ROUND = ("rn", "rz", "rm", "rp")
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
_UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_WIDTH = {"16": "h", "32": "r", "64": "d"}


def _integers() -> Iterator[Row]:
    for bits, letter in _WIDTH.items():
        for sign in "us":
            kind = f"{sign}{bits}"
            yield from _rows(
                letter,
                letter * 2,
                [f"{op}.{kind}" for op in ("add", "sub", "min", "max", "mul.lo", "mul.hi")],
            )
            yield from _rows(letter, letter * 3, [f"mad.lo.{kind}"])
            for op in ("div", "rem"):
                yield Row(opcode=f"{op}.{kind}", result=letter, sources=letter * 2, divisor=1)
            yield from _rows("p", letter * 2, [f"setp.{cmp}.{kind}" for cmp in _COMPARE])
            yield from _rows(letter, letter + "r", [f"shr.{kind}"])
        yield from _rows(letter, letter + "r", [f"shl.b{bits}"])
        yield from _rows(letter, letter * 2, [f"{op}.b{bits}" for op in ("and", "or", "xor")])
        yield from _rows(letter, letter, [f"not.b{bits}", f"abs.s{bits}", f"neg.s{bits}"])
        yield from _rows(letter, letter * 2 + "p", [f"selp.b{bits}"])
        yield from _rows(letter, letter, [f"mov.b{bits}"])


def _bit_twiddles() -> Iterator[Row]:
    yield from _rows("r", "rr", ["add.sat.s32", "sub.sat.s32", "mul24.lo.s32", "mul24.lo.u32"])
    yield from _rows("d", "rr", ["mul.wide.s32", "mul.wide.u32"])
    yield from _rows("d", "rrd", ["mad.wide.s32", "mad.wide.u32"])
    yield from _rows("r", "hh", ["mul.wide.s16", "mul.wide.u16"])
    yield from _rows("r", "rrr", ["mad.hi.s32", "mad.hi.u32", "sad.s32", "sad.u32"])
    yield from _rows("r", "rrr", ["slct.s32.s32", "dp4a.s32.s32", "dp4a.u32.s32", "prmt.b32"])
    yield from _rows(
        "r", "rrr", [f"shf.{way}.{mode}.b32" for way in "lr" for mode in ("wrap", "clamp")]
    )
    yield from _rows("r", "r", ["popc.b32", "clz.b32", "brev.b32", "bfind.u32", "bfind.s32"])
    yield from _rows("r", "d", ["popc.b64", "clz.b64", "bfind.u64"])
    yield from _rows("d", "d", ["brev.b64", "cnot.b64"])
    yield from _rows("r", "rrr", ["bfe.u32", "bfe.s32"])
    yield from _rows("d", "drr", ["bfe.u64", "bfe.s64"])
    yield from _rows("r", "rrrr", ["bfi.b32"])
    yield from _rows("d", "ddrr", ["bfi.b64"])
    yield from _rows("p", "pp", ["and.pred", "or.pred", "xor.pred"])
    yield from _rows("p", "p", ["not.pred"])
    yield from _rows(
        "r", "rr", [f"set.{cmp}.u32.{kind}" for cmp in _COMPARE for kind in ("s32", "f32")]
    )


def _floats() -> Iterator[Row]:
    for ftz in ("", ".ftz"):
        for sat in ("", ".sat"):
            for mode in _ROUND:
                ops = [f"{op}.{mode}{ftz}{sat}.f32" for op in ("add", "sub", "mul")]
                yield from _rows("r", "rr", ops)
                yield from _rows("r", "rrr", [f"fma.{mode}{ftz}{sat}.f32"])
        for mode in _ROUND:
            yield from _rows("r", "rr", [f"div.{mode}{ftz}.f32"])
            yield from _rows("r", "r", [f"{op}.{mode}{ftz}.f32" for op in ("rcp", "sqrt")])
        yield from _rows("r", "r", [f"neg{ftz}.f32", f"abs{ftz}.f32"])
        for nan in ("", ".NaN"):
            ops = [f"{op}{ftz}{nan}{x}.f32" for op in ("min", "max") for x in ("", ".xorsign.abs")]
            yield from _rows("r", "rr", ops)
        compare = [f"setp.{cmp}{ftz}.f32" for cmp in (*_COMPARE, *_UNORDERED)]
        yield from _rows("p", "rr", compare)
    yield from _rows("r", "rr", ["copysign.f32"])
    yield from _rows("p", "r", [f"testp.{kind}.f32" for kind in _TESTP])
    for mode in _ROUND:
        yield from _rows("d", "dd", [f"{op}.{mode}.f64" for op in ("add", "sub", "mul", "div")])
        yield from _rows("d", "ddd", [f"fma.{mode}.f64"])
        yield from _rows("d", "d", [f"{op}.{mode}.f64" for op in ("rcp", "sqrt")])
    yield from _rows("d", "d", ["neg.f64", "abs.f64"])
    yield from _rows("d", "dd", ["min.f64", "max.f64", "copysign.f64"])
    yield from _rows("p", "dd", [f"setp.{cmp}.f64" for cmp in (*_COMPARE, *_UNORDERED)])


_TESTP = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")


def _halves() -> Iterator[Row]:
    for name, letter in (("f16", "h"), ("f16x2", "r"), ("bf16", "h"), ("bf16x2", "r")):
        flush = ("", ".ftz") if name.startswith("f16") else ("",)
        for ftz in flush:
            for sat in ("", ".sat") if name.startswith("f16") else ("",):
                ops = [f"{op}.rn{ftz}{sat}.{name}" for op in ("add", "sub", "mul")]
                yield from _rows(letter, letter * 2, ops)
                yield from _rows(letter, letter * 3, [f"fma.rn{ftz}{sat}.{name}"])
            yield from _rows(letter, letter * 3, [f"fma.rn{ftz}.relu.{name}"])
            for nan in ("", ".NaN"):
                ops = [f"{op}{ftz}{nan}.{name}" for op in ("min", "max")]
                yield from _rows(letter, letter * 2, ops)
            if "x2" not in name:
                compare = [f"setp.{cmp}{ftz}.{name}" for cmp in (*_COMPARE, "equ", "ltu", "nan")]
                yield from _rows("p", letter * 2, compare)
        yield from _rows(letter, letter, [f"neg.{name}", f"abs.{name}"])


def _conversions() -> Iterator[Row]:
    for name in ("f16", "bf16", "f32", "f64"):
        letter = {"f16": "h", "bf16": "h", "f32": "r", "f64": "d"}[name]
        for bits, whole in _WIDTH.items():
            for sign in "us":
                kind = f"{sign}{bits}"
                ops = [f"cvt.{mode}i.{kind}.{name}" for mode in _ROUND]
                yield from _rows(whole, letter, ops)
                modes = _ROUND if name in ("f32", "f64") else ("rn", "rz")
                yield from _rows(letter, whole, [f"cvt.{mode}.{name}.{kind}" for mode in modes])
    yield from _rows(
        "r", "r", [f"cvt.{mode}i{ftz}.f32.f32" for mode in _ROUND for ftz in ("", ".ftz")]
    )
    yield from _rows("r", "r", ["cvt.sat.f32.f32", "cvt.ftz.sat.f32.f32"])
    yield from _rows("d", "d", [f"cvt.{mode}i.f64.f64" for mode in _ROUND])
    yield from _rows(
        "r", "d", [f"cvt.{m}{x}.f32.f64" for m in _ROUND for x in ("", ".ftz", ".sat")]
    )
    yield from _rows("d", "r", ["cvt.f64.f32", "cvt.ftz.f64.f32"])
    yield from _rows("r", "h", ["cvt.f32.f16", "cvt.ftz.f32.f16", "cvt.f32.bf16"])
    yield from _rows("d", "h", ["cvt.f64.f16"])
    modes = ("rn", "rz", "rn.relu", "rz.relu")
    yield from _rows(
        "h", "r", [f"cvt.{mode}.{name}.f32" for mode in modes for name in ("f16", "bf16")]
    )
    yield from _rows("h", "r", [f"cvt.{mode}.f16.f32" for mode in ("rm", "rp", "rn.ftz", "rn.sat")])
    yield from _rows("h", "d", ["cvt.rn.f16.f64"])
    packed = [f"cvt.{mode}.{name}x2.f32" for mode in modes for name in ("f16", "bf16")]
    yield from _rows("r", "rr", packed)
    yield from _rows("r", "r", ["cvt.rna.tf32.f32", "cvt.rn.tf32.f32", "cvt.rz.tf32.f32"])
    for eight in ("e4m3x2", "e5m2x2"):
        yield from _rows("h", "rr", [f"cvt.rn.satfinite{x}.{eight}.f32" for x in ("", ".relu")])
        yield from _rows("h", "r", [f"cvt.rn.satfinite{x}.{eight}.f16x2" for x in ("", ".relu")])
        yield from _rows("r", "h", [f"cvt.rn{x}.f16x2.{eight}" for x in ("", ".relu")])


def _integer_conversions() -> Iterator[Row]:
    kinds = [(f"{sign}{bits}", letter) for bits, letter in _WIDTH.items() for sign in "us"]
    for to, result in kinds:
        for source, letter in kinds:
            if to == source:
                continue
            yield from _rows(result, letter, [f"cvt.{to}.{source}"])
            holds_all = int(to[1:]) > int(source[1:]) and (to[0] == "s" or source[0] == "u")
            if not holds_all:  # only then is there anything to saturate
                yield from _rows(result, letter, [f"cvt.sat.{to}.{source}"])


def _approximate() -> Iterator[Row]:
    for ftz in ("", ".ftz"):
        ops = [
            f"{op}.approx{ftz}.f32" for op in ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos")
        ]
        yield from _rows("r", "r", ops, leaf=True)
        yield from _rows("r", "rr", [f"div.{op}{ftz}.f32" for op in ("full", "approx")], leaf=True)
    yield from _rows("r", "r", ["tanh.approx.f32"], leaf=True)


ROWS = tuple(
    row
    for group in (
        _integers, _bit_twiddles, _floats, _halves, _conversions, _integer_conversions,
        _approximate,
    )
    for row in group()
)  # fmt: skip
