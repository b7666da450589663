"""What CUDA loads while Python imports the rest of a judge: libraries, and the kernels of truths.

CUDA loads a kernel when it is launched first: half a second of a trial's first truth is that. Torch
lets other threads go on meanwhile. What is launched here are the operations that truths and
comparisons are made of, on small numbers; nothing is imported, and no generator moves but one of
its own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import torch
from torch import Tensor

from cuassay.model.device import Device

_SIZE = 64
_PRODUCTS = (torch.float64, torch.float32, torch.bfloat16)
_ON_NUMBERS: tuple[Callable[[Tensor, Tensor], object], ...] = (
    lambda x, y: (x + y, x - y, x * y, x / y, x + 1.0, x * 2.0, x / 2.0),
    lambda x, y: (y.sqrt(), y.rsqrt(), y.reciprocal(), x.square(), x.pow(2), x.abs(), x.neg()),
    lambda x, y: (y.log(), x.exp(), y.exp2(), x.floor(), x.round(), x.remainder(2.0)),
    lambda x, y: (x.clamp_min(0.0), x.clamp_max(1.0), x.clamp(0.0, 1.0), x.nan_to_num(0.0)),
    lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), torch.addcmul(x, x, y)),
    lambda x, y: (x > y, x < y, x >= y, x <= y, x == y, x != y, x > 0.0, x != 0.0),
    lambda x, y: ((x > y) & (x < y), (x > y) | (x < y), ~(x > y), x.isfinite(), x.isnan()),
    lambda x, y: (torch.where(x > y, x, 0.0), torch.where(x > y, x, y), x.masked_fill(x > y, 0.0)),
    lambda x, y: (x.sum(), x.sum(0), x.sum(1), x.mean(), x.mean(0), x.mean(1)),
    lambda x, y: (x.amax(), x.amax(0), x.amax(1), x.amin(), x.aminmax(), x.max(), x.argmax()),
    lambda x, y: (torch.linalg.vector_norm(x), (x > y).any(), (x > y).all(), (x > y).any(1)),
    lambda x, y: (torch.cat((x, y)), torch.stack((x, y)), x.t().contiguous(), x.clone()),
    lambda x, y: (torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 2.0)),
    lambda x, y: x[torch.arange(_SIZE, device=x.device)],
    lambda x, y: (x.double(), x.float(), x.bfloat16(), x.half(), x.to(torch.int64)),
    lambda x, y: (x.bfloat16().double(), x.half().double(), x.bfloat16().float()),
    lambda x, y: torch.equal(x.view(torch.uint8), y.view(torch.uint8)),
)


def begin_warm_up(device: Device) -> threading.Thread | None:
    """Let a thread load what a trial on `device` launches; return it, None for a CPU.

    What fails here is told by whatever needs the device first.
    """

    def load() -> None:
        with contextlib.suppress(Exception):
            for dtype in _PRODUCTS:  # the library of products
                one = torch.ones(16, 16, device=device, dtype=dtype)
                one.mm(one).sum()
            generator = torch.Generator(device)
            for dtype in (torch.float64, torch.float32):
                shape = (_SIZE, _SIZE)
                x = torch.randn(shape, generator=generator, device=device, dtype=dtype)
                y = torch.rand(shape, generator=generator, device=device, dtype=dtype) + 1.0
                for use in _ON_NUMBERS:
                    with contextlib.suppress(Exception):
                        use(x, y)
            torch.cuda.synchronize()

    if not device.on_gpu:
        return None
    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    return thread
