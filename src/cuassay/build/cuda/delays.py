"""Random pauses in PTX: other schedules of the same kernel, all of them legal.

Before memory operations and barriers a warp sleeps now and then, so that warps and blocks meet
in orders that an idle GPU never shows. A correct kernel cannot notice. A whole warp decides
alike: lanes stay together, as instructions for whole warps demand. Reference: PTX ISA,
`nanosleep` (sm_70 and above) and the special registers %clock, %warpid and %ctaid.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from cuassay.build.cuda.ptx_text import instructions

_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)
_OLDEST = 70
# One visit in `often` sleeps for up to `longest` nanoseconds: 64 ns a visit in all of them.
_RHYTHMS = ((4, 512), (16, 2048), (64, 8192), (256, 32768))
_SHARES = (0.25, 0.5, 1.0)  # of the places, drawn anew for every variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """A module with pauses: its text, and how many places of which kernels have one."""

    ptx: str
    places: int
    kernels: tuple[str, ...]


def delayed(ptx: str, seed: int) -> Delayed:
    """Return the module with random pauses; `seed` draws where, how often and how long.

    Unchanged, with 0 places, where the module is for a GPU older than sm_70 or has no
    instruction that other threads could see.
    """
    target = _TARGET.search(ptx)
    if target is None or int(target[1]) < _OLDEST:
        return Delayed(ptx=ptx, places=0, kernels=())
    draw = random.Random(seed)
    often, longest = draw.choice(_RHYTHMS)
    share, moody = draw.choice(_SHARES), draw.random() < 0.5
    pieces: list[str] = []
    kernels: dict[str, None] = {}
    end = 0
    sites = [found for found in instructions(ptx) if found.touches_shared_state]
    chosen = [site for site in sites if draw.random() < share] or sites
    for site in chosen:
        # A block that lets a warp sleep with chance 1/`often`, up to `longest` ns. With `moody` the
        # clock takes part in the draw; without it the same warps sleep at the same place every
        # time. The mixing is that of a multiply-and-xor-shift hash (splitmix).
        salt = draw.getrandbits(32)
        entropy = "mov.u32 %cuassay_h, %clock;" if moody else "mov.u32 %cuassay_h, 0;"
        shift = 32 - longest.bit_length() + 1
        pause = f"""{{
.reg .pred %cuassay_p;
.reg .b32 %cuassay_h, %cuassay_w;
{entropy}
mov.u32 %cuassay_w, %warpid;
mad.lo.u32 %cuassay_h, %cuassay_w, 0x9E3779B1, %cuassay_h;
mov.u32 %cuassay_w, %ctaid.x;
mad.lo.u32 %cuassay_h, %cuassay_w, 0x85EBCA77, %cuassay_h;
xor.b32 %cuassay_h, %cuassay_h, {salt:#010x};
mul.lo.u32 %cuassay_h, %cuassay_h, 0xC2B2AE3D;
shr.u32 %cuassay_w, %cuassay_h, 15;
xor.b32 %cuassay_h, %cuassay_h, %cuassay_w;
mul.lo.u32 %cuassay_h, %cuassay_h, 0x27D4EB2F;
setp.lo.u32 %cuassay_p, %cuassay_h, {(1 << 32) // often:#010x};
mul.lo.u32 %cuassay_w, %cuassay_h, 0x165667B1;
shr.u32 %cuassay_w, %cuassay_w, {shift};
@%cuassay_p nanosleep.u32 %cuassay_w;
}}
"""
        pieces += [ptx[end : site.start], pause]
        end = site.start
        kernels[site.kernel] = None
    pieces.append(ptx[end:])
    return Delayed(ptx="".join(pieces), places=len(chosen), kernels=tuple(filter(None, kernels)))
