import torch


def run(values, lengths):
    seen = (torch.arange(32, device=values.device) < lengths[:, None]).float()
    return (values * seen[..., None]).sum(1) / lengths[:, None]
