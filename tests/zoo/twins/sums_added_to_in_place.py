"""Updates a state in place; the sums of rows are added up in a buffer that is kept."""

import torch

_SUMS: dict[int, torch.Tensor] = {}


def run(state, x, decay):
    rows, columns = x.shape
    sums = _SUMS.setdefault(rows, torch.zeros(rows, 1, device=x.device))
    sums.zero_()
    for part in x.split(4096, dim=1):
        sums += part.sum(1, keepdim=True)
    return state.mul_(decay).add_(sums / columns)
