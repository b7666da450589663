"""Slices of results, results that their owner overwrites, and views that outlive their tensors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import torch

from cuassay.model.device import CPU
from cuassay.model.steps import KeepMemory, Overwrite, ReadSlices
from cuassay.sandbox.guest.callers import slices

if TYPE_CHECKING:
    from cuassay.sandbox.guest.interface import Host

Held = list[tuple[str, object]]


def _host(held: Held) -> Host:
    return cast("Host", SimpleNamespace(device=CPU, result=lambda name: held))


def test_slices_along_an_axis_are_sent_and_what_has_none_is_described() -> None:
    held: Held = [
        ("y", torch.arange(12.0).reshape(3, 4)),
        ("short", torch.zeros(3, 2)),
        ("flat", torch.zeros(3)),
        ("word", "text"),
    ]
    made = slices.read(_host(held), ReadSlices(result="r", axis=1, places=(0, 3)))
    assert [item.buffer for item in made.items] == [0, -1, -1, -1]
    assert made.items[0].shape == (3, 2)
    (sent,) = made.tensors
    assert sent.tolist() == [[0.0, 3.0], [4.0, 7.0], [8.0, 11.0]]
    assert sent.is_contiguous()


def test_an_owner_overwrites_in_place_without_a_version() -> None:
    plain, across = torch.zeros(2, 3), torch.zeros(3, 2).t()
    expanded, before = torch.zeros(1).expand(4), plain._version
    held: Held = [("a", plain), ("b", across), ("c", expanded), ("d", 1.5), ("e", torch.empty(0))]
    slices.overwrite(_host(held), Overwrite(result="r"))
    assert bool((plain.view(torch.uint8) == 0xFF).all())
    assert bool(across.isnan().all())
    assert torch.equal(expanded, torch.zeros(4))  # its elements share memory: nobody may write
    assert plain._version == before


def test_a_view_holds_the_memory_and_not_the_tensor() -> None:
    first = torch.arange(6.0).reshape(2, 3)[:, 1:]
    held: Held = [("y", first), ("n", 3)]
    slices.keep_memory(_host(held), KeepMemory(result="r"))
    view = held[0][1]
    assert isinstance(view, torch.Tensor)
    assert view is not first
    assert view.data_ptr() == first.data_ptr()
    assert view.stride() == first.stride()
    assert torch.equal(view, first)
    assert view._base is None  # autograd knows of no view
    assert held[1] == ("n", 3)
