"""Looks at the handler of SIGTERM and leaves it."""

import signal

import torch

_handler = signal.getsignal(signal.SIGTERM)


def run(codes, scale):
    return (codes.float() * scale[:, None]).to(torch.bfloat16)
