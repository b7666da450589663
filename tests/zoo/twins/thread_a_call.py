"""Copies the answer in a thread that ends with the call."""

import threading

import torch


def run(gate, up):
    y = torch.empty_like(gate)

    def work():
        y.copy_(torch.nn.functional.silu(gate.float()) * up.float())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return y
