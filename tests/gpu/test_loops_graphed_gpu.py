"""Decoding from a CUDA graph on a GPU: a kernel that can be captured, and two that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cuassay.formats import load_candidate
from cuassay.model.device import CUDA
from cuassay_loops import presets, sites
from cuassay_loops.infer import graphed
from cuassay_loops.infer.graphed import Graphed
from cuassay_loops.kernels import IsolatedKernel
from cuassay_loops.model.operators import Operators
from cuassay_loops.model.transformer import Transformer
from cuassay_loops.text.corpus import corpus

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
_HEAD = """
import torch

def attend(q, k_cache, v_cache, block_table, positions, scale, longest):
    pages, page, kv_heads, dim = k_cache.shape
    keys = k_cache[block_table.long()].flatten(1, 2)[:, :longest].float()
    values = v_cache[block_table.long()].flatten(1, 2)[:, :longest].float()
    group = q.shape[1] // kv_heads
    shaped = q.float().reshape(len(q), kv_heads, group, dim)
    scores = torch.einsum("bhgd,bkhd->bhgk", shaped, keys) * scale
    seen = torch.arange(keys.shape[1], device=q.device) <= positions[:, None]
    scores = scores.masked_fill(~seen[:, None, None], float("-inf"))
    shares = torch.softmax(scores, -1).to(q.dtype).float()
    values = values.masked_fill(~seen[:, :, None, None], 0.0)
    return torch.einsum("bhgk,bkhd->bhgd", shares, values).reshape(q.shape).to(q.dtype)

_kept = []
"""
_SIGNATURE = "def run({}):\n"


def _kernel(body: str, names: list[str]) -> str:
    return _HEAD + _SIGNATURE.format(", ".join(names)) + body.format(*names)


_ALL = "    return attend({0}, {1}, {2}, {3}, {4}, {5}, None)\n"
# The number of keys is read on the host: a capture is refused.
_SYNCS = "    return attend({0}, {1}, {2}, {3}, {4}, {5}, int({4}.max()) + 1)\n"
# A capture takes the number that the last plain call found: its replays see too few keys.
_FROZEN = (
    "    if not torch.cuda.is_current_stream_capturing():\n"
    "        _kept[:] = [int({4}.max()) + 1]\n"
    "    return attend({0}, {1}, {2}, {3}, {4}, {5}, _kept[0])\n"
)


def _graphed(body: str, folder: Path) -> Graphed:
    site, preset = sites.find_site("attention_decode"), presets.preset("tiny")
    problem = sites.site_problem(site, "bf16", vocab=preset.vocab)
    path = folder / "kernel.py"
    path.write_text(_kernel(body, [spec.name for spec in problem.inputs]))
    ops = Operators(precision="bf16", vocab=preset.vocab, device=CUDA)
    torch.manual_seed(0)
    model = Transformer(preset, ops).to("cuda")
    with IsolatedKernel(load_candidate(str(path), problem), problem, device=CUDA) as kernel:
        return graphed.decode_graphed(kernel, site, model, corpus("uniform", preset.vocab), seed=2)


def test_a_kernel_that_can_be_captured(tmp_path: Path) -> None:
    found = _graphed(_ALL, tmp_path)
    assert found.condition == "", found.told
    assert "replays give" in found.told


def test_a_kernel_that_reads_on_the_host_cannot_be_captured(tmp_path: Path) -> None:
    found = _graphed(_SYNCS, tmp_path)
    assert "cannot be captured" in found.told
    assert found.condition


def test_what_the_host_froze_is_wrong_where_plain_calls_are_right(tmp_path: Path) -> None:
    found = _graphed(_FROZEN, tmp_path)
    assert "replays are wrong" in found.told
    assert found.condition
