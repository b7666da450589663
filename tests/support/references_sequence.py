"""Convolutions, scans, cumulative sums, pooling and segment sums."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.references_base import Array, Draw, Reference, sigmoid


def conv1d(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.conv1d(x, w, b, padding=1)


def conv1d_truth(x: Array, w: Array, b: Array) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[-1], axis=2)
    return np.asarray(np.einsum("nclk,ock->nol", windows, w) + b[:, None])


def conv2d(x: Tensor, w: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, stride=2))


def conv2d_truth(x: Array, w: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::2, ::2]
    return np.asarray(np.maximum(np.einsum("nchwij,ocij->nohw", windows, w), 0))


def causal_conv(x: Tensor, w: Tensor) -> Tensor:
    channels, width = w.shape
    y = F.conv1d(F.pad(x.float(), (width - 1, 0)), w.float().unsqueeze(1), groups=channels)
    return F.silu(y).to(x.dtype)


def causal_conv_truth(x: Array, w: Array) -> Array:
    y = np.zeros_like(x)
    for lag in range(w.shape[1]):
        y[:, :, lag:] += x[:, :, : x.shape[2] - lag] * w[:, -1 - lag, None]
    return np.asarray(y * sigmoid(y))


def fft_conv(u: Tensor, kernel: Tensor, skip: Tensor) -> Tensor:
    length = u.shape[-1]
    k_f = torch.fft.rfft(kernel.float(), n=2 * length) / (2 * length)
    u_f = torch.fft.rfft(u.to(dtype=kernel.dtype).float(), n=2 * length)
    y = torch.fft.irfft(u_f * k_f, n=2 * length, norm="forward")[..., :length]
    return (y + u * skip.unsqueeze(-1)).to(dtype=u.dtype)  # type: ignore[no-any-return]


def fft_conv_truth(u: Array, kernel: Array, skip: Array) -> Array:
    length, out = u.shape[-1], np.zeros_like(u)
    for i in range(length):
        for j in range(i + 1):
            out[..., i] += u[..., j] * kernel[..., i - j]
    return np.asarray(out + u * skip[:, None])


def ssm_scan(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    dtype, (batch, length, dim) = u.dtype, u.shape
    delta = F.softplus(delta.float())
    da = torch.exp(torch.einsum("bld,dn->bldn", delta, a))
    dbu = torch.einsum("bld,bln,bld->bldn", delta, b.float(), u.float())
    state = u.new_zeros((batch, dim, a.shape[1]), dtype=torch.float32)
    ys = []
    for i in range(length):
        state = da[:, i] * state + dbu[:, i]
        ys.append(torch.einsum("bdn,bn->bd", state, c[:, i].float()))
    return torch.stack(ys, dim=1).to(dtype)


def ssm_truth(u: Array, delta: Array, a: Array, b: Array, c: Array) -> Array:
    delta = np.log1p(np.exp(delta))
    out = np.zeros_like(u)
    for i in range(u.shape[1]):
        for j in range(i + 1):
            decay = np.exp(delta[:, j + 1 : i + 1].sum(1)[:, :, None] * a)
            out[:, i] += np.einsum(
                "bdn,bn,bn,bd->bd", decay, b[:, j], c[:, i], delta[:, j] * u[:, j]
            )
    return out


def ssm_inputs(d: Draw) -> tuple[Tensor, ...]:
    return (
        d.normal(2, 5, 3),
        d.normal(2, 5, 3),
        -d.positive(3, 4),
        d.normal(2, 5, 4),
        d.normal(2, 5, 4),
    )


def delta_rule(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    state = torch.zeros(q.shape[1], v.shape[1])
    out = torch.empty_like(v)
    for t in range(q.shape[0]):
        key = F.normalize(k[t].float(), dim=-1)
        error = v[t].float() - key @ state
        state = state + torch.outer(key, error) * beta[t].float().sigmoid()
        out[t] = (q[t].float() @ state).to(v.dtype)
    return out


def delta_rule_truth(q: Array, k: Array, v: Array, beta: Array) -> Array:
    keys = k / np.linalg.norm(k, axis=-1, keepdims=True)
    gates, errors, out = sigmoid(beta), np.zeros_like(v), np.zeros_like(v)
    for t in range(len(q)):
        past = [(gates[s] * (keys[t] @ keys[s])) * errors[s] for s in range(t)]
        errors[t] = v[t] - sum(past, np.zeros(v.shape[1]))
        out[t] = sum((gates[s] * (q[t] @ keys[s])) * errors[s] for s in range(t + 1))
    return out


def cumsum_gate(x: Tensor) -> tuple[Tensor, Tensor]:
    g = F.logsigmoid(x.float()).cumsum(dim=-1)
    return g.exp().to(x.dtype), x.cumsum(0, dtype=torch.float32).flip(0)


def cumsum_gate_truth(x: Array) -> tuple[Array, Array]:
    return np.cumprod(sigmoid(x), -1), np.add.accumulate(x, 0)[::-1]


def segment_sum(x: Tensor, segment: Tensor, count: int) -> tuple[Tensor, Tensor]:
    out = torch.zeros(count, x.shape[1], dtype=x.dtype, device=x.device)
    out.index_add_(0, segment, x)
    hits = torch.zeros(count, dtype=torch.long).scatter_add_(0, segment, torch.ones_like(segment))
    return out, out.float() / hits.clamp(min=1).unsqueeze(1)


def segment_truth(x: Array, segment: Array, count: int) -> tuple[Array, Array]:
    select = (segment[None, :] == np.arange(count)[:, None]).astype(float)
    return select @ x, select @ x / np.maximum(select.sum(1), 1)[:, None]


def scatter_max(x: Tensor, index: Tensor) -> Tensor:
    out = torch.full((3, x.shape[1]), float("-inf"), dtype=x.dtype)
    return out.scatter_reduce_(0, index[:, None].expand_as(x), x, reduce="amax")


def scatter_max_truth(x: Array, index: Array) -> Array:
    out = np.full((3, x.shape[1]), -np.inf)
    np.maximum.at(out, index, x)
    return out


def moving_average(x: Tensor, alpha: float) -> Tensor:
    state, out = torch.zeros_like(x[0]), []
    for row in x.unbind(0):
        state = torch.lerp(state, row, alpha)
        out.append(state)
    return torch.stack(out)


def moving_truth(x: Array, alpha: float) -> Array:
    t = np.arange(len(x))
    lag = t[:, None] - t[None, :]
    return np.asarray(np.where(lag >= 0, alpha * (1 - alpha) ** np.maximum(lag, 0), 0) @ x)


def pooling(x: Tensor) -> tuple[Tensor, Tensor]:
    return F.avg_pool1d(x.float(), 2).to(x.dtype), F.max_pool1d(x, 2)


def pooling_truth(x: Array) -> tuple[Array, Array]:
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    return pairs.mean(-1), pairs.max(-1)


def token_shift(x: Tensor, mix: Tensor) -> Tensor:
    shifted = torch.roll(x, 1, dims=0)
    shifted[0].zero_()
    return x + (shifted - x) * mix.to(x.dtype)


def token_shift_truth(x: Array, mix: Array) -> Array:
    before = np.concatenate([np.zeros_like(x[:1]), x[:-1]])
    return np.asarray((1 - mix) * x + mix * before)


SEQUENCE = (
    Reference(
        name="conv1d",
        fn=conv1d,
        inputs=lambda d: (d.normal(2, 3, 7), d.normal(4, 3, 3), d.normal(4)),
        truth=conv1d_truth,
    ),
    Reference(
        name="conv2d",
        fn=conv2d,
        inputs=lambda d: (d.normal(2, 3, 7, 7), d.normal(4, 3, 3, 3)),
        truth=conv2d_truth,
    ),
    Reference(
        name="causal conv",
        fn=causal_conv,
        inputs=lambda d: (d.normal(2, 3, 7), d.normal(3, 4)),
        truth=causal_conv_truth,
    ),
    Reference(
        name="fft conv",
        fn=fft_conv,
        inputs=lambda d: (d.normal(2, 3, 8), d.normal(3, 8), d.normal(3)),
        truth=fft_conv_truth,
    ),
    Reference(name="ssm scan", fn=ssm_scan, inputs=ssm_inputs, truth=ssm_truth),
    Reference(
        name="delta rule",
        fn=delta_rule,
        inputs=lambda d: (d.normal(5, 4), d.normal(5, 4), d.normal(5, 3), d.normal(5)),
        truth=delta_rule_truth,
    ),
    Reference(
        name="cumsum gate",
        fn=cumsum_gate,
        inputs=lambda d: (d.normal(4, 6),),
        truth=cumsum_gate_truth,
    ),
    Reference(
        name="segment sum",
        fn=segment_sum,
        inputs=lambda d: (d.normal(9, 4), d.ids(5, 9), 5),
        truth=segment_truth,
    ),
    Reference(
        name="scatter max",
        fn=scatter_max,
        inputs=lambda d: (d.normal(9, 4), torch.arange(9) % 3),
        truth=scatter_max_truth,
    ),
    Reference(
        name="moving average",
        fn=moving_average,
        inputs=lambda d: (d.normal(6, 4), 0.1),
        truth=moving_truth,
    ),
    Reference(
        name="pooling", fn=pooling, inputs=lambda d: (d.normal(2, 3, 8),), truth=pooling_truth
    ),
    Reference(
        name="token shift",
        fn=token_shift,
        inputs=lambda d: (d.normal(5, 4), d.positive(4)),
        truth=token_shift_truth,
    ),
)
