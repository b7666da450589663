import torch
import triton
import triton.language as tl


@triton.jit
def _adam(P, G, M, V, PO, MO, VO, lr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    k = i < n
    g = tl.load(G + i, mask=k, other=0.0)
    m = 0.9 * tl.load(M + i, mask=k, other=0.0) + 0.1 * g
    v = 0.999 * tl.load(V + i, mask=k, other=0.0) + 0.001 * g * g
    p = tl.load(P + i, mask=k, other=0.0)
    tl.store(PO + i, p - lr * m / (tl.sqrt(v) + 1e-8), mask=k)
    tl.store(MO + i, m, mask=k)
    tl.store(VO + i, v, mask=k)


def adam_step(p, g, m, v, lr):
    p, g, m, v = (t.contiguous() for t in (p, g, m, v))
    po, mo, vo = torch.empty_like(p), torch.empty_like(m), torch.empty_like(v)
    _adam[(triton.cdiv(p.numel(), 512),)](p, g, m, v, po, mo, vo, lr, p.numel(), B=512)
    return po, mo, vo
