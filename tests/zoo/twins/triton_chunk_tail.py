"""Linear attention with gates in chunks of 16 tokens; the last chunk may be short."""

import torch
import triton
import triton.language as tl


@triton.jit
def _chunks(
    Q, K, V, G, S, Out, F, tokens, key, value,
    C: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)
    row, ck, cv = tl.arange(0, C), tl.arange(0, DK), tl.arange(0, DV)
    held = head * key * value + ck[:, None] * value + cv[None, :]
    whole = (ck < key)[:, None] & (cv < value)[None, :]
    state = tl.load(S + held, mask=whole, other=0.0)
    for start in range(0, tokens, C):
        there = start + row < tokens
        token = head * tokens + start + row
        mk, mv = there[:, None] & (ck < key)[None, :], there[:, None] & (cv < value)[None, :]
        q = tl.load(Q + token[:, None] * key + ck[None, :], mask=mk, other=0.0).to(tl.float32)
        k = tl.load(K + token[:, None] * key + ck[None, :], mask=mk, other=0.0).to(tl.float32)
        v = tl.load(V + token[:, None] * value + cv[None, :], mask=mv, other=0.0).to(tl.float32)
        g = tl.load(G + token, mask=there, other=0.0)
        reach = tl.cumsum(g, axis=0)
        last = tl.sum(g, axis=0)
        causal = row[:, None] >= row[None, :]
        decay = tl.exp(tl.where(causal, reach[:, None] - reach[None, :], float("-inf")))
        scores = tl.sum(q[:, None, :] * k[None, :, :], axis=2) * decay
        out = tl.sum(scores[:, :, None] * v[None, :, :], axis=1)
        out += tl.exp(reach)[:, None] * tl.sum(q[:, :, None] * state[None, :, :], axis=1)
        at = Out + token[:, None] * value + cv[None, :]
        tl.store(at, out.to(Out.dtype.element_ty), mask=mv)
        kept = k * tl.exp(last - reach)[:, None]
        state = tl.exp(last) * state + tl.sum(kept[:, :, None] * v[:, None, :], axis=0)
    tl.store(F + held, state, mask=whole)


def run(q, k, v, log_decay, state):
    q, k, v, log_decay, state = (x.contiguous() for x in (q, k, v, log_decay, state))
    out, after = torch.empty_like(v), torch.empty_like(state)
    batch, heads, tokens, key = q.shape
    value = v.shape[-1]
    # Triton makes tensor cores' products of such sums. They take 8 terms and more: of 4 it repeats
    # each, and the sum is twice as large.
    widths = {"DK": max(8, triton.next_power_of_2(key)), "DV": triton.next_power_of_2(value)}
    given = (q, k, v, log_decay, state, out, after)
    _chunks[(batch * heads,)](*given, tokens, key, value, C=16, **widths)
    return out, after
