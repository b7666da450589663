"""One product of concatenated halves, normalised after the values."""

import torch


def run(q_latent, q_rope, latent_cache, rope_cache, positions, scale):
    queries = torch.cat((q_latent, q_rope), dim=-1).float() * scale
    keys = torch.cat((latent_cache, rope_cache), dim=-1).float()
    scores = torch.bmm(queries, keys.transpose(1, 2))
    places = torch.arange(keys.shape[1], device=keys.device)
    scores = scores.masked_fill((places > positions[:, None])[:, None], float("-inf"))
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    mixed = torch.bmm(weights.to(q_latent.dtype).float(), latent_cache.float())
    return (mixed / weights.sum(-1, keepdim=True)).to(q_latent.dtype)
