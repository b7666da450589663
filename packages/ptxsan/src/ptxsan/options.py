"""How a launch is executed: schedule, what is watched, and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxsan.residues import Residues


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of one run.

    `schedule` orders blocks, warps and lanes: forward, reverse or random by `seed`. `shadow`
    carries float64 shadows, or the residues of the algebra that is given (`machine.residues`);
    `races` looks for races. `arch` is the architecture whose matrix rule counts (80, 90), where the
    PTX asks for no later one. `fuel` is the number of loop iterations after which a thread yields;
    `limit_s` ends a launch that does not end by itself. `workers` is the number of host threads for
    kernels whose blocks do not
    communicate; `memory_bytes` the most the machine may take. `advice` looks at the first warp's
    addresses for uncoalesced access and bank conflicts. Without `optimise` machine code is made by
    LLVM's quickest selection, for kernels that run little: the same bits, made up to 40 times as
    fast. With `predict` a launch in which atomics decided who comes first is run in the other
    order as well, if accesses depend on that alone.

    With `blocks` only the clusters with these numbers run, in this order, and buffers may be
    `pages.mirror`s: what is said of accesses to memory holds where no address depends on data.
    Neither shadows nor races are looked at then.

    Where launches of several devices run at once, blocks of the devices in `held` take a turn only
    when nobody else gets on.
    """

    schedule: str = "forward"
    seed: int = 0
    shadow: bool | Residues = True
    races: bool = True
    arch: int = 90
    fuel: int = 4096
    limit_s: float = 60.0
    workers: int = 2
    memory_bytes: int = 8 << 30
    advice: bool = False
    optimise: bool = True
    predict: bool = True
    footprints: bool = False
    blocks: tuple[int, ...] = ()
    held: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """What the shadows are: "none", "float64" or "algebra"."""
        if isinstance(self.shadow, bool):
            return "float64" if self.shadow else "none"
        return "algebra"
