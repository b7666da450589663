"""What a slot says of itself: where the outputs of a call on its inputs belong."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from cuassay.model.device import Device
from cuassay.sandbox.guest.interface import Slot
from tests.support.fake_trial import scaled_add


@pytest.mark.parametrize(
    ("lie", "usual", "belong"),
    [
        (("cuda:1", "cuda:1"), "cuda", "cuda:1"),  # as DEVICE001 moves them
        (("cuda:0", "cuda:0"), "cuda", "cuda"),
        (("cuda:1", "cuda:1"), "cuda:1", "cuda:1"),  # a rank's own GPU
        (("cuda:0", "cuda:1"), "cuda", "cuda"),
        (("cpu", "cpu"), "cpu", "cpu"),
    ],
)
def test_outputs_belong_where_all_inputs_lie(lie: tuple[str, ...], usual: str, belong: str) -> None:
    with FakeTensorMode():
        values = {f"x{n}": torch.empty(2, device=place) for n, place in enumerate(lie)}
        slot = Slot(case=scaled_add().cases("small")[0], values={**values, "gain": 2.0})
        assert slot.device(Device(usual)) == belong
