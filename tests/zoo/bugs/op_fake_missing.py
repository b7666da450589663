"""An operator without a fake kernel: no graph can hold it."""

import torch


@torch.library.custom_op("zoo_softmax::capped_bug", mutates_args=())
def capped(logits: torch.Tensor, cap: float) -> torch.Tensor:
    return torch.softmax(torch.tanh(logits.float() / cap) * cap, dim=-1).to(logits.dtype)


def run(logits, cap):
    return capped(logits, cap)
