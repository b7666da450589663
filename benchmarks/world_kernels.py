"""Kernels of the world as candidates of catalogue problems: `world.py` judges them.

An adapter calls what a package has under the name that its users know, with the problem's inputs;
it computes nothing itself. Each is written as a file that finds the package in a folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HEAD = '''"""{what}"""

import sys

sys.path.insert(0, {folder!r})

import torch
'''
_TRANSFORMERS_NORM = """
from torch import nn
from {module} import {norm}


def run(x, weight, eps):
    norm = {norm}(x.shape[-1], eps=eps)
    norm.weight = nn.Parameter(weight, requires_grad=False)
    with torch.no_grad():
        return norm(x)
"""
_TRANSFORMERS_GATED = """
from transformers.activations import ACT2FN


def run(gate, up):
    return ACT2FN[{name!r}](gate) * up
"""
_ATTENTION = """
from types import SimpleNamespace

from {module} import eager_attention_forward


def run(q, k, v, scale{more}):
    module = SimpleNamespace(num_key_value_groups=q.shape[1] // k.shape[1], training=False)
    queries, keys = q.shape[2], k.shape[2]
    last = torch.arange(queries, device=q.device)[:, None] + keys - queries
    places = torch.arange(keys, device=q.device)
    seen = {seen}
    mask = torch.where(seen, 0.0, torch.finfo(q.dtype).min).to(q.dtype)[None, None]
    output, _ = eager_attention_forward(module, q, k, v, mask, {scale})
    return output.transpose(1, 2).contiguous()
"""
_ROPE = """
from {module} import apply_rotary_pos_emb


def run(q, k, cos, sin, position_ids):
    cos, sin = (torch.cat((t, t), -1)[position_ids].to(q.dtype)[None] for t in (cos, sin))
    q, k = (t.transpose(0, 1)[None] for t in (q, k))
    q, k = apply_rotary_pos_emb(q, k, cos, sin)
    return tuple(t[0].transpose(0, 1).contiguous() for t in (q, k))
"""
_GPTJ = """
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb


def run(q, k, cos, sin, position_ids):
    cos, sin = (t[position_ids].to(q.dtype)[None] for t in (cos, sin))
    return tuple(apply_rotary_pos_emb(t[None], sin, cos)[0] for t in (q, k))
"""
_HALVES = ("bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A package's kernel as a candidate. `text` defines `run` over the problem's inputs."""

    name: str
    problem: str
    package: str
    text: str
    dtypes: tuple[str, ...] = _HALVES

    def written(self, folder: Path, packages: Path) -> Path:
        """Write the candidate into a folder and return its file."""
        path = folder / f"{self.package}_{self.name}.py"
        what = f"{self.name} of {self.package}."
        path.write_text(_HEAD.format(what=what, folder=str(packages.resolve())) + self.text)
        return path


def _transformers() -> Iterator[Adapter]:
    def adapter(name: str, problem: str, text: str) -> Adapter:
        return Adapter(name=name, problem=problem, package="transformers", text=text)

    for model, norm in (
        ("llama", "LlamaRMSNorm"),
        ("qwen2", "Qwen2RMSNorm"),
        ("t5", "T5LayerNorm"),
        ("mixtral", "MixtralRMSNorm"),
        ("olmo2", "Olmo2RMSNorm"),
    ):
        module = f"transformers.models.{model}.modeling_{model}"
        yield adapter(norm, "rmsnorm", _TRANSFORMERS_NORM.format(module=module, norm=norm))
    for model in ("llama", "qwen2", "gpt_neox", "olmo2"):
        module = f"transformers.models.{model}.modeling_{model}"
        yield adapter(f"rotary_{model}", "rope_neox", _ROPE.format(module=module))
    yield adapter("rotary_gptj", "rope_interleaved", _GPTJ)
    yield adapter("silu", "swiglu", _TRANSFORMERS_GATED.format(name="silu"))
    yield adapter("gelu_tanh", "geglu", _TRANSFORMERS_GATED.format(name="gelu_pytorch_tanh"))
    yield adapter("gelu_new", "geglu", _TRANSFORMERS_GATED.format(name="gelu_new"))
    causal = {"seen": "places <= last", "scale": "scaling=scale", "more": ""}
    for model in ("llama", "qwen2"):
        module = f"transformers.models.{model}.modeling_{model}"
        yield adapter(f"attention_{model}", "attention", _ATTENTION.format(module=module, **causal))
    window = {
        "seen": "(places <= last) & (places > last - window)",
        "scale": "scaling=scale, softcap=cap",
        "more": ", cap, window",
        "module": "transformers.models.gemma2.modeling_gemma2",
    }
    yield adapter("attention_gemma2", "attention_window_softcap", _ATTENTION.format(**window))


ADAPTERS = tuple(_transformers())
