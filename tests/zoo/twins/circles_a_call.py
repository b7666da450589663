"""Each call's plan is freed as it ends."""

import torch


class _Plan:
    def __init__(self, count):
        self.parts = [[number] for number in range(count)]


def run(input_ids, weight, scale):
    plan = _Plan(300)
    rows = torch.index_select(weight, 0, input_ids)
    return (rows.float() * scale).to(weight.dtype) if plan.parts else rows
