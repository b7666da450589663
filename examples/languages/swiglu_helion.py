"""silu(gate) * up in Helion: `cuassay check swiglu_helion.py --problem swiglu`."""

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[1024]), static_shapes=False)
def _swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(gate)
    for tile in hl.tile(gate.size(0)):
        g = gate[tile].to(torch.float32)
        out[tile] = (g * torch.sigmoid(g) * up[tile].to(torch.float32)).to(torch.bfloat16)
    return out


def swiglu(gate, up):
    return _swiglu(gate.reshape(-1), up.reshape(-1)).view(gate.shape)
