import torch
from torch.nn import functional as F


def run(q, k, v, slopes):
    n = q.shape[1]
    at = torch.arange(n, device=q.device)
    far = (at[None, :] - at[:, None]).float()
    mask = (slopes[:, None, None] * far).masked_fill(far > 0, float("-inf")).to(q.dtype)
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask[None])[0]
