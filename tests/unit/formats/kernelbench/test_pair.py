"""KernelBench files as problems: modules of many layers, and of tensors beside their state."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cuassay.formats.execute import load_reference
from cuassay.formats.kernelbench import pair
from tests.support import trees

_LAYERS = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(features, features) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x) + x * 0.5)
        return x


batch_size = 16
features = 48
depth = 6


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return [features, depth]
"""
_BESIDE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.start = torch.randn(features)
        self.calls = 0

    def forward(self, x):
        self.start = self.start.to(x.device)
        self.calls += 1
        return self.linear(x) + self.start


batch_size = 16
features = 48


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return [features]
"""


def test_a_model_of_many_layers_keeps_them_where_its_sizes_are_reduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At smaller sizes the depth would be smaller too, and the model another one."""
    monkeypatch.setattr(pair, "_FEW_OPERATIONS", 8)
    file = trees.write(tmp_path / "2_Layers.py", _LAYERS)
    problem = pair.load_kernelbench_problem(file, _LAYERS)
    assert sum(name.endswith("weight") for name in problem.state) == 6
    assert dict(problem.workloads[0].axes) == {"batch_size": 16, "features": 48}


def test_what_a_call_without_data_keeps_is_not_kept(tmp_path: Path) -> None:
    file = trees.write(tmp_path / "2_Beside.py", _BESIDE)
    problem = pair.load_kernelbench_problem(file, _BESIDE)
    reference = load_reference(problem).call
    values = [torch.ones(4, 48), torch.eye(48), torch.zeros(48)]

    def call(device: str) -> torch.Tensor:
        made = reference(*(value.to(device) for value in values), 48, 0)
        assert isinstance(made, torch.Tensor)
        return made

    before = call("cpu")
    assert call("meta").is_meta
    assert torch.equal(call("cpu"), before)
