"""Steps between 8-bit codes: their direction, and how many of a group may differ."""

from __future__ import annotations

import torch

from cuassay.oracle.compare.groups import group_kinds
from cuassay.oracle.truth.codes import FAR, CodeCounts, code_steps, count_steps

NAN = float("nan")


def test_steps_lead_away_from_zero_or_toward_it() -> None:
    want = torch.tensor([1.0, -1.0, 0.0, -0.0, NAN, 448.0, 2.0**-9]).to(torch.float8_e4m3fn)
    got = torch.tensor([1.125, -1.25, -(2.0**-9), 0.0, NAN, NAN, -(2.0**-9)])
    steps = code_steps(got.to(torch.float8_e4m3fn), want)
    assert steps.tolist() == [1, 2, 1, 0, 0, FAR, -2]
    whole = torch.tensor([5, -5, 0, 127], dtype=torch.int8)
    other = torch.tensor([3, -6, -1, 127], dtype=torch.int8)
    assert code_steps(other, whole).tolist() == [-2, 1, 1, 0]


def test_counts_of_the_tensor_and_of_each_slice_stand_side_by_side() -> None:
    steps = torch.zeros(2, 16, 16, dtype=torch.int16)
    steps[1, 3, :5], steps[0, 0, 0] = -1, 2
    kinds = group_kinds(steps.shape, ("batch", "rows", "columns"), None)
    counts = count_steps(steps, kinds)
    assert [kind.kind for kind in kinds] == ["tensor", "axis", "axis", "axis", "rows"]
    assert counts.shape == (3, 1 + 2 + 16 + 16 + 32)
    assert counts[:, 0].tolist() == [6, 1, 5]
    assert counts[:, 1:3].tolist() == [[1, 5], [1, 0], [0, 5]]
    assert counts[2, 3:19].tolist() == [0, 0, 0, 5, *[0] * 12]
    assert counts[2, 19:35].tolist() == [1] * 5 + [0] * 11
    assert counts[2, 35 + 16 + 3] == 5


def test_a_slice_may_have_its_share_of_what_the_tensor_may() -> None:
    want = torch.ones(100, 1000).to(torch.float8_e4m3fn)
    got = want.view(torch.int8).clone()
    got[:, ::20] += 1
    counts = CodeCounts(want=want, names=("rows", "columns"))
    counts.take(got.view(want.dtype))
    limits = counts.limits(rounds=True)
    assert limits.sizes == (1, 100, 1000)
    whole, row, column = (limits.allowed[:, first] for first in (0, 1, 102))
    assert limits.share == 0.05
    assert 2.5 * 5000 < whole[0] < 3 * 5000
    assert whole[2] == 2  # none is nearer to zero
    assert 2.5 * 50 < row[0] < 4 * 50
    assert 2.5 * 5 < column[0] < 8 * 5  # of 100, where the tensor's share is 5
    assert limits.reach is not None
    assert int(limits.reach.sum()) == 5000


def test_what_is_not_rounded_may_not_differ() -> None:
    want = torch.ones(16, 16).to(torch.float8_e5m2)
    counts = CodeCounts(want=want, names=("rows", "columns"))
    counts.take(want)
    limits = counts.limits(rounds=False)
    assert not bool(limits.allowed.any())
    assert limits.reach is None
