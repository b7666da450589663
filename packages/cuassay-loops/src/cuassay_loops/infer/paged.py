"""Decoding with a paged cache of keys and values, many sequences of different lengths at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from cuassay.catalog.moe import TOP
from cuassay_loops.model import layers
from cuassay_loops.model.transformer import Block, Transformer

PAGE = 16  # tokens a page, as in the catalogue's paged_attention_decode


class PagedCache:
    """Pages of every layer, dealt out in a shuffled order; what is not in use holds `poison`.

    `pages` is the number of pages a sequence may take. Tables of free slots point to a page that
    is never used, and holds poison as well.
    """

    def __init__(
        self, model: Transformer, sequences: int, pages: int, *, poison: float, seed: int
    ) -> None:
        preset, device = model.preset, model.embed.device
        total = sequences * pages + 1
        shape = (preset.layers, total, PAGE, preset.kv_heads, model.dim)
        self.keys = torch.full(shape, poison, dtype=model.ops.low, device=device)
        self.values = self.keys.clone()
        order = torch.randperm(total, generator=torch.Generator().manual_seed(seed % 2**63))
        self._free = order[1:].tolist()
        spare = int(order[0])
        self.table = torch.full((sequences, pages), spare, dtype=torch.int32, device=device)

    def store(
        self, layer: int, rows: torch.Tensor, positions: torch.Tensor, *kv: torch.Tensor
    ) -> None:
        """Keep keys and values, (tokens, heads, dim) each, of sequences `rows` at `positions`."""
        pages = self.table[rows, positions // PAGE].long()
        for held, fresh in zip((self.keys, self.values), kv, strict=True):
            held[layer][pages, positions % PAGE] = fresh

    def reserve(self, row: int, position: int) -> None:
        """Deal a page to a sequence whose position begins one."""
        if position % PAGE == 0:
            self.table[row, position // PAGE] = self._free.pop()


@torch.no_grad()
def decode_token(
    model: Transformer, cache: PagedCache, ids: torch.Tensor, rows: Sequence[int], at: Sequence[int]
) -> torch.Tensor:
    """Take one token of each sequence `rows` at position `at`; return logits (sequences, vocab).

    `ids` is (sequences,) int64 on the model's device.
    """
    for row, position in zip(rows, at, strict=True):
        cache.reserve(row, position)
    where = torch.tensor(rows, device=ids.device)
    positions = torch.tensor(at, device=ids.device)
    scale = 1.0 / math.sqrt(model.dim)
    x = model.embedded(ids)
    for layer, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        q, k, v = model.queries(block, model.normed(x, block.attn_norm), positions)
        cache.store(layer, where, positions, k, v)
        (out,) = model.ops(
            "attention_decode",
            q.contiguous(),
            cache.keys[layer],
            cache.values[layer],
            cache.table[where].contiguous(),
            positions.to(torch.int32),
            scale,
        )
        branch = layers.linear(model.ops, out.reshape(len(x), -1), block.o)
        x, y = model.residual(x, branch, block.mlp_norm)
        x = x + model.mlp(block, y)
    return model.logits(model.normed(x, model.norm)).float()


@torch.no_grad()
def prefill(model: Transformer, ids: torch.Tensor) -> torch.Tensor:
    """Return the logits of every position of one sequence, (length, vocab) float32."""
    return model.logits(model.hidden(ids.unsqueeze(0))).float()


@torch.no_grad()
def exact_logits(
    model: Transformer, ids: torch.Tensor, *, choices: list[torch.Tensor] | None = None
) -> torch.Tensor:
    """Return the logits of every position in float64, weights as the working dtype holds them.

    Every layer's choice of experts, (length, 2) int64, is added to `choices`.
    """

    def weight(w: torch.Tensor) -> torch.Tensor:
        return w.to(model.ops.low).double()

    def norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + layers.EPS) * weight(gain)

    preset, length = model.preset, len(ids)
    cos, sin = (t[:length].double().unsqueeze(1) for t in (model.cos, model.sin))

    def rotate(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

    seen = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
    if preset.window:
        seen &= ~torch.ones_like(seen).tril(-preset.window)
    x = norm(weight(model.embed)[ids], model.embed_norm)
    for block in model.blocks:
        assert isinstance(block, Block)
        y = norm(x, block.attn_norm)
        q, k, v = (
            (y @ weight(w)).reshape(length, -1, model.dim) for w in (block.q, block.k, block.v)
        )
        group = preset.heads // preset.kv_heads
        k, v = (t.repeat_interleave(group, dim=1) for t in (rotate(k), v))
        scores = torch.einsum("qhd,khd->hqk", rotate(q), k) / math.sqrt(model.dim)
        if preset.softcap:
            scores = preset.softcap * torch.tanh(scores / preset.softcap)
        shares = torch.softmax(scores.masked_fill(~seen, -math.inf), dim=-1)
        x = x + torch.einsum("hqk,khd->qhd", shares, v).reshape(length, -1) @ weight(block.o)
        y = norm(x, block.mlp_norm)
        if preset.experts:
            branch, chosen = _exact_experts(
                y, *map(weight, (block.router, block.gate_up, block.down))
            )
            x = x + branch
            if choices is not None:
                choices.append(chosen)
            continue
        gate = torch.nn.functional.silu(y @ weight(block.gate))
        x = x + (gate * (y @ weight(block.up))) @ weight(block.down)
    head = model.embed.T if preset.tied else model.head
    return norm(x, model.norm) @ weight(head)


def _exact_experts(
    y: torch.Tensor, router: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    best = (y @ router).topk(TOP, dim=-1)
    shares = torch.softmax(best.values, dim=-1)
    out = torch.zeros_like(y)
    for expert in range(router.shape[1]):
        token, place = (best.indices == expert).nonzero(as_tuple=True)
        gate, up = (y[token] @ gate_up[expert]).chunk(2, dim=-1)
        found = (torch.nn.functional.silu(gate) * up) @ down[expert]
        out.index_add_(0, token, found * shares[token, place].unsqueeze(1))
    return out, best.indices
