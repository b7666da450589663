"""PTX kernels that ask a GPU what no manual says: tensor-core sums, approximations, atomics.

A probe is one kernel over a grid of blocks. Every thread loads `in_words` 32-bit words, runs one
instruction and stores `out_words`. Inputs are made from the probe's name alone, so that only the
outputs have to travel; `benchmarks/machine_fidelity.py` launches and compares.

The random programs lie in `packages/ptxsan/tests`, which belongs on PYTHONPATH.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxsan_fuzz.inputs import mix

_HEADER = ".version 8.4\n.target sm_90a\n.address_size 64\n"
TILES = 512  # warps or warpgroups per matrix probe
POINTS = 65536  # arguments per function probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One kernel and its shape. `kind` is matrix, group (wgmma), function or atomic."""

    name: str
    kind: str
    opcode: str
    body: str
    in_words: int
    out_words: int
    threads: int
    blocks: int

    @property
    def text(self) -> str:
        """The PTX module: an entry `probe(input, output)`."""
        return (
            f"{_HEADER}.visible .entry probe(.param .u64 input, .param .u64 output)\n{{\n"
            ".reg .b32 %t<16>; .reg .b64 %at<4>; .reg .pred %p<2>;\n"
            f".reg .b32 %x<{max(self.in_words, 1)}>; .reg .b32 %y<{max(self.out_words, 1)}>;\n"
            "ld.param.u64 %at0, [input];\nld.param.u64 %at1, [output];\n"
            "mov.u32 %t0, %tid.x;\nmov.u32 %t1, %ctaid.x;\nmov.u32 %t2, %ntid.x;\n"
            "mad.lo.u32 %t3, %t1, %t2, %t0;\n"
            f"mad.wide.u32 %at0, %t3, {4 * self.in_words}, %at0;\n"
            f"mad.wide.u32 %at1, %t3, {4 * self.out_words}, %at1;\n"
            + "".join(f"ld.global.b32 %x{i}, [%at0+{4 * i}];\n" for i in range(self.in_words))
            + self.body
            + "".join(f"st.global.b32 [%at1+{4 * i}], %y{i};\n" for i in range(self.out_words))
            + "ret;\n}\n"
        )


def _names(letter: str, first: int, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{first + i}" for i in range(count)) + "}"


# opcode suffix -> words of A, B, C (= D) a lane holds
_MMA = {
    "m16n8k16.row.col.f32.f16.f16.f32": (4, 2, 4),
    "m16n8k16.row.col.f32.bf16.bf16.f32": (4, 2, 4),
    "m16n8k8.row.col.f32.f16.f16.f32": (2, 1, 4),
    "m16n8k8.row.col.f32.bf16.bf16.f32": (2, 1, 4),
    "m16n8k16.row.col.f16.f16.f16.f16": (4, 2, 2),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (4, 2, 4),
    "m16n8k4.row.col.f32.tf32.tf32.f32": (2, 1, 4),
    "m16n8k32.row.col.f32.e4m3.e4m3.f32": (4, 2, 4),
    "m16n8k32.row.col.f32.e5m2.e4m3.f32": (4, 2, 4),
    "m16n8k32.row.col.s32.s8.s8.s32": (4, 2, 4),
    "m16n8k32.row.col.satfinite.s32.u8.s8.s32": (4, 2, 4),
    "m16n8k16.row.col.s32.s8.u8.s32": (2, 1, 4),
}


def _matrix() -> Iterator[Probe]:
    for suffix, (a, b, c) in _MMA.items():
        opcode = f"mma.sync.aligned.{suffix}"
        if opcode.count("f32.e") and "8" in opcode:
            opcode = f"mma.sync.aligned.{suffix}"
        operands = ", ".join(
            [_names("y", 0, c), _names("x", 0, a), _names("x", a, b), _names("x", a + b, c)]
        )
        yield Probe(
            name=f"mma.{suffix}", kind="matrix", opcode=opcode, body=f"{opcode} {operands};\n",
            in_words=a + b + c, out_words=c, threads=32, blocks=TILES,
        )  # fmt: skip
    yield _double_matrix()


def _double_matrix() -> Probe:
    opcode = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
    body = (
        ".reg .f64 %f<6>;\n"
        + "".join(f"mov.b64 %f{i}, {{%x{2 * i}, %x{2 * i + 1}}};\n" for i in range(4))
        + f"{opcode} {{%f4, %f5}}, {{%f0}}, {{%f1}}, {{%f2, %f3}};\n"
        + "mov.b64 {%y0, %y1}, %f4;\nmov.b64 {%y2, %y3}, %f5;\n"
    )
    return Probe(
        name="mma.f64", kind="matrix", opcode=opcode, body=body, in_words=8, out_words=4,
        threads=32, blocks=TILES,
    )  # fmt: skip


# type string -> (bytes along K, words of D a thread, operand tail)
_WGMMA = {
    "m64n8k16.f32.f16.f16": (32, 4, "1, 1, 0, 0"),
    "m64n8k16.f32.bf16.bf16": (32, 4, "1, 1, 0, 0"),
    "m64n8k16.f16.f16.f16": (32, 2, "1, 1, 0, 0"),
    "m64n8k8.f32.tf32.tf32": (32, 4, "1, 1"),
    "m64n8k32.f32.e4m3.e4m3": (32, 4, "1, 1"),
    "m64n8k32.f32.e5m2.e5m2": (32, 4, "1, 1"),
    "m64n8k32.f16.e4m3.e4m3": (32, 2, "1, 1"),
    "m64n8k32.s32.s8.s8": (32, 4, ""),
}
_PLAIN_BITS = (128 >> 4) << 16 | (256 >> 4) << 32  # LBO 128, SBO 256 bytes, no swizzle


def _group_body(opcode: str, words: int, tail: str, *, twice: bool) -> str:
    """A: 64 rows of 32 bytes, as 8 x 2 core matrices of 128 bytes; B: 8 rows behind it."""
    lines = [
        ".shared .align 1024 .b8 tile[2304];",
        "mov.u32 %t4, tile;",
        "mad.lo.u32 %t5, %t0, 16, %t4;",
        "st.shared.v4.b32 [%t5], {%x0, %x1, %x2, %x3};",
        "setp.lt.u32 %p0, %t0, 64;",
        "mad.lo.u32 %t6, %t0, 4, %t4;",
        "@%p0 st.shared.b32 [%t6+2048], %x4;",
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;",
        "shr.u32 %t7, %t4, 4;",
        "cvt.u64.u32 %at2, %t7;",
        f"or.b64 %at2, %at2, {_PLAIN_BITS};",
        "add.u64 %at3, %at2, 128;",
        *[f"mov.b32 %y{i}, %x{5 + i};" for i in range(words)],
        "setp.eq.u32 %p1, 1, 1;",
        "wgmma.fence.sync.aligned;",
    ]
    call = f"{opcode} {_names('y', 0, words)}, %at2, %at3, %p1{', ' + tail if tail else ''};"
    lines += [call] * (2 if twice else 1)
    lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    return "\n".join(lines) + "\n"


def _groups() -> Iterator[Probe]:
    for suffix, (_, words, tail) in _WGMMA.items():
        opcode = f"wgmma.mma_async.sync.aligned.{suffix}"
        for twice in (False, True):
            yield Probe(
                name=f"wgmma.{suffix}{'.twice' if twice else ''}", kind="group", opcode=opcode,
                body=_group_body(opcode, words, tail, twice=twice), in_words=5 + words,
                out_words=words, threads=128, blocks=TILES // 4,
            )  # fmt: skip


# swizzle -> (code in the descriptor, bytes of a row)
_SWIZZLES = {"none": (0, 16), "128": (1, 128), "64": (2, 64), "32": (3, 32)}


def _descriptor(swizzle: str, transposed: bool, step: int) -> tuple[int, int]:
    """Return (descriptor bits, byte offset of the start) of a packed tile, K step `step`."""
    code, span = _SWIZZLES[swizzle]
    if not transposed:
        leading, stride = (128, 256) if code == 0 else (16, 8 * span)
        return (leading >> 4) << 16 | (
            stride >> 4
        ) << 32 | code << 62, 0 if code == 0 else 32 * step
    leading, stride = (128, 256) if code == 0 else (16 * span, 8 * span)
    return (leading >> 4) << 16 | (stride >> 4) << 32 | code << 62, 0


def _layouts() -> Iterator[Probe]:
    """Where wgmma reads: swizzles, both majors, small integers so that only places matter."""
    for swizzle, (code, span) in _SWIZZLES.items():
        for turned_a in (False, True):
            for turned_b in (False, True):
                step = 1 if code and span > 32 else 0
                name = f"layout.{swizzle}.{int(turned_a)}{int(turned_b)}"
                yield Probe(
                    name=name, kind="layout", opcode="wgmma", threads=128, blocks=2,
                    body=_layout_body(swizzle, turned_a, turned_b, step), in_words=48,
                    out_words=64,
                )  # fmt: skip


def _layout_body(swizzle: str, turned_a: bool, turned_b: bool, step: int) -> str:
    """A at 0 (8 KiB), B at 8192 (16 KiB); m64n128k16."""
    of_a, of_b = _descriptor(swizzle, turned_a, step), _descriptor(swizzle, turned_b, step)
    opcode = "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
    tail = f"1, 1, {int(turned_a)}, {int(turned_b)}"
    lines = [
        ".shared .align 1024 .b8 tile[24576];",
        ".reg .b64 %d<4>;",
        "mov.u32 %t4, tile;",
        "mad.lo.u32 %t5, %t0, 192, %t4;",
        *[f"st.shared.v4.b32 [%t5+{16 * i}], {_names('x', 4 * i, 4)};" for i in range(12)],
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;",
        f"add.u32 %t6, %t4, {of_a[1]};",
        f"add.u32 %t7, %t4, {8192 + of_b[1]};",
        "shr.u32 %t6, %t6, 4;",
        "shr.u32 %t7, %t7, 4;",
        "cvt.u64.u32 %d0, %t6;",
        "cvt.u64.u32 %d1, %t7;",
        f"mov.b64 %d2, {of_a[0]};",
        f"mov.b64 %d3, {of_b[0]};",
        "or.b64 %d0, %d0, %d2;",
        "or.b64 %d1, %d1, %d3;",
        *[f"mov.b32 %y{i}, 0;" for i in range(64)],
        "setp.eq.u32 %p1, 1, 0;",
        "wgmma.fence.sync.aligned;",
        f"{opcode} {_names('y', 0, 64)}, %d0, %d1, %p1, {tail};",
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
    ]
    return "\n".join(lines) + "\n"


def _functions() -> Iterator[Probe]:
    single = [f"{op}.approx{f}.f32" for op in ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos")
              for f in ("", ".ftz")]  # fmt: skip
    for opcode in [*single, "tanh.approx.f32", "ex2.approx.f16x2", "tanh.approx.f16x2",
                   "ex2.approx.ftz.bf16x2", "tanh.approx.bf16x2"]:  # fmt: skip
        yield _function(opcode, f"{opcode} %y0, %x0;\n", 1, 1)
    for opcode in ("div.approx.f32", "div.approx.ftz.f32", "div.full.f32", "div.full.ftz.f32"):
        yield _function(opcode, f"{opcode} %y0, %x0, %x1;\n", 2, 1)
    for opcode in ("rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"):
        body = (
            ".reg .f64 %f<2>;\nmov.b64 %f0, {%x0, %x1};\n"
            f"{opcode} %f1, %f0;\nmov.b64 {{%y0, %y1}}, %f1;\n"
        )
        yield _function(opcode, body, 2, 2)


def _function(opcode: str, body: str, in_words: int, out_words: int) -> Probe:
    return Probe(
        name=opcode, kind="function", opcode=opcode, body=body, in_words=in_words,
        out_words=out_words, threads=128, blocks=POINTS // 128,
    )  # fmt: skip


def _atomics() -> Iterator[Probe]:
    """One atomic a thread on an address of its own: rounding, flushing and NaN, not order."""
    for opcode in ("add.f32", "add.noftz.f16x2", "add.noftz.bf16x2"):
        yield _function(
            f"atom.global.{opcode}",
            f"st.global.b32 [%at1], %x0;\natom.global.{opcode} %t8, [%at1], %x1;\n"
            "ld.volatile.global.b32 %y0, [%at1];\n",
            2,
            1,
        )
        shared = (
            ".shared .b32 cell[128];\nmov.u32 %t4, cell;\nmad.lo.u32 %t4, %t0, 4, %t4;\n"
            f"st.shared.b32 [%t4], %x0;\natom.shared.{opcode} %t8, [%t4], %x1;\n"
            "ld.volatile.shared.b32 %y0, [%t4];\n"
        )
        yield _function(f"atom.shared.{opcode}", shared, 2, 1)


def probes() -> list[Probe]:
    """Return every probe, always in the same order."""
    return [*_matrix(), *_groups(), *_layouts(), *_functions(), *_atomics()]


def inputs(probe: Probe) -> NDArray[np.uint32]:
    """Return uint32[blocks * threads, in_words]: made from the probe's name.

    Matrix probes get four kinds of block in turn: values near one, wide exponents, many zeros and
    subnormals, and now and then an infinity or a NaN. Function probes get raw bits and values in
    the range where the function is used.
    """
    count = probe.blocks * probe.threads * probe.in_words
    raw = mix(zlib.crc32(probe.name.encode()), 2 * count)
    bits = (raw[:count] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    pick = (raw[count:] >> np.uint64(11)).astype(np.int64)
    shape = (probe.blocks, probe.threads * probe.in_words)
    bits, pick = bits.reshape(shape), pick.reshape(shape)
    if probe.kind == "layout":  # small integers as bf16: two to a word
        codes = _SMALL_INTEGERS[(bits & np.uint32(15)).astype(np.int64)]
        codes |= _SMALL_INTEGERS[(bits >> np.uint32(28)).astype(np.int64)] << np.uint32(16)
        return codes.reshape(-1, probe.in_words)
    if probe.kind == "function":
        return _function_inputs(probe, bits, pick).reshape(-1, probe.in_words)
    if "s8" in probe.name:
        return bits.reshape(-1, probe.in_words)
    return _matrix_inputs(probe, bits, pick)


# -8 to 7 as bf16
_SMALL_INTEGERS = np.arange(-8, 8, dtype=np.float32).view(np.uint32) >> np.uint32(16)


def _function_inputs(
    probe: Probe, bits: NDArray[np.uint32], pick: NDArray[np.int64]
) -> NDArray[np.uint32]:
    if "16x2" in probe.name and probe.in_words == 1:  # every code once, in the low half
        every = np.arange(bits.size, dtype=np.uint32).reshape(bits.shape)
        return every | (every << np.uint32(16))
    moderate = (bits & np.uint32(0x807FFFFF)) | (
        np.uint32(0x3A000000) + ((bits >> np.uint32(5)) & np.uint32(0x07800000))
    )
    return np.where(pick % 4 == 0, bits, moderate).astype(np.uint32)


def _matrix_inputs(
    probe: Probe, bits: NDArray[np.uint32], pick: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Factor words hold one, two or four codes; accumulators (the last words) are f32 or f16x2."""
    factor = "tf32" if "tf32" in probe.name else "f64" if "f64" in probe.name else (
        "e4m3" if "e4m3" in probe.name else "e5m2" if "e5m2" in probe.name else
        "bf16" if "bf16" in probe.name else "f16"
    )  # fmt: skip
    words = bits.reshape(-1, probe.in_words)
    choice = pick.reshape(-1, probe.in_words)
    block = np.repeat(np.arange(probe.blocks) % 4, probe.threads)[:, None]
    factors = _codes(factor, words, choice, block)
    kind = "f64" if factor == "f64" else "f16" if f".f16.{factor}" in probe.name else "f32"
    sums = _codes(kind, words, choice, block)
    first = probe.in_words - (4 if factor == "f64" else probe.out_words)
    return np.where(np.arange(probe.in_words) < first, factors, sums).astype(np.uint32)


# format -> (codes a word, mantissa bits, exponent bits, sign and mantissa mask of one code)
_LAYOUT = {
    "f16": (2, 10, 5), "bf16": (2, 7, 8), "tf32": (1, 23, 8), "f32": (1, 23, 8),
    "e4m3": (4, 3, 4), "e5m2": (4, 2, 5), "f64": (1, 20, 11),
}  # fmt: skip


def _codes(
    kind: str, words: NDArray[np.uint32], choice: NDArray[np.int64], block: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Return words of codes by block kind: 0 narrow, 1 wide, 2 zeros and subnormals, 3 special."""
    per_word, mantissa, exponent = _LAYOUT[kind]
    width = 1 + mantissa + exponent if kind != "f64" else 32
    bias = (1 << (exponent - 1)) - 1
    result = np.zeros_like(words)
    for lane in range(per_word):
        code = (words >> np.uint32(lane * width)).astype(np.int64) & ((1 << width) - 1)
        draw = (choice >> (6 * lane)) & 63
        sign_and_mantissa = code & ((1 << (width - 1)) | ((1 << mantissa) - 1))
        spread = np.where(block == 1, min(bias, 16), 2)
        field = bias - spread + (code >> mantissa) % (2 * spread)
        made = sign_and_mantissa | (np.clip(field, 0, (1 << exponent) - 2) << mantissa)
        made = np.where((block == 2) & (draw < 24), 0, made)
        made = np.where((block == 2) & (draw >= 24) & (draw < 40), sign_and_mantissa, made)
        top = ((1 << exponent) - 1) << mantissa
        if kind != "f64":
            made = np.where((block == 3) & (draw == 0), top, made)
            made = np.where((block == 3) & (draw == 1), code, made)
        result |= (made << (lane * width)).astype(np.uint32)
    return result
