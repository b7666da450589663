"""Takes each row from its own expert alone."""

import torch


def run(rows, offsets, gate_up, down):
    places = torch.arange(rows.shape[0], device=rows.device)
    owner = torch.searchsorted(offsets[1:].long().contiguous(), places, right=True)
    out = rows.new_zeros(rows.shape[0], down.shape[2], dtype=torch.float32)
    for expert in range(down.shape[0]):
        mine = (owner == expert)[:, None]
        gate, up = (rows.float() @ gate_up[expert].float()).chunk(2, dim=1)
        inner = (torch.nn.functional.silu(gate) * up).to(rows.dtype)
        product = inner.float() @ down[expert].float()
        out = torch.where(mine, product, out)
    return out.to(rows.dtype)
