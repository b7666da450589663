"""Decoding over pages: each page is loaded where the sequence has one."""

import torch
import triton
import triton.language as tl


@triton.jit
def _decode(
    Q, K, V, Table, Lengths, Out, slots, dim, kv_heads, group, scale,
    D: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    batch, head = tl.program_id(0), tl.program_id(1)
    column, row = tl.arange(0, D), tl.arange(0, P)
    inside = column < dim
    length = tl.load(Lengths + batch)
    query = (batch * kv_heads * group + head) * dim + column
    q = tl.load(Q + query, mask=inside, other=0.0).to(tl.float32)
    top, total = float("-inf"), 0.0
    out = tl.zeros((D,), tl.float32)
    for slot in range(tl.cdiv(length, P)):
        page = tl.load(Table + batch * slots + slot).to(tl.int64)
        seen = slot * P + row < length
        at = ((page * P + row[:, None]) * kv_heads + head // group) * dim + column[None, :]
        kept = seen[:, None] & inside[None, :]
        k = tl.load(K + at, mask=kept, other=0.0).to(tl.float32)
        v = tl.load(V + at, mask=kept, other=0.0).to(tl.float32)
        s = tl.where(seen, tl.sum(k * q[None, :], axis=1) * scale, float("-inf"))
        now = tl.maximum(top, tl.max(s, axis=0))
        p = tl.exp(s - now)
        old = tl.exp(top - now)
        total = total * old + tl.sum(p, axis=0)
        out = out * old + tl.sum(p[:, None] * v, axis=0)
        top = now
    out = tl.where(length > 0, out / tl.where(length > 0, total, 1.0), 0.0)
    tl.store(Out + query, out.to(Out.dtype.element_ty), mask=inside)


def run(q, k_cache, v_cache, page_table, lengths, scale):
    q, k_cache, v_cache, page_table, lengths = (
        x.contiguous() for x in (q, k_cache, v_cache, page_table, lengths)
    )
    out = torch.empty_like(q)
    batch, heads, dim = q.shape
    kv_heads = k_cache.shape[2]
    width = triton.next_power_of_2(dim)
    sizes = (page_table.shape[1], dim, kv_heads, heads // kv_heads, scale)
    _decode[batch, heads](q, k_cache, v_cache, page_table, lengths, out, *sizes, D=width, P=16)
    return out
