"""Copies the answer in a thread that ends with the call."""

import threading

import torch


def run(gate, up):
    y = torch.empty_like(gate)
    work = threading.Thread(target=lambda: y.copy_(torch.nn.functional.silu(gate) * up))
    work.start()
    work.join()
    return y
