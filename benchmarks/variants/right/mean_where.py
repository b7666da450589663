import torch


def run(values, lengths):
    seen = torch.arange(32, device=values.device) < lengths[:, None]
    return torch.where(seen[..., None], values, 0.0).sum(1) / lengths[:, None]
