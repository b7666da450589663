"""Free generation, greedy and sampled with shared uniform numbers, beside the trusted run."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from cuassay_loops.infer.paged import PAGE, PagedCache, decode_token
from cuassay_loops.model.transformer import Transformer
from cuassay_loops.results import Generation


def compare_generation(
    models: Mapping[str, Transformer], prompt: torch.Tensor, *, tokens: int, seed: int
) -> tuple[Generation, ...]:
    """Let trusted and kernel continue a prompt; say how long they agree and why they part.

    Both draw by the inverse of the cumulative distribution at the same uniform numbers. A token
    that differs where the margin is small is no fault: two correct runs part as well.
    """
    uniforms = torch.rand(tokens, generator=torch.Generator().manual_seed(seed % 2**63)).tolist()
    found = []
    for kind in ("greedy", "sampled"):
        drawn = uniforms if kind == "sampled" else None
        mine, _ = _continued(models["kernel"], prompt, tokens, drawn, seed)
        theirs, margins = _continued(models["trusted"], prompt, tokens, drawn, seed)
        pairs = enumerate(zip(mine, theirs, strict=True))
        parts = next((index for index, (a, b) in pairs if a != b), tokens)
        found.append(
            Generation(
                kind=kind,
                tokens=tokens,
                agreed=parts,
                margin=margins[parts] if parts < tokens else 0.0,
            )
        )
    return tuple(found)


def _continued(
    model: Transformer, prompt: torch.Tensor, tokens: int, uniforms: list[float] | None, seed: int
) -> tuple[list[int], list[float]]:
    """Return the tokens that follow, and the margin by which each was chosen."""
    pages = -(-(len(prompt) + tokens) // PAGE) + 1
    cache = PagedCache(model, 1, pages, poison=0.0, seed=seed)
    chosen: list[int] = []
    margins: list[float] = []
    ids = prompt.tolist()
    for at in range(len(prompt) + tokens - 1):
        token = ids[at] if at < len(ids) else chosen[at - len(ids)]
        here = torch.tensor([token], device=model.embed.device)
        logits = decode_token(model, cache, here, [0], [at])[0].double().cpu().nan_to_num(nan=-1e30)
        if at >= len(ids) - 1:
            number = None if uniforms is None else uniforms[at - len(ids) + 1]
            if number is None:
                best = logits.topk(2)
                picked, margin = int(best.indices[0]), float(best.values[0] - best.values[1])
            else:
                borders = torch.softmax(logits, dim=-1).cumsum(0)
                picked = min(int(torch.searchsorted(borders, number)), len(logits) - 1)
                below = float(borders[picked - 1]) if picked else 0.0
                margin = min(abs(float(borders[picked]) - number), abs(number - below))
            chosen.append(picked)
            margins.append(margin)
    return chosen, margins
