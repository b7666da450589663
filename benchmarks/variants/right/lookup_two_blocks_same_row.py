import torch
import triton
import triton.language as tl


@triton.jit
def _rows(Ids, Table, Y, tokens, dim, B: tl.constexpr):
    token = tl.minimum(tl.program_id(0), tokens - 1).to(tl.int64)
    row = tl.load(Ids + token)
    for first in range(0, dim, B):
        at = first + tl.arange(0, B)
        x = tl.load(Table + row * dim + at, mask=at < dim)
        tl.store(Y + token * dim + at, x * 2.0, mask=at < dim)


def run(ids, table):
    ids, table = ids.contiguous(), table.contiguous()
    y = torch.empty(len(ids), table.shape[1], device=table.device)
    _rows[(len(ids) + 1,)](ids, table, y, len(ids), table.shape[1], B=64)
    return y
