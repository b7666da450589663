"""What a verdict says of how ranks were brought together."""

from __future__ import annotations

import pytest

from cuassay.catalog import registry
from cuassay.judge.deciding import ranks_condition


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        (0, "with 2, 3, 4 ranks in cuassay's own process group on a CPU; NCCL and GPU memory"),
        (0, "not tried with several ranks are streams, CUDA graphs, layouts"),
        (1, "with 2, 3, 4 ranks in cuassay's own process group, sharing 1 GPU; NCCL was not"),
        (1, "not tried with several ranks are CUDA graphs, layouts"),
        (2, "not tried with several ranks are layouts, gradients"),
        (2, "with 2 ranks by NCCL on the GPUs of one host, without NVLink multicast, and 3, 4 "),
        (2, "and 3, 4 ranks in cuassay's own process group, sharing 2 GPUs; not tried with"),
        (4, "with 2, 3, 4 ranks by NCCL on the GPUs of one host, without NVLink multicast; not"),
        (4, "and races of kernels that meet in memory: ptxsan run --devices 2 finds these"),
    ],
)
def test_the_condition_says_which_ranks_shared_a_gpu(gpus: int, said: str) -> None:
    assert said in ranks_condition(registry.get("all_reduce"), gpus)


def test_a_call_of_one_process_has_no_such_condition() -> None:
    assert ranks_condition(registry.get("rmsnorm"), 0) == ""
