"""A small transformer of today's kind whose every operator is a site.

Embedding and a norm behind it, then blocks of RMSNorm, rotary grouped attention (optionally
windowed and soft-capped) and SwiGLU (or a mixture of such experts), a last norm, a head (optionally
tied to the embedding) and cross-entropy, as in Llama (Touvron et al., arXiv 2302.13971), Mixtral
and Gemma 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from cuassay_loops.model import experts, layers
from cuassay_loops.model.operators import Operators
from cuassay_loops.results import Preset

THETA = 10_000.0
POSITIONS = 4096  # rows of the rotary tables


class Block(nn.Module):
    """One layer: attention and MLP, each behind a norm, each added to the residual stream."""

    def __init__(self, preset: Preset, layer: int) -> None:
        super().__init__()
        self.layer = layer
        hidden, dim = preset.hidden, preset.hidden // preset.heads
        self.attn_norm = nn.Parameter(torch.ones(hidden))
        self.q = _matrix(hidden, preset.heads * dim)
        self.k = _matrix(hidden, preset.kv_heads * dim)
        self.v = _matrix(hidden, preset.kv_heads * dim)
        self.o = _matrix(preset.heads * dim, hidden, shrink=2 * preset.layers)
        self.mlp_norm = nn.Parameter(torch.ones(hidden))
        if preset.experts:
            self.router = _matrix(hidden, preset.experts)
            self.gate_up = _matrices(preset.experts, hidden, 2 * preset.ffn)
            self.down = _matrices(preset.experts, preset.ffn, hidden, shrink=2 * preset.layers)
        else:
            self.gate = _matrix(hidden, preset.ffn)
            self.up = _matrix(hidden, preset.ffn)
            self.down = _matrix(preset.ffn, hidden, shrink=2 * preset.layers)


class Transformer(nn.Module):
    """The model. Parameters are float32; `ops` answers every operator.

    Token ids are (batch, length) int64. Weights are drawn from torch's global generator.
    """

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, preset: Preset, ops: Operators, *, recompute: bool = False) -> None:
        super().__init__()
        self.preset, self.ops, self.recompute = preset, ops, recompute
        self.dim = preset.hidden // preset.heads
        self.embed = nn.Parameter(torch.randn(preset.vocab, preset.hidden) * 0.5)
        self.embed_norm = nn.Parameter(torch.ones(preset.hidden))
        self.blocks = nn.ModuleList(Block(preset, layer) for layer in range(preset.layers))
        self.norm = nn.Parameter(torch.ones(preset.hidden))
        if not preset.tied:
            self.head = _matrix(preset.hidden, preset.vocab)
        half = self.dim // 2
        frequency = THETA ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(POSITIONS, dtype=torch.float64).unsqueeze(1) * frequency
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of every token that has a target, float32 (batch * length,).

        The loss of a token whose target is -100 is 0.
        """
        return self.losses(self.embedded(ids.reshape(-1)), ids.shape, targets)

    def losses(
        self, embedded: torch.Tensor, shape: Sequence[int], targets: torch.Tensor
    ) -> torch.Tensor:
        """Return the loss of every token from the normed embeddings of ids of a shape."""
        x = self._through(embedded, shape)
        flat = targets.reshape(-1)
        if self.ops.fused("linear_cross_entropy", "linear_cross_entropy_backward"):
            return _tensor(layers.linear_cross_entropy(self.ops, x, self._head().T, flat))
        return _tensor(layers.cross_entropy(self.ops, self.logits(x), flat))

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the states behind the last norm, (batch * length, hidden)."""
        return self._through(self.embedded(ids.reshape(-1)), ids.shape)

    def _through(self, x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        batch, length = shape
        positions = torch.arange(length, device=x.device).repeat(batch)
        for block in self.blocks:
            assert isinstance(block, Block)
            if self.recompute and torch.is_grad_enabled():
                x = _tensor(
                    checkpoint(self._block, block, x, positions, batch, use_reentrant=False)
                )
            else:
                x = self._block(block, x, positions, batch)
        return self.normed(x, self.norm)

    def embedded(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the normed embeddings of flat token ids, (tokens, hidden)."""
        if self.ops.fused("embedding_rmsnorm_backward"):
            return _tensor(layers.embedding_norm(self.ops, ids, self.embed, self.embed_norm))
        return self.normed(_tensor(layers.embedding(self.ops, ids, self.embed)), self.embed_norm)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits of states, (tokens, vocab), in the working dtype."""
        return _tensor(layers.linear(self.ops, states, self._head()))

    def normed(self, x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        """Return RMSNorm of rows."""
        return _tensor(layers.rms_norm(self.ops, x, gain))

    def queries(
        self, block: Block, x: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return rotated queries and keys, and values, each (tokens, heads, dim)."""
        tokens, ops = len(x), self.ops
        q = layers.linear(ops, x, block.q).reshape(tokens, self.preset.heads, self.dim)
        k = layers.linear(ops, x, block.k).reshape(tokens, self.preset.kv_heads, self.dim)
        v = layers.linear(ops, x, block.v).reshape(tokens, self.preset.kv_heads, self.dim)
        q, k = layers.rope(ops, q, k, self.cos, self.sin, positions)
        return q, k, v

    def residual(
        self, x: torch.Tensor, branch: torch.Tensor, gain: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the sum of the stream and a branch, and its norm."""
        if self.ops.fused("fused_add_rmsnorm"):
            y, total = layers.add_rms_norm(self.ops, branch, x, gain)
            return total, y
        total = x + branch
        return total, self.normed(total, gain)

    def mlp(self, block: Block, y: torch.Tensor) -> torch.Tensor:
        """Return the branch of the MLP, or of the experts that each token chooses."""
        if self.preset.experts:
            return _tensor(experts.mixed(self.ops, y, block))
        gate = layers.linear(self.ops, y, block.gate)
        up = layers.linear(self.ops, y, block.up)
        return _tensor(layers.linear(self.ops, layers.swiglu(self.ops, gate, up), block.down))

    def _block(
        self, block: Block, x: torch.Tensor, positions: torch.Tensor, batch: int
    ) -> torch.Tensor:
        q, k, v = self.queries(block, self.normed(x, block.attn_norm), positions)
        shaped = (
            part.reshape(batch, -1, part.shape[1], self.dim).transpose(1, 2) for part in (q, k, v)
        )
        preset = self.preset
        out = layers.attention(
            self.ops, *shaped, 1.0 / math.sqrt(self.dim), preset.softcap, preset.window
        )
        branch = layers.linear(self.ops, out.transpose(1, 2).reshape(len(x), -1), block.o)
        x, y = self.residual(x, branch, block.mlp_norm)
        return x + self.mlp(block, y)

    def _head(self) -> torch.Tensor:
        return self.embed.T if self.preset.tied else self.head


def _matrix(rows: int, columns: int, *, shrink: int = 1) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) / math.sqrt(rows * shrink))


def _matrices(count: int, rows: int, columns: int, *, shrink: int = 1) -> nn.Parameter:
    return nn.Parameter(torch.randn(count, rows, columns) / math.sqrt(rows * shrink))


def _tensor(value: object) -> torch.Tensor:
    assert isinstance(value, torch.Tensor)
    return value
