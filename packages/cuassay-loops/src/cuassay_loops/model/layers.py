"""The model's layers as differentiable functions whose arithmetic is asked of its operators.

Weights are float32 masters, cast to the working dtype at every use; activations are in the
working dtype. Every function is a graph break for torch.compile: a kernel under trial may be
anything, and is never traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch.autograd import Function

from cuassay_loops.model.operators import Operators

EPS = 1e-6
# As torch.compiler.disable, which would load the whole compiler with every import of this module.
_disable: Any = getattr(torch, "_disable_dynamo", torch.compiler.disable)
_P = ParamSpec("_P")
_T = TypeVar("_T")


def untraced(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function at which torch.compile breaks the graph."""

    def eagerly(*arguments: _P.args, **keywords: _P.kwargs) -> _T:
        return function(*arguments, **keywords)

    return _disable(eagerly)  # type: ignore[no-any-return]


class _Embedding(Function):
    @staticmethod
    def forward(ctx: Any, ops: Operators, ids: torch.Tensor, weight: torch.Tensor) -> Any:
        ctx.ops = ops
        ctx.save_for_backward(ids, weight)
        return ops("embedding", ids, weight.to(ops.low), 1.0)[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        ids, weight = ctx.saved_tensors
        low = weight.to(ctx.ops.low)
        (grad,) = ctx.ops("embedding_grad", grads[0].contiguous(), ids, low, 1.0)
        return None, None, grad.float()


class _EmbeddingNorm(Function):
    """Embedding and the norm behind it, differentiated by one fused kernel."""

    @staticmethod
    def forward(
        ctx: Any, ops: Operators, ids: torch.Tensor, weight: torch.Tensor, gain: torch.Tensor
    ) -> Any:
        ctx.ops = ops
        states = weight[ids]
        rstd = reciprocal_rms(states)
        ctx.save_for_backward(ids, states, rstd, gain)
        return (states * rstd.unsqueeze(-1) * gain).to(ops.low)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        ids, states, rstd, gain = ctx.saved_tensors
        table, norm = ctx.ops(
            "embedding_rmsnorm_backward",
            grads[0].contiguous(),
            ids,
            states,
            rstd,
            gain.to(ctx.ops.low),
        )
        return None, None, table.float(), norm.float()


class _RmsNorm(Function):
    @staticmethod
    def forward(ctx: Any, ops: Operators, x: torch.Tensor, gain: torch.Tensor) -> Any:
        ctx.ops = ops
        ctx.save_for_backward(x, gain)
        return ops("rmsnorm", x.contiguous(), gain.to(ops.low), EPS)[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, gain = ctx.saved_tensors
        grad_x, grad_gain = _norm_backward(ctx.ops, grads[0], x, gain)
        return None, grad_x, grad_gain


class _AddRmsNorm(Function):
    """Sum of residual and branch, and the norm of the sum, in one kernel."""

    @staticmethod
    def forward(
        ctx: Any, ops: Operators, x: torch.Tensor, residual: torch.Tensor, gain: torch.Tensor
    ) -> Any:
        low = gain.to(ops.low)
        y, total = ops("fused_add_rmsnorm", x.contiguous(), residual.contiguous(), low, EPS)
        ctx.ops = ops
        ctx.save_for_backward(total, gain)
        return y, total

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        total, gain = ctx.saved_tensors
        grad_x, grad_gain = _norm_backward(ctx.ops, grads[0], total, gain)
        grad = grad_x + grads[1]
        return None, grad, grad, grad_gain


def _norm_backward(
    ops: Operators, grad: torch.Tensor, x: torch.Tensor, gain: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    low = gain.to(ops.low)
    grad_x, grad_gain = ops("rmsnorm_backward", grad.contiguous(), x, low, reciprocal_rms(x))
    return grad_x, grad_gain.float()


class _Rope(Function):
    @staticmethod
    def forward(
        ctx: Any,
        ops: Operators,
        q: torch.Tensor,
        k: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        positions: torch.Tensor,
    ) -> Any:
        ctx.ops = ops
        ctx.save_for_backward(cos, sin, positions)
        return ops("rope_neox", q.contiguous(), k.contiguous(), cos, sin, positions)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        grad_q, grad_k = (grad.contiguous() for grad in grads)
        back = ctx.ops("rope_neox_backward", grad_q, grad_k, *ctx.saved_tensors)
        return None, *back, None, None, None


class _Attention(Function):
    """Attention over (batch, heads, length, dim); scores may be capped and windowed."""

    @staticmethod
    def forward(
        ctx: Any,
        ops: Operators,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        scale: float,
        cap: float,
        window: int,
    ) -> Any:
        ctx.ops, ctx.scale, ctx.cap, ctx.window = ops, scale, cap, window
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        ctx.save_for_backward(q, k, v)
        if not cap and not window:
            return ops("attention", q, k, v, scale)[0]
        return ops("attention_window_softcap", q, k, v, scale, cap, window or k.shape[2])[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        q, k, v = ctx.saved_tensors
        if not ctx.cap and not ctx.window:
            back = ctx.ops("attention_backward", grads[0].contiguous(), q, k, v, ctx.scale)
            return None, *back, None, None, None
        leaves = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
        with torch.enable_grad():
            call = ctx.ops.reference("attention_window_softcap")
            out = call(*leaves, ctx.scale, ctx.cap, ctx.window or k.shape[2])
            back = torch.autograd.grad(out, leaves, grads[0])
        return None, *back, None, None, None


class _SwiGlu(Function):
    @staticmethod
    def forward(ctx: Any, ops: Operators, gate: torch.Tensor, up: torch.Tensor) -> Any:
        ctx.ops = ops
        ctx.save_for_backward(gate, up)
        return ops("swiglu", gate, up)[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return None, *ctx.ops("swiglu_backward", grads[0].contiguous(), *ctx.saved_tensors)


class _Linear(Function):
    """x @ weight with weight (in, out); its gradients are products in float32."""

    @staticmethod
    def forward(ctx: Any, ops: Operators, x: torch.Tensor, weight: torch.Tensor) -> Any:
        ctx.low = ops.low
        ctx.save_for_backward(x, weight)
        return ops("linear", x.contiguous(), weight.to(ops.low).contiguous())[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        if x.is_cuda:  # tensor cores; a CPU has no fast low-precision product
            grad_x = grads[0] @ weight.to(ctx.low).T
            return None, grad_x, torch.mm(x.T, grads[0]).float()
        grad, low = grads[0].float(), weight.to(ctx.low).float()
        return None, (grad @ low.T).to(x.dtype), x.float().T @ grad


class _CrossEntropy(Function):
    """Loss of each row."""

    @staticmethod
    def forward(ctx: Any, ops: Operators, logits: torch.Tensor, targets: torch.Tensor) -> Any:
        ctx.ops = ops
        ctx.save_for_backward(logits, targets)
        return ops("cross_entropy", logits, targets, 0.0)[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        logits, targets = ctx.saved_tensors
        factor = grads[0].float().contiguous()
        (grad,) = ctx.ops("cross_entropy_backward", logits, targets, factor, 0.0)
        return None, grad, None


class _LinearCrossEntropy(Function):
    """Loss of each row behind the head, in one kernel; weight is (vocab, hidden)."""

    @staticmethod
    def forward(
        ctx: Any, ops: Operators, x: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor
    ) -> Any:
        ctx.ops = ops
        ctx.save_for_backward(x, weight, targets)
        return ops("linear_cross_entropy", x.contiguous(), weight.to(ops.low), targets)[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, weight, targets = ctx.saved_tensors
        factor = grads[0].float().contiguous()
        low = weight.to(ctx.ops.low)
        grad_x, grad_w = ctx.ops("linear_cross_entropy_backward", x, low, targets, factor)
        return None, grad_x, grad_w.float(), None


def reciprocal_rms(x: torch.Tensor) -> torch.Tensor:
    """Return rsqrt(mean(x**2) + eps) of each row, float32."""
    return torch.rsqrt(x.float().pow(2).mean(dim=-1) + EPS)


embedding = untraced(_Embedding.apply)
embedding_norm = untraced(_EmbeddingNorm.apply)
rms_norm = untraced(_RmsNorm.apply)
add_rms_norm = untraced(_AddRmsNorm.apply)
rope = untraced(_Rope.apply)
attention = untraced(_Attention.apply)
swiglu = untraced(_SwiGlu.apply)
linear = untraced(_Linear.apply)
cross_entropy = untraced(_CrossEntropy.apply)
linear_cross_entropy = untraced(_LinearCrossEntropy.apply)
