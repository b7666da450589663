"""Triton kernels with plain wrappers, as users write them: the corpus that runs through Triton.

Untyped on purpose where Triton is: a kernel's parameters are what Triton makes of them. Each
wrapper takes torch tensors and returns torch tensors; `triton_corpus` says what they compute.
"""
# mypy: ignore-errors

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x, y, z, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + o, tl.load(x + o, mask=o < n) + tl.load(y + o, mask=o < n), mask=o < n)


def add(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 256),)](x, y, z, x.numel(), BLOCK=256)
    return z


@triton.jit
def _softmax(x, y, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + o, mask=o < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * stride + o, e / tl.sum(e, 0), mask=o < n)


def softmax(x):
    y = torch.empty_like(x)
    n = x.shape[1]
    _softmax[(x.shape[0],)](x, y, x.stride(0), n, BLOCK=triton.next_power_of_2(n), num_warps=4)
    return y


@triton.jit
def _layer_norm(x, w, b, y, mean, rstd, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, BLOCK)
    keep = o < n
    v = tl.load(x + row * n + o, mask=keep, other=0.0).to(tl.float32)
    m = tl.sum(v, 0) / n
    d = tl.where(keep, v - m, 0.0)
    r = 1.0 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    scale = tl.load(w + o, mask=keep, other=0.0).to(tl.float32)
    shift = tl.load(b + o, mask=keep, other=0.0).to(tl.float32)
    tl.store(y + row * n + o, d * r * scale + shift, mask=keep)


def layer_norm(x, w, b):
    rows, n = x.shape
    y = torch.empty_like(x)
    mean = torch.empty(rows, dtype=torch.float32, device=x.device)
    rstd = torch.empty(rows, dtype=torch.float32, device=x.device)
    _layer_norm[(rows,)](x, w, b, y, mean, rstd, n, 1e-5, BLOCK=triton.next_power_of_2(n))
    return y, mean, rstd


@triton.jit
def _layer_norm_bwd(
    g, x, w, mean, rstd, dx, dw, db, lock, n, GROUP: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    o = tl.arange(0, BLOCK)
    keep = o < n
    v = tl.load(x + row * n + o, mask=keep, other=0.0).to(tl.float32)
    up = tl.load(g + row * n + o, mask=keep, other=0.0).to(tl.float32)
    scale = tl.load(w + o, mask=keep, other=0.0).to(tl.float32)
    r = tl.load(rstd + row)
    h = tl.where(keep, (v - tl.load(mean + row)) * r, 0.0)
    u = tl.where(keep, scale * up, 0.0)
    a = tl.sum(h * u, 0) / n
    c = tl.sum(u, 0) / n
    tl.store(dx + row * n + o, (u - h * a - c) * r, mask=keep)
    group = row % GROUP
    count = lock + GROUP + group
    pw = dw + group * n + o
    pb = db + group * n + o
    while tl.atomic_cas(lock + group, 0, 1) == 1:
        pass
    first = tl.atomic_add(count, 0)  # one thread reads it: a plain load races with the exchange
    part_w = up * h
    part_b = up
    if first == 0:
        tl.atomic_xchg(count, 1)
    else:
        part_w += tl.load(pw, mask=keep)
        part_b += tl.load(pb, mask=keep)
    tl.store(pw, part_w, mask=keep)
    tl.store(pb, part_b, mask=keep)
    tl.debug_barrier()
    tl.atomic_xchg(lock + group, 0)


@triton.jit
def _reduce_rows(part, out, rows, n, R: tl.constexpr, C: tl.constexpr):
    cols = tl.program_id(0) * C + tl.arange(0, C)
    acc = tl.zeros((R, C), dtype=tl.float32)
    for i in range(0, rows, R):
        r = i + tl.arange(0, R)
        keep = (r[:, None] < rows) & (cols[None, :] < n)
        acc += tl.load(part + r[:, None] * n + cols[None, :], mask=keep, other=0.0)
    tl.store(out + cols, tl.sum(acc, 0), mask=cols < n)


def layer_norm_backward(g, x, w, mean, rstd):
    rows, n = x.shape
    group = 4
    dx = torch.empty_like(x)
    dw = torch.zeros((group, n), dtype=torch.float32, device=x.device)
    db = torch.zeros((group, n), dtype=torch.float32, device=x.device)
    lock = torch.zeros(2 * group, dtype=torch.int32, device=x.device)
    block = triton.next_power_of_2(n)
    _layer_norm_bwd[(rows,)](g, x, w, mean, rstd, dx, dw, db, lock, n, GROUP=group, BLOCK=block)
    out = [torch.empty(n, dtype=torch.float32, device=x.device) for _ in range(2)]
    for part, total in zip((dw, db), out, strict=True):
        _reduce_rows[(triton.cdiv(n, 64),)](part, total, group, n, R=4, C=64)
    return dx, *out


@triton.jit
def _rms_bwd(g, x, w, dx, dw, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, BLOCK)
    keep = o < n
    v = tl.load(x + row * n + o, mask=keep, other=0.0).to(tl.float32)
    up = tl.load(g + row * n + o, mask=keep, other=0.0).to(tl.float32)
    u = up * tl.load(w + o, mask=keep, other=0.0).to(tl.float32)
    r = tl.rsqrt(tl.sum(v * v, 0) / n + eps)
    c = tl.sum(u * v, 0) / n * r * r * r
    tl.store(dx + row * n + o, r * u - c * v, mask=keep)
    tl.atomic_add(dw + o, up * v * r, mask=keep)


def rms_backward(g, x, w):
    rows, n = x.shape
    dx = torch.empty_like(x)
    dw = torch.zeros(n, dtype=torch.float32, device=x.device)
    _rms_bwd[(rows,)](g, x, w, dx, dw, n, 1e-6, BLOCK=triton.next_power_of_2(n))
    return dx, dw


@triton.autotune(
    [triton.Config({"BM": 32, "BN": 32, "BK": 32}, num_warps=4, num_stages=3),
     triton.Config({"BM": 64, "BN": 32, "BK": 32}, num_warps=4, num_stages=2)],
    key=["m", "n", "k"],
)  # fmt: skip
@triton.jit
def _matmul(a, b, c, m, n, k, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0), tl.program_id(1)
    rm = i * BM + tl.arange(0, BM)
    rn = j * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, k, BK):
        left = (rm[:, None] < m) & (k0 + rk[None, :] < k)
        right = (k0 + rk[:, None] < k) & (rn[None, :] < n)
        x = tl.load(a + rm[:, None] * sa + k0 + rk[None, :], mask=left, other=0.0)
        y = tl.load(b + (k0 + rk[:, None]) * sb + rn[None, :], mask=right, other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rm[:, None] * sc + rn[None, :], acc.to(c.dtype.element_ty),
             mask=(rm[:, None] < m) & (rn[None, :] < n))  # fmt: skip


def matmul(a, b):
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    grid = lambda meta: (triton.cdiv(m, meta["BM"]), triton.cdiv(n, meta["BN"]))  # noqa: E731
    _matmul[grid](a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0))
    return c


@triton.jit
def _attention(q, k, v, o, lse, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1) * length * D
    cols = tl.arange(0, D)
    x = tl.load(
        q + head + rows[:, None] * D + cols[None, :], mask=rows[:, None] < length, other=0.0
    )
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        keys = start + tl.arange(0, BN)
        keep = keys[:, None] < length
        y = tl.load(k + head + keys[:, None] * D + cols[None, :], mask=keep, other=0.0)
        s = tl.dot(x, tl.trans(y)) * scale
        s = tl.where((keys[None, :] <= rows[:, None]) & (keys[None, :] < length), s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        shrink = tl.exp(top - new)
        total = total * shrink + tl.sum(p, 1)
        z = tl.load(v + head + keys[:, None] * D + cols[None, :], mask=keep, other=0.0)
        acc = acc * shrink[:, None] + tl.dot(p.to(z.dtype), z)
        top = new
    tl.store(o + head + rows[:, None] * D + cols[None, :], acc / total[:, None],
             mask=rows[:, None] < length)  # fmt: skip
    tl.store(lse + tl.program_id(1) * length + rows, top + tl.log(total), mask=rows < length)


def attention(q, k, v):
    heads, length, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((heads, length), dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(length, 32), heads)
    _attention[grid](q, k, v, o, lse, length, d**-0.5, D=d, BM=32, BN=32)
    return o, lse


@triton.jit
def _attention_bwd(q, k, v, g, o, lse, dq, dk, dv, length, scale,
                   D: tl.constexpr, B: tl.constexpr):  # fmt: skip
    keys = tl.program_id(0) * B + tl.arange(0, B)
    head = tl.program_id(1) * length
    cols = tl.arange(0, D)
    here = head * D + keys[:, None] * D + cols[None, :]
    keep = keys[:, None] < length
    kk = tl.load(k + here, mask=keep, other=0.0)
    vv = tl.load(v + here, mask=keep, other=0.0)
    ak = tl.zeros((B, D), tl.float32)
    av = tl.zeros((B, D), tl.float32)
    for start in range(0, length, B):
        rows = start + tl.arange(0, B)
        there = head * D + rows[:, None] * D + cols[None, :]
        inside = rows[:, None] < length
        x = tl.load(q + there, mask=inside, other=0.0)
        up = tl.load(g + there, mask=inside, other=0.0)
        out = tl.load(o + there, mask=inside, other=0.0)
        big = tl.load(lse + head + rows, mask=rows < length, other=0.0)
        s = tl.dot(x, tl.trans(kk)) * scale
        legal = (keys[None, :] <= rows[:, None]) & (rows[:, None] < length)
        p = tl.where(legal, tl.exp(s - big[:, None]), 0.0)
        av += tl.dot(tl.trans(p.to(up.dtype)), up)
        dp = tl.dot(up, tl.trans(vv))
        delta = tl.sum(up.to(tl.float32) * out.to(tl.float32), 1)
        ds = p * (dp - delta[:, None]) * scale
        ak += tl.dot(tl.trans(ds.to(x.dtype)), x)
        tl.atomic_add(dq + there, tl.dot(ds.to(kk.dtype), kk), mask=inside)
    tl.store(dk + here, ak, mask=keep)
    tl.store(dv + here, av, mask=keep)


def attention_backward(q, k, v, g, o, lse):
    heads, length, d = q.shape
    dq = torch.zeros((heads, length, d), dtype=torch.float32, device=q.device)
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    grid = (triton.cdiv(length, 32), heads)
    _attention_bwd[grid](q, k, v, g, o, lse, dq, dk, dv, length, d**-0.5, D=d, B=32)
    return dq.to(q.dtype), dk, dv


@triton.jit
def _grouped(pa, pb, pc, sizes, count, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile = tl.program_id(0)
    seen = 0
    for g in range(count):
        m = tl.load(sizes + 3 * g)
        n = tl.load(sizes + 3 * g + 1)
        k = tl.load(sizes + 3 * g + 2)
        across = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * across
        while tile >= seen and tile < seen + tiles:
            a = tl.load(pa + g).to(tl.pointer_type(tl.float16))
            b = tl.load(pb + g).to(tl.pointer_type(tl.float16))
            c = tl.load(pc + g).to(tl.pointer_type(tl.float16))
            rm = (tile - seen) // across * BM + tl.arange(0, BM)
            rn = (tile - seen) % across * BN + tl.arange(0, BN)
            rk = tl.arange(0, BK)
            acc = tl.zeros((BM, BN), tl.float32)
            for k0 in range(tl.cdiv(k, BK)):
                col = k0 * BK + rk
                x = tl.load(a + rm[:, None] * k + col[None, :],
                            mask=(rm[:, None] < m) & (col[None, :] < k), other=0.0)  # fmt: skip
                y = tl.load(b + col[:, None] * n + rn[None, :],
                            mask=(col[:, None] < k) & (rn[None, :] < n), other=0.0)  # fmt: skip
                acc += tl.dot(x, y)
            tl.store(c + rm[:, None] * n + rn[None, :], acc.to(tl.float16),
                     mask=(rm[:, None] < m) & (rn[None, :] < n))  # fmt: skip
            tile += tl.num_programs(0)
        seen += tiles


def grouped_gemm(x0, w0, x1, w1):
    pairs = [(x0, w0), (x1, w1)]
    outs = [torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device) for a, b in pairs]
    table = lambda ts: torch.tensor([t.data_ptr() for t in ts], dtype=torch.int64, device="cuda")  # noqa: E731
    sizes = torch.tensor([d for a, b in pairs for d in (a.shape[0], b.shape[1], a.shape[1])],
                         dtype=torch.int32, device="cuda")  # fmt: skip
    lists = [table([a for a, _ in pairs]), table([b for _, b in pairs]), table(outs)]
    _grouped[(3,)](*lists, sizes, len(pairs), BM=32, BN=32, BK=32)
    return tuple(outs)


@triton.jit
def _cross_entropy(x, ids, loss, dx, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + o, mask=o < n, other=-float("inf")).to(tl.float32)
    top = tl.max(v, 0)
    e = tl.exp(v - top)
    z = tl.sum(e, 0)
    target = tl.load(ids + row)
    tl.store(loss + row, tl.log(z) + top - tl.load(x + row * n + target).to(tl.float32))
    tl.store(dx + row * n + o, e / z - tl.where(o == target, 1.0, 0.0), mask=o < n)


def cross_entropy(x, ids):
    loss = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    dx = torch.empty_like(x)
    n = x.shape[1]
    _cross_entropy[(x.shape[0],)](x, ids, loss, dx, n, BLOCK=triton.next_power_of_2(n))
    return loss, dx


@triton.jit
def _cumsum(x, y, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * n + tl.arange(0, BLOCK)
    keep = tl.arange(0, BLOCK) < n
    tl.store(y + o, tl.cumsum(tl.load(x + o, mask=keep, other=0.0), 0), mask=keep)


def cumsum(x):
    y = torch.empty_like(x)
    _cumsum[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


@triton.jit
def _histogram(x, bins, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + o, mask=o < n, other=0), 1, mask=o < n, sem="relaxed")


def histogram(x):
    bins = torch.zeros(32, dtype=torch.int32, device=x.device)
    _histogram[(triton.cdiv(x.numel(), 128),)](x, bins, x.numel(), BLOCK=128)
    return bins


@triton.jit
def _swiglu(a, b, y, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    u = tl.load(a + o, mask=o < n, other=0.0).to(tl.float32)
    v = tl.load(b + o, mask=o < n, other=0.0).to(tl.float32)
    tl.store(y + o, u * tl.sigmoid(u) * v, mask=o < n)


def swiglu(a, b):
    y = torch.empty_like(a)
    _swiglu[(triton.cdiv(a.numel(), 512),)](a, b, y, a.numel(), BLOCK=512)
    return y


@triton.jit
def _embedding_grad(g, ids, w, D: tl.constexpr):
    t = tl.program_id(0)
    o = tl.arange(0, D)
    row = tl.load(ids + t)
    tl.atomic_add(w + row * D + o, tl.load(g + t * D + o).to(tl.float32))


def embedding_grad(g, ids):
    w = torch.zeros((12, g.shape[1]), dtype=torch.float32, device=g.device)
    _embedding_grad[(ids.numel(),)](g, ids, w, D=g.shape[1])
    return w
