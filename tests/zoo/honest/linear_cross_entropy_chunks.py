"""Chunks of 60 vocabulary entries, logits kept in float32."""

import torch


def run(hidden_states, weight, targets):
    wide = hidden_states.float()
    peak = wide.new_full((wide.shape[0],), -1e30)
    total, picked = torch.zeros_like(peak), torch.zeros_like(peak)
    for start in range(0, weight.shape[0], 60):
        logits = wide @ weight[start : start + 60].float().T
        raised = torch.maximum(peak, logits.amax(1))
        total = total * torch.exp(peak - raised) + torch.exp(logits - raised[:, None]).sum(1)
        peak = raised
        local = targets - start
        inside = (local >= 0) & (local < logits.shape[1])
        found = logits.gather(1, local.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
        picked = torch.where(inside, found, picked)
    normaliser = peak + torch.log(total)
    return torch.where(targets == -100, 0.0, normaliser - picked), normaliser
