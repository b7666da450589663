import torch


def run(x, shift, bias, gain):
    half = x.shape[-1] // 2
    y = x.float() * gain + shift.float()
    z = y[:, :half] - bias
    return y.to(torch.bfloat16), z.sum(dim=1, keepdim=True)
