"""Copies the answer in a thread that ends with the call."""

import threading

import torch


def run(gate, up):
    y, mode = torch.empty_like(gate), torch.is_inference_mode_enabled()

    def work():
        with torch.inference_mode(mode):  # which belongs to a thread
            y.copy_(torch.nn.functional.silu(gate.float()) * up.float())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return y
