import torch
import triton
import triton.language as tl


@triton.jit
def _att(Q, K, V, O, L, scale, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    start = tl.program_id(0) * BM
    base = tl.program_id(1) * L * D
    rm = start + tl.arange(0, BM)
    rd = tl.arange(0, DP)
    q = tl.load(Q + base + rm[:, None] * D + rd[None, :], mask=(rm[:, None] < L) & (rd[None, :] < D), other=0.0)
    m = tl.full([BM], float("-inf"), dtype=tl.float32)
    l = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, DP], dtype=tl.float32)
    for s0 in range(0, tl.minimum(start + BM, L), BN):
        rn = s0 + tl.arange(0, BN)
        inside = (rn[:, None] < L) & (rd[None, :] < D)
        k = tl.load(K + base + rn[:, None] * D + rd[None, :], mask=inside, other=0.0)
        v = tl.load(V + base + rn[:, None] * D + rd[None, :], mask=inside, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where((rn[None, :] <= rm[:, None]) & (rn[None, :] < L), s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - top[:, None])
        a = tl.exp(m - top)
        l = l * a + tl.sum(p, 1)
        acc = acc * a[:, None] + tl.dot(p, v, input_precision="ieee")
        m = top
    tl.store(O + base + rm[:, None] * D + rd[None, :], acc / l[:, None], mask=(rm[:, None] < L) & (rd[None, :] < D))


def attention(q, k, v):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    H, L, D = q.shape
    o = torch.empty_like(q)
    DP = max(16, triton.next_power_of_2(D))
    _att[(triton.cdiv(L, 16), H)](q, k, v, o, L, D**-0.5, D=D, DP=DP, BM=16, BN=16)
    return o
