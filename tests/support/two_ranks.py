"""One rank of two that train on the CPU: `python -m tests.support.two_ranks RANK FOLDER`.

Writes what it saw to FOLDER/RANK.json. In the end rank 1 is gone without a word while rank 0
waits for it in a comparison.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import cuassay
from cuassay_guard.ranks import RankCheck
from tests.support.guards import QUIET, honest, inputs, rmsnorm

PATIENT_S = 300.0  # a loaded machine may take long; nothing waits that long unless a test fails


def nearly(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """The trusted norm with its last element one spacing off: correct, and not bit-equal."""
    out = rmsnorm(x, weight, eps)
    out[-1, -1] = torch.nextafter(out[-1, -1], torch.tensor(torch.inf, dtype=out.dtype))
    return out


def broken(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """A kernel that this rank's device cannot run."""
    raise RuntimeError("no kernel image is available")


def in_place(x: Tensor, weight: Tensor, eps: float = 1e-6) -> None:
    """The trusted norm, written over its input."""
    x.copy_(rmsnorm(x, weight, eps))


def nearly_in_place(x: Tensor, weight: Tensor, eps: float = 1e-6) -> None:
    """The same, one spacing off."""
    x.copy_(nearly(x, weight, eps))


def compared(
    kernel: Callable[..., Any],
    *,
    trusted: Callable[..., Any] = rmsnorm,
    timeout_s: float = PATIENT_S,
    steps: int = 2,
) -> dict[str, Any]:
    """Call a guarded kernel once and compare the ranks; each rank shares its own call in turn."""
    guarded = cuassay.guard(trusted, trusted=trusted, **QUIET)
    check = RankCheck(guarded, every=1, timeout_s=timeout_s)
    guarded(*inputs(seed=torch.distributed.get_rank(), dtype=torch.float32))
    guarded.kernel = kernel
    reports = [check.step() for _ in range(steps)]
    last = guarded.last_violation
    return {
        "agree": [report and report.agree for report in reports],
        "odd": [report and list(report.odd) for report in reports],
        "source": [report and report.source for report in reports],
        "kind": last and last.kind,
        "message": last and last.message,
        "trusted": check.trusted,
        "errors": guarded.stats().errors,
    }


def every_second_step() -> list[bool]:
    """Return which of six steps compared: two before any call, the first of them not due."""
    guarded = cuassay.guard(rmsnorm, trusted=rmsnorm, **QUIET)
    check = RankCheck(guarded, every=2, timeout_s=PATIENT_S)
    before = [check.step() is not None for _ in range(2)]
    guarded(*inputs())
    return before + [check.step() is not None for _ in range(4)]


class Norm(nn.Module):
    """RMSNorm by another formula than the trusted one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 16))
        self.eps = 1e-6

    def forward(self, x: Tensor) -> Tensor:
        """Return the norm of each row."""
        return honest(x, self.weight, self.eps)


def model() -> nn.Sequential:
    """Return the same small model on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 16), Norm(), nn.Linear(16, 4))


def trained(module: nn.Module) -> list[float]:
    """Train three steps on this rank's own rows; return the losses."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    torch.manual_seed(100 + torch.distributed.get_rank())
    losses = []
    for _ in range(3):
        loss = module(torch.randn(8, 16)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def guarded_training(wrap: Callable[[nn.Module], nn.Module]) -> dict[str, Any]:
    """Train with and without a guard below a data-parallel wrapper; return losses and counts."""
    plain = trained(wrap(model()))
    watched = model()
    guards = cuassay.guard_module(
        watched, {"1": {"trusted": rmsnorm, "arguments": ("weight", "eps")}}, **QUIET
    )
    losses = trained(wrap(watched))
    assert guards["1"].flush(PATIENT_S)
    stats = guards["1"].stats()
    return {
        "plain": plain,
        "guarded": losses,
        "checked": stats.checked,
        "bad": stats.violations + stats.errors + stats.undecided + stats.dropped,
    }


def sharded(module: nn.Module) -> nn.Module:
    """Shard a module's parameters over the ranks (FSDP 2)."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for layer in module.children():
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return module


def main(rank: int, folder: Path) -> None:
    """Run every part and write what was seen."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'meeting'}",
        rank=rank,
        world_size=2,
        timeout=datetime.timedelta(seconds=PATIENT_S),
    )
    seen: dict[str, Any] = {
        "twins": compared(honest),
        "differs": compared(nearly if rank else rmsnorm),
        "raises": compared(broken if rank else rmsnorm),
        "in place": compared(nearly_in_place if rank else in_place, trusted=in_place),
        "every second step": every_second_step(),
        "ddp": guarded_training(nn.parallel.DistributedDataParallel),
        "fsdp": guarded_training(sharded),
    }
    # rank 1 is busy elsewhere at the second comparison; the training's own messages go on
    seen["kept waiting"] = compared(honest, timeout_s=1.0, steps=1 if rank else 2)
    total = torch.ones(1)
    torch.distributed.all_reduce(total)
    seen["training goes on"] = total.item() == 2
    seen["left alone"] = compared(honest, timeout_s=30.0, steps=1 if rank else 2)
    (folder / f"{rank}.json").write_text(json.dumps(seen))
    os._exit(0)  # without a word: rank 0 waits for rank 1, and an orderly end would again


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
