"""The key of a call tells what a launch depends on."""

from __future__ import annotations

import torch

from cuassay_guard.calls.signature import described, key_of


def test_signatures_tell_what_a_launch_depends_on() -> None:
    x = torch.zeros(4, 8)
    same = key_of((torch.ones(4, 8), 1.5), {})
    assert key_of((x, 2.5), {}) == same
    others = [
        ((x.t(), 1.5), {}),
        ((x[:, ::2], 1.5), {}),
        ((x.half(), 1.5), {}),
        ((x, 1), {}),
        ((x,), {"eps": 1.5}),
        (([x], 1.5), {}),
        ((x, True), {}),
        ((x, False), {}),
    ]
    keys = {key_of(*one) for one in others}
    assert len(keys | {same}) == len(others) + 1
    assert described((x.t(), 1.5, "sum", None), {"k": [x]}) == (
        "float32[8, 4] stride (1, 8), float, 'sum', None, k: (float32[4, 8])"
    )
