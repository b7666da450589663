"""A device is read from its text in one place, and is that text for torch and documents."""

from __future__ import annotations

import pickle

import pytest
import torch

from cuassay.errors import UsageError
from cuassay.model import serial
from cuassay.model.device import CPU, CUDA, Device


@pytest.mark.parametrize(
    ("text", "kind", "on_gpu", "number"),
    [("cpu", "cpu", False, None), ("cuda", "cuda", True, None), ("cuda:12", "cuda", True, 12)],
)
def test_a_device_says_its_kind_and_number(
    text: str, kind: str, on_gpu: bool, number: int | None
) -> None:
    device = Device(text)
    assert (device.kind, device.on_gpu, device.number) == (kind, on_gpu, number)
    assert device == text == f"{device}"
    assert torch.device(device) == torch.device(text)


@pytest.mark.parametrize(
    "text", ["", "cpu:0", "cuda:", "cuda:x", "cuda:1234", "CPU", "mps", "cuda "]
)
def test_other_texts_are_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(UsageError, match="expected cpu, cuda or cuda:N"):
        Device(text)


def test_documents_keep_the_text_and_read_it_back() -> None:
    assert serial.dumps(CUDA) == '"cuda"'
    again = serial.loads(Device | None, '"cuda:1"')
    assert isinstance(again, Device)
    assert again.number == 1
    assert serial.loads(Device | None, "null") is None
    assert isinstance(serial.loads(Device, '"cpu"'), Device)
    with pytest.raises(UsageError, match="gpu"):
        serial.loads(Device | None, '"gpu"')
    with pytest.raises(UsageError, match="expected one of Device"):
        serial.loads(Device | None, "7")
    assert pickle.loads(pickle.dumps(CPU)).on_gpu is False
