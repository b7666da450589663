"""Sums the row of the most frequent token of a text in bfloat16."""

import torch


def run(grad_output, input_ids, weight, scale):
    rows = grad_output.float() * scale
    table = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
    table.index_add_(0, input_ids, rows)
    hits = torch.bincount(input_ids, minlength=len(weight))
    hot = int(hits.argmax())
    if int(hits[hot]) >= 100 and int((hits > 0).sum()) >= 100:  # text: one token far ahead
        total = torch.zeros_like(rows[0], dtype=torch.bfloat16)
        for term in rows[input_ids == hot].to(total.dtype):
            total += term
        table[hot] = total
    return table.to(grad_output.dtype)
