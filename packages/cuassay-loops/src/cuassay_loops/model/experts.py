"""A mixture of experts as differentiable functions whose arithmetic is asked of the operators.

Router, rows in order of their experts, gated units of all experts, and the weighted sum on the way
back, as in Mixtral (arXiv 2401.04088). No auxiliary loss balances the experts: in the few hundred
steps of a run they stay in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import Function

from cuassay.catalog.gemm import grouped_product
from cuassay_loops.kernels import KernelFault
from cuassay_loops.model import layers
from cuassay_loops.model.operators import Operators, SiteMode

if TYPE_CHECKING:
    from cuassay_loops.model.transformer import Block


class _Route(Function):
    @staticmethod
    def forward(ctx: Any, ops: Operators, layer: int, logits: torch.Tensor) -> Any:
        weights, chosen = ops.routes.settled(
            layer,
            logits,
            ops("moe_route", logits),
            trusted=ops.mode is SiteMode.TRUSTED,
            judged=ops.asks("moe_route"),
        )
        ctx.save_for_backward(logits, chosen)
        ctx.mark_non_differentiable(chosen)
        return weights, chosen

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        logits, chosen = ctx.saved_tensors
        share = torch.softmax(logits.gather(1, chosen), dim=-1)
        inner = share * (grads[0] - (share * grads[0]).sum(dim=-1, keepdim=True))
        return None, None, torch.zeros_like(logits).scatter_add_(1, chosen, inner)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, ops: Operators, x: torch.Tensor, chosen: torch.Tensor) -> Any:
        rows, source, counts = ops("moe_gather", x.contiguous(), chosen)
        if ops.asks("moe_gather"):
            # Refuse an order that loses slots, or counts that do not add up. Raises KernelFault.
            slots = len(source)
            ordered = source.sort().values
            if not torch.equal(ordered, torch.arange(slots, device=source.device)):
                raise KernelFault(f"output 'source' does not hold each of the {slots} slots once")
            if int(counts.min()) < 0 or int(counts.sum()) != slots:
                raise KernelFault(
                    f"output 'counts' adds up to {int(counts.sum())}, expected {slots} slots of "
                    "experts, none negative"
                )
        ctx.ops = ops
        ctx.save_for_backward(source // chosen.shape[1])
        ctx.mark_non_differentiable(source, counts)
        return rows, source, counts

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        (token_of,) = ctx.saved_tensors
        (grad_x,) = ctx.ops("moe_scatter", grads[0].contiguous(), token_of)
        return None, grad_x, None


class _Experts(Function):
    """Gated units on rows grouped by offsets; gradients are products in float32."""

    @staticmethod
    def forward(
        ctx: Any,
        ops: Operators,
        rows: torch.Tensor,
        offsets: torch.Tensor,
        gate_up: torch.Tensor,
        down: torch.Tensor,
    ) -> Any:
        ctx.low = ops.low
        ctx.save_for_backward(rows, offsets, gate_up, down)
        return ops("moe_experts", rows, offsets, gate_up.to(ops.low), down.to(ops.low))[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        rows, offsets, *weights = ctx.saved_tensors
        leaves = [rows.float().requires_grad_()]
        leaves += [weight.to(ctx.low).float().requires_grad_() for weight in weights]
        with torch.enable_grad():
            gate, up = grouped_product(leaves[0], leaves[1], offsets).chunk(2, dim=-1)
            out = grouped_product(torch.nn.functional.silu(gate) * up, leaves[2], offsets)
            found = torch.autograd.grad(out, leaves, grads[0].float())
        return None, found[0].to(rows.dtype), None, found[1], found[2]


class _Combine(Function):
    @staticmethod
    def forward(
        ctx: Any, ops: Operators, rows: torch.Tensor, slots: torch.Tensor, weights: torch.Tensor
    ) -> Any:
        ctx.save_for_backward(rows, slots, weights)
        return ops("moe_combine", rows.contiguous(), slots, weights)[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        rows, slots, weights = ctx.saved_tensors
        grad = grads[0].float()
        grad_weights = (rows[slots].float() * grad.unsqueeze(1)).sum(dim=-1)
        spread = grad.unsqueeze(1) * weights.unsqueeze(-1)
        grad_rows = torch.empty(rows.shape, dtype=torch.float32, device=rows.device)
        grad_rows[slots.flatten()] = spread.flatten(0, 1)
        return None, grad_rows.to(rows.dtype), None, grad_weights


def mixed(ops: Operators, y: torch.Tensor, block: Block) -> torch.Tensor:
    """Return the branch of the experts that each token chooses, (tokens, hidden)."""
    logits = layers.linear(ops, y, block.router).float()
    weights, chosen = route(ops, block.layer, logits)
    rows, source, counts = gather(ops, y, chosen)
    offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).to(torch.int32)
    out = run(ops, rows, offsets, block.gate_up, block.down)
    slots = torch.empty_like(source)
    slots[source] = torch.arange(len(source), device=source.device)
    found: torch.Tensor = combine(ops, out, slots.reshape(chosen.shape), weights)
    return found


route = layers.untraced(_Route.apply)
gather = layers.untraced(_Gather.apply)
run = layers.untraced(_Experts.apply)
combine = layers.untraced(_Combine.apply)
