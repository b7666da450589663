"""A kernel that turns wrong during training, and a guard that notices: no GPU, some ten seconds.

    python examples/guarded_training.py

The norm of a small network is right for 300 calls, then one row in each batch is 5 % too large.
The guard falls back to the trusted operator, writes a capsule, and the training goes on.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import nn

import cuassay


def trusted(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return RMSNorm by the book."""
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * scale * module.weight).to(x.dtype)


class Norm(nn.Module):
    """Somebody's fast kernel: right, until it is not."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight, self.calls = nn.Parameter(torch.ones(hidden)), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        out = torch.nn.functional.rms_norm(x, self.weight.shape, self.weight, 1e-6)
        if self.calls <= 300:
            return out
        rows = torch.ones(len(x), 1)
        rows[3] = 1.05
        return out * rows


def main() -> None:
    """Train, and say what the guard saw."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), Norm(64), nn.ReLU(), nn.Linear(64, 8))
    folder = Path(tempfile.mkdtemp(prefix="cuassay-guard-"))
    guards = cuassay.guard_module(
        model, {"1": trusted}, sample=0.05, max_overhead=None, capsules=folder
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    teacher = torch.randn(32, 8)
    for step in range(1000):
        x = torch.randn(16, 32)
        loss = (model(x) - x @ teacher).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 200 == 199:
            print(f"step {step + 1}: loss {loss.item():.3f}, {guards['1'].stats().state}")
    guards["1"].flush()
    found = guards["1"].stats()
    print(f"{found.calls} calls, {found.checked} checks, {found.violations} violations, "
          f"{found.fallbacks} calls served by the trusted operator")  # fmt: skip
    violation = guards["1"].last_violation
    if violation is not None:
        print(violation.message)
        print(f"evidence: cuassay replay {sorted(folder.glob('*'))[0]}")


if __name__ == "__main__":
    main()
