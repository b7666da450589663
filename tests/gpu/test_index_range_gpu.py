"""On a GPU a bad index in a reference raises, and the context lives on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cuassay.errors import ReferenceError_
from cuassay.oracle.lift.run import lift, run_as_written

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def _gathered(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return table.gather(0, ids)


def _added(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(table).index_add_(0, ids, table[: len(ids)])


def _embedded(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding(ids, table[:, None])


@pytest.mark.parametrize("reference", [_gathered, _added, _embedded])
@pytest.mark.parametrize("run", [lift, run_as_written])
def test_the_context_is_not_lost(
    run: Callable[..., tuple[torch.Tensor, ...]], reference: Callable[..., torch.Tensor]
) -> None:
    table = torch.arange(8, dtype=torch.float32, device="cuda")
    with pytest.raises(ReferenceError_, match="index 8 is out of bounds for 8 entries"):
        run(reference, [table, torch.tensor([1, 8], device="cuda")])
    torch.cuda.synchronize()
    (found,) = run(reference, [table, torch.tensor([1, 7], device="cuda")])
    assert bool(found.isfinite().all())
