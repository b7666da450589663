import torch


def right(gate, up):
    wide = gate.float()
    return (wide * torch.sigmoid(wide) * up.float()).to(gate.dtype)
