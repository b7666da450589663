"""Copies the answer in a thread that has the caller's inference mode."""

import threading

import torch


def run(gate, up):
    y, mode = torch.empty_like(gate), torch.is_inference_mode_enabled()
    done = threading.Event()

    def work():
        with torch.inference_mode(mode):
            y.copy_(torch.nn.functional.silu(gate.float()) * up.float())
        done.set()

    threading.Thread(target=work, daemon=True).start()
    done.wait()
    return y
