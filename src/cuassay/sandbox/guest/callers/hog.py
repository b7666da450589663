"""Work that fills a GPU beside the candidate: blocks that keep multiprocessors, copies that keep
the memory busy. Home-made grid barriers and unguarded reads of other blocks' data then meet
the schedules that production has and an idle GPU has not."""

from __future__ import annotations

import ctypes
from functools import cache

import torch

from cuassay.build.cuda.driver import load_driver
from cuassay.build.cuda.nvrtc import compile_cubin
from cuassay.build.cuda.toolkit import architecture
from cuassay.model.device import CUDA
from cuassay.model.steps import Load
from cuassay.sandbox.guest.callers.streams import on_stream

_FREE = 8  # multiprocessors left to the candidate
_SHARED = 200 * 1024  # bytes a block: no second block fits beside it
_COPY_BYTES = 1 << 28
_COPIES_PER_MS = 6  # 2 x 256 MiB read and written at some 4 TB/s take 0.13 ms
_SOURCE = """
extern "C" __global__ void cuassay_hog(long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        __nanosleep(1000);
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - start < (unsigned long long)nanoseconds);
}
"""


def start_load(load: Load, milliseconds: float) -> None:
    """Put a load of about `milliseconds` on a stream of its own; returns at once."""
    match load:
        case Load.NONE | Load.DELAYS:
            return
        case Load.BANDWIDTH:
            source, target = _buffers()
            with on_stream("bandwidth hog"):
                for _ in range(max(1, int(milliseconds * _COPIES_PER_MS))):
                    target.copy_(source)
        case Load.MULTIPROCESSORS:
            blocks = torch.cuda.get_device_properties(0).multi_processor_count - _FREE
            function = _kernel()
            with on_stream("multiprocessor hog"):
                load_driver(torch.cuda.current_device()).launch(
                    function,
                    (max(blocks, 1), 1, 1),
                    (32, 1, 1),
                    shared_bytes=_SHARED,
                    stream=torch.cuda.current_stream().cuda_stream,
                    arguments=[ctypes.c_int64(int(milliseconds * 1e6))],
                )


@cache
def _buffers() -> tuple[torch.Tensor, torch.Tensor]:
    made = [torch.zeros(_COPY_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2)]
    torch.cuda.synchronize()
    return made[0], made[1]


@cache
def _kernel() -> int:
    cubin = compile_cubin(_SOURCE, arch=architecture(CUDA))
    return load_driver(torch.cuda.current_device()).function(cubin, "cuassay_hog")
