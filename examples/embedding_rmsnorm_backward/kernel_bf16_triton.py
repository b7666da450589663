"""Fused embedding gradient + RMSNorm backward in Triton.

One pass over the tokens: every program walks over blocks of rows, forms the gradient of the
hidden state and adds it to the row of its token id in the embedding gradient with atomics.
The gain's gradient is summed in registers and combined at the end.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _backward(
    grad_output,
    input_ids,
    hidden_states,
    rstd,
    norm_weight,
    grad_embed,
    partial_weight,
    tokens,
    hidden,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    program = tl.program_id(0)
    columns = tl.arange(0, BLOCK_HIDDEN)
    in_row = columns < hidden
    weight = tl.load(norm_weight + columns, mask=in_row, other=0.0).to(tl.float32)
    weight_sum = tl.zeros((BLOCK_HIDDEN,), dtype=tl.float32)
    step = tl.num_programs(0) * BLOCK_TOKENS
    for start in range(program * BLOCK_TOKENS, tokens, step):
        rows = start + tl.arange(0, BLOCK_TOKENS)
        live = rows < tokens
        mask = live[:, None] & in_row[None, :]
        offsets = rows.to(tl.int64)[:, None] * hidden + columns[None, :]
        grad = tl.load(grad_output + offsets, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(hidden_states + offsets, mask=mask, other=0.0)
        scale = tl.load(rstd + rows, mask=live, other=0.0)
        ids = tl.load(input_ids + rows, mask=live, other=0)
        normalised = x * scale[:, None]
        scaled = grad * weight[None, :]
        mean = tl.sum(scaled * normalised, axis=1) / hidden
        grad_hidden = scale[:, None] * (scaled - normalised * mean[:, None])
        target = grad_embed + ids[:, None] * hidden + columns[None, :]
        tl.atomic_add(target, grad_hidden.to(tl.bfloat16), mask=mask, sem="relaxed")
        weight_sum += tl.sum(grad * normalised, axis=0)
    tl.store(partial_weight + program * hidden + columns, weight_sum, mask=in_row)


def run(
    grad_output,
    input_ids,
    hidden_states,
    rstd,
    norm_weight,
    grad_embed_weight,
    grad_norm_weight,
):
    tokens, hidden = hidden_states.shape
    block_hidden = triton.next_power_of_2(hidden)
    block_tokens = max(1, 8192 // block_hidden)
    processors = torch.cuda.get_device_properties(hidden_states.device).multi_processor_count
    programs = max(1, min(triton.cdiv(tokens, block_tokens), 4 * processors))
    partial_weight = torch.empty((programs, hidden), dtype=torch.float32, device=rstd.device)
    grad_embed_weight.zero_()
    _backward[(programs,)](
        grad_output.contiguous(),
        input_ids.contiguous(),
        hidden_states.contiguous(),
        rstd.contiguous(),
        norm_weight.contiguous(),
        grad_embed_weight,
        partial_weight,
        tokens,
        hidden,
        BLOCK_TOKENS=block_tokens,
        BLOCK_HIDDEN=block_hidden,
        num_warps=8,
    )
    grad_norm_weight.copy_(partial_weight.sum(dim=0))
