"""A BERT encoder (Devlin et al., arXiv 1810.04805) whose every operator is a site.

Embeddings of words, places and segment, then layers of soft-max attention and an MLP with exact
GELU, each added to its input and normed, then the mean over a sentence's tokens at unit length.
Weights are held in the working dtype, matrices as (in, out).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn import functional

from cuassay_loops.model.operators import Operators

# The least that the catalogue's layernorm declares; BERT's own 1e-12 gives the same numbers at
# the variances of a trained model.
EPS = 1e-7
_BLOCK = "encoder.layer.{}."


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSizes:
    """The sizes of an encoder. `heads` divides `hidden`."""

    vocab: int
    hidden: int
    layers: int
    heads: int
    ffn: int
    positions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderWeights:
    """A trained encoder: float32 tensors by the names of Hugging Face's BertModel."""

    name: str
    sizes: EncoderSizes
    tensors: Mapping[str, torch.Tensor]


class Encoder:
    """The encoder with its operators. `__call__` returns the states behind every layer."""

    def __init__(self, weights: EncoderWeights, ops: Operators) -> None:
        self.sizes, self.ops = weights.sizes, ops
        self._held = {
            name: tensor.to(ops.device, ops.low)
            for name, tensor in weights.tensors.items()
            if tensor.is_floating_point()
        }

    def weight(self, name: str) -> torch.Tensor:
        """Return a weight in the working dtype, as it is stored."""
        return self._held[name]

    @torch.no_grad()
    def __call__(self, ids: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
        """Return states (sentences, length, hidden): of the embeddings, then of every layer.

        `ids` is (sentences, length) int64, `mask` bool of the same shape: False for padding.
        """
        count, length = ids.shape
        words = self.weight("embeddings.word_embeddings.weight")
        (found,) = self.ops("embedding", ids.flatten(), words, 1.0)
        places = self.weight("embeddings.position_embeddings.weight")[:length]
        segment = self.weight("embeddings.token_type_embeddings.weight")[0]
        x = found.reshape(count, length, -1).float() + places.float() + segment.float()
        x = self._normed(x.to(self.ops.low), "embeddings.LayerNorm")
        states = [x]
        for layer in range(self.sizes.layers):
            name = _BLOCK.format(layer)
            mixed = self._attention(x, mask, name + "attention.self.")
            out = self._linear(mixed, name + "attention.output.dense")
            x = self._normed(x + out, name + "attention.output.LayerNorm")
            dense = name + "intermediate.dense"
            flat, matrix = x.flatten(0, 1).contiguous(), self._matrix(dense)
            (inner,) = self.ops("gemm_bias_gelu", flat, matrix, self.weight(dense + ".bias"))
            out = self._linear(inner.reshape(*x.shape[:2], -1), name + "output.dense")
            x = self._normed(x + out, name + "output.LayerNorm")
            states.append(x)
        return states

    def _attention(self, x: torch.Tensor, mask: torch.Tensor, name: str) -> torch.Tensor:
        count, length, hidden = x.shape
        heads, dim = self.sizes.heads, hidden // self.sizes.heads

        def split(part: str) -> torch.Tensor:
            found = self._linear(x, name + part).reshape(count, length, heads, dim)
            return found.transpose(1, 2).reshape(count * heads, length, dim).contiguous()

        q, k, v = map(split, ("query", "key", "value"))
        (scores,) = self.ops("batched_gemm", q, k.transpose(1, 2).contiguous())
        seen = mask[:, None, None, :].expand(count, heads, length, length).reshape(-1, length)
        rows = scores.reshape(-1, length)
        (shares,) = self.ops("softmax_masked", rows, seen.contiguous(), 1.0 / math.sqrt(dim))
        (out,) = self.ops("batched_gemm", shares.reshape(scores.shape), v)
        return out.reshape(count, heads, length, dim).transpose(1, 2).reshape(x.shape)

    def _linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        (out,) = self.ops("linear", x.flatten(0, 1).contiguous(), self._matrix(name))
        biased = out.float() + self.weight(name + ".bias").float()
        return biased.to(x.dtype).reshape(*x.shape[:2], -1)

    def _matrix(self, name: str) -> torch.Tensor:
        return self.weight(name + ".weight").T.contiguous()

    def _normed(self, x: torch.Tensor, name: str) -> torch.Tensor:
        gain, shift = self.weight(name + ".weight"), self.weight(name + ".bias")
        (out,) = self.ops("layernorm", x.flatten(0, 1).contiguous(), gain, shift, EPS)
        return out.reshape(x.shape)

    @torch.no_grad()
    def exact(self, ids: torch.Tensor) -> list[torch.Tensor]:
        """Return the states of one sentence in float64, (length, hidden), weights as they are."""

        def weight(name: str) -> torch.Tensor:
            return self.weight(name).double()

        def linear(x: torch.Tensor, name: str) -> torch.Tensor:
            return functional.linear(x, weight(name + ".weight"), weight(name + ".bias"))

        def norm(x: torch.Tensor, name: str) -> torch.Tensor:
            gain, shift = weight(name + ".weight"), weight(name + ".bias")
            return functional.layer_norm(x, x.shape[-1:], gain, shift, EPS)

        words = weight("embeddings.word_embeddings.weight")[ids]
        places = weight("embeddings.position_embeddings.weight")[: len(ids)]
        segment = weight("embeddings.token_type_embeddings.weight")[0]
        x = norm(words + places + segment, "embeddings.LayerNorm")
        states, heads = [x], self.sizes.heads
        for layer in range(self.sizes.layers):
            name = _BLOCK.format(layer)
            q, k, v = (
                linear(x, f"{name}attention.self.{part}").reshape(len(ids), heads, -1)
                for part in ("query", "key", "value")
            )
            scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
            mixed = torch.einsum("hqk,khd->qhd", torch.softmax(scores, dim=-1), v)
            out = linear(mixed.flatten(1), name + "attention.output.dense")
            x = norm(x + out, name + "attention.output.LayerNorm")
            inner = functional.gelu(linear(x, name + "intermediate.dense"))
            x = norm(x + linear(inner, name + "output.dense"), name + "output.LayerNorm")
            states.append(x)
        return states


def pooled(states: torch.Tensor) -> torch.Tensor:
    """Return the embedding of one sentence's last states, (length, hidden), at unit length."""
    return functional.normalize(states.double().mean(dim=0), dim=0)
