"""Flash decoding: splits of the pages, merged at the end, the short last one too."""

import torch
import triton
import triton.language as tl

SPLIT = 4  # pages


@triton.jit
def _parts(
    Q, K, V, Table, Lengths, Tops, Totals, Outs, slots, dim, kv_heads, group, splits, scale,
    D: tl.constexpr, P: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    batch, head, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    heads = kv_heads * group
    column, row = tl.arange(0, D), tl.arange(0, P)
    inside = column < dim
    length = tl.load(Lengths + batch)
    q = tl.load(Q + (batch * heads + head) * dim + column, mask=inside, other=0.0).to(tl.float32)
    top, total = -1e30, 0.0
    out = tl.zeros((D,), tl.float32)
    for slot in range(split * S, tl.minimum(split * S + S, tl.cdiv(length, P))):
        page = tl.load(Table + batch * slots + slot).to(tl.int64)
        seen = slot * P + row < length
        at = ((page * P + row[:, None]) * kv_heads + head // group) * dim + column[None, :]
        kept = seen[:, None] & inside[None, :]
        k = tl.load(K + at, mask=kept, other=0.0).to(tl.float32)
        v = tl.load(V + at, mask=kept, other=0.0).to(tl.float32)
        s = tl.where(seen, tl.sum(k * q[None, :], axis=1) * scale, -1e30)
        now = tl.maximum(top, tl.max(s, axis=0))
        p = tl.where(seen, tl.exp(s - now), 0.0)
        old = tl.exp(top - now)
        total = total * old + tl.sum(p, axis=0)
        out = out * old + tl.sum(p[:, None] * v, axis=0)
        top = now
    place = (batch * heads + head) * splits + split
    tl.store(Tops + place, top)
    tl.store(Totals + place, total)
    tl.store(Outs + place * dim + column, out, mask=inside)


@triton.jit
def _merge(Tops, Totals, Outs, Out, dim, splits, count, D: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, D)
    inside = column < dim
    top, total = -1e30, 0.0
    out = tl.zeros((D,), tl.float32)
    for split in range(count):
        place = row * splits + split
        other = tl.load(Tops + place)
        part = tl.load(Outs + place * dim + column, mask=inside, other=0.0)
        now = tl.maximum(top, other)
        old, new = tl.exp(top - now), tl.exp(other - now)
        total = total * old + tl.load(Totals + place) * new
        out = out * old + part * new
        top = now
    out = out / tl.where(total > 0, total, 1.0)
    tl.store(Out + row * dim + column, out.to(Out.dtype.element_ty), mask=inside)


def run(q, k_cache, v_cache, page_table, lengths, scale):
    q, k_cache, v_cache, page_table, lengths = (
        x.contiguous() for x in (q, k_cache, v_cache, page_table, lengths)
    )
    out = torch.empty_like(q)
    batch, heads, dim = q.shape
    slots, kv_heads = page_table.shape[1], k_cache.shape[2]
    splits = triton.cdiv(slots, SPLIT)
    made = {"dtype": torch.float32, "device": q.device}
    tops, totals = (torch.empty(batch, heads, splits, **made) for _ in range(2))
    outs = torch.empty(batch, heads, splits, dim, **made)
    width = triton.next_power_of_2(dim)
    sizes = (slots, dim, kv_heads, heads // kv_heads, splits, scale)
    given = (q, k_cache, v_cache, page_table, lengths, tops, totals, outs)
    _parts[batch, heads, splits](*given, *sizes, D=width, P=16, S=SPLIT)
    count = splits
    _merge[(batch * heads,)](tops, totals, outs, out, dim, splits, count, D=width)
    return out
