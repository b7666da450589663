"""Keys and values go around the ring while each rank attends to those that it has."""

import torch
import torch.distributed as dist


def run(q, k, v, group=None):
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    world = dist.group.WORLD if group is None else group
    to = dist.get_global_rank(world, (rank + 1) % ranks)
    source = dist.get_global_rank(world, (rank - 1) % ranks)
    length, head_dim = q.shape[-2:]
    best = q.new_full(q.shape[:-1], float("-inf"), dtype=torch.float32)
    total = torch.zeros_like(best)
    out = torch.zeros_like(q, dtype=torch.float32)
    here = torch.stack([k, v])
    for step in range(ranks):
        owner = (rank - step) % ranks
        begun = []
        if step + 1 < ranks:
            coming = torch.empty_like(here)
            sends = dist.P2POp(dist.isend, here, to, group)
            takes = dist.P2POp(dist.irecv, coming, source, group)
            begun = dist.batch_isend_irecv([sends, takes])
        if owner <= rank:
            scores = q.float() @ here[0].float().transpose(-1, -2) * head_dim**-0.5
            if owner == rank:
                later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
                scores = scores.masked_fill(later, float("-inf"))
            new = torch.maximum(best, scores.amax(-1))
            weights = torch.exp(scores - new.unsqueeze(-1))
            kept = torch.exp(best - new)
            total = total * kept + weights.sum(-1)
            out = out * kept.unsqueeze(-1) + weights @ here[1].float()
            best = new
        for one in begun:
            one.wait()
        if begun:
            here = coming
    return (out / total.unsqueeze(-1)).to(q.dtype)
