"""The screen sees what differs on the device, and learns what was accepted."""

from __future__ import annotations

import pytest
import torch

from cuassay_guard.sampled import screen


def test_the_screen_sees_what_differs_and_learns_what_was_accepted() -> None:
    want = torch.randn(8, 32, generator=torch.Generator().manual_seed(1)).bfloat16()
    allowance = screen.Allowance()
    same = screen.screened(want, want).tolist()
    assert same == [0.0] * len(screen.STATISTICS)
    assert allowance.beyond([same]) == ""
    near = want.clone()
    near[0, 0] = torch.nextafter(want[0, 0], torch.tensor(torch.inf, dtype=torch.bfloat16))
    one = screen.screened(near, want).tolist()
    assert 0.4 < one[1] <= 1.01  # one spacing
    assert allowance.beyond([one]) == "element"
    allowance.accept([one])
    assert allowance.beyond([one]) == ""
    row = want.clone()
    row[3] *= 1.05
    assert allowance.beyond([screen.screened(row, want).tolist()]) != ""
    odd = want.clone()
    odd[0, 0] = torch.nan
    numbers = screen.screened(odd, want).tolist()
    assert numbers[0] == 1
    allowance.accept([numbers])
    assert allowance.beyond([numbers]) == "class"  # never learnt
    places = torch.arange(8)
    assert screen.screened(places.flip(0), places).tolist()[0] == 8


def test_sketches_see_new_magnitudes_and_hot_indices() -> None:
    plain = screen.input_sketch([torch.ones(4), torch.arange(64)]).tolist()
    assert plain == [1.0, 0.0, pytest.approx(1 / 64), 1.0, 0.0]  # then the largest of each
    odd = screen.input_sketch([torch.tensor([3.0, torch.nan]), torch.zeros(64).long()]).tolist()
    assert odd == [3.0, 1.0, 1.0, 3.0, 0.0]
    seen = screen.Range()
    assert not seen.leaves(plain[:3])
    assert not seen.leaves([1.5, 0, 1 / 64])
    assert seen.leaves([4.0, 0, 1 / 64])
    assert not seen.leaves([5.0, 0, 1 / 64])
    assert seen.leaves([1.0, 1, 1 / 64])
