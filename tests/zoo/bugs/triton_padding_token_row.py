"""Adds the gradient of padding tokens to a row one past the table."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(grad, ids, total, tokens, hidden, vocab, scale, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    real = token < tokens
    row = tl.load(ids + token, mask=real, other=vocab)
    inside = (row[:, None] <= vocab) & (column[None, :] < hidden)
    place = token[:, None] * hidden + column[None, :]
    value = tl.load(grad + place, mask=real[:, None] & inside, other=0.0).to(tl.float32) * scale
    value = tl.where(real[:, None], value, 1.0)
    tl.atomic_add(total + row[:, None] * hidden + column[None, :], value, mask=inside)


def run(grad_output, input_ids, weight, scale):
    tokens, hidden = grad_output.shape
    vocab = weight.shape[0]
    total = torch.zeros(vocab, hidden, dtype=torch.float32, device=grad_output.device)
    grid = (triton.cdiv(tokens, 16),)
    block = triton.next_power_of_2(hidden)
    _add[grid](grad_output, input_ids, total, tokens, hidden, vocab, scale, ROWS=16, BLOCK=block)
    return total.to(grad_output.dtype)
