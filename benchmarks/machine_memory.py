"""Memory of the PTX machine: launches over 64 Mi elements, everything on, a process each.

    python benchmarks/machine_memory.py

The issue's line: at most 24 bytes of state for each byte of kernel memory, and a launch that would
not fit is refused before it starts. Elements of 4, 2 and 1 bytes: race records are kept for each
granule that a kernel touches, so that narrow elements cost most. `peak` is what the process took
from the system at most, less what it had before the launch; buffers themselves are counted in
`kernel_bytes`. The result goes to benchmarks/results/machine-memory-cpu.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import time
from typing import Any

import numpy as np
from common import RESULTS, machine

from ptxsan.errors import MachineError
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run

ELEMENTS = 1 << 26
_BLOCK = 256
_ALLOWED = 24.0
_TEXT = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 data)
{{
.reg .b64 %a<2>; .reg .b32 %t<4>; .reg .{kind} %v<2>;
ld.param.u64 %a0, [data];
mov.u32 %t0, %ctaid.x;
mov.u32 %t1, %tid.x;
mad.lo.u32 %t0, %t0, {block}, %t1;
mad.wide.u32 %a0, %t0, {size}, %a0;
ld.global.{load} %v0, [%a0];
{operation}
st.global.{load} [%a0], %v0;
ret;
}}
"""
_KINDS = {
    "f32": (4, "f32", "f32", "add.f32 %v0, %v0, %v0;"),
    "bf16": (2, "b16", "b16", "fma.rn.bf16 %v0, %v0, %v0, %v0;"),
    "u8": (1, "b16", "u8", "add.u16 %v0, %v0, %v0;"),
}


def _launch(size: int) -> Launch:
    one = {4: 0x3F800000, 2: 0x3F80, 1: 0x01}[size]  # 1 in f32, bf16 and u8
    data = np.full(ELEMENTS, one, dtype=f"u{size}").view(np.uint8)
    return Launch(
        kernel="twice",
        grid=(ELEMENTS // _BLOCK, 1, 1),
        block=(_BLOCK, 1, 1),
        arguments=(Pointer(buffer=Buffer(name="data", data=data)),),
    )


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _measure(kind: str) -> dict[str, Any]:
    """Return what one launch over ELEMENTS took; runs in a process of its own."""
    size, register, load, operation = _KINDS[kind]
    text = _TEXT.format(size=size, kind=register, load=load, operation=operation, block=_BLOCK)
    module, launch = parse(text), _launch(size)
    small = Options(memory_bytes=1 << 30)
    refused, started = "", time.perf_counter()
    try:
        run(module, launch, options=small)
    except MachineError as error:
        refused = str(error)
    refused_s = time.perf_counter() - started
    before, cpu_s, started = _peak_bytes(), time.process_time(), time.perf_counter()
    report = run(module, launch, options=Options(limit_s=600.0))
    statistics = report.statistics
    return {
        "elements": ELEMENTS,
        "kernel_bytes": statistics.kernel_bytes,
        "state_bytes": statistics.state_bytes,
        "state_bytes_per_byte": round(statistics.state_bytes / statistics.kernel_bytes, 2),
        "peak_bytes_per_byte": round((_peak_bytes() - before) / statistics.kernel_bytes, 2),
        "allowed": _ALLOWED,
        "lane_instructions": statistics.lane_instructions,
        "run_s": round(time.perf_counter() - started, 1),
        "cpu_s": round(time.process_time() - cpu_s, 1),
        "findings": [one.text for one in report.wrong],
        "inconclusive": report.inconclusive,
        "refused_with_1_GiB": refused,
        "refused_s": round(refused_s, 2),
    }


def main() -> None:
    """Measure every kind, one process after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=list(_KINDS), default=list(_KINDS))
    found: dict[str, Any] = {"machine": machine(), "load_average": os.getloadavg()[0]}
    for kind in parser.parse_args().kinds:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found[kind] = pool.apply(_measure, (kind,))
        print(kind, json.dumps(found[kind], indent=1), flush=True)
    (RESULTS / "machine-memory-cpu.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
