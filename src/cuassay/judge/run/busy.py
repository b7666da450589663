"""Another process on the GPU: the judge's own, multiplying matrices while a scenario runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_SIZE = 4096
_PAUSE_S = 0.0005


@contextmanager
def keep_busy(wanted: bool) -> Iterator[None]:
    """Keep the GPU busy from this process while the block runs, where `wanted`."""
    if not wanted or not torch.cuda.is_available():
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(target=_multiply, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _multiply(stop: threading.Event) -> None:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        one = torch.randn(_SIZE, _SIZE, device="cuda", dtype=torch.bfloat16)
        while not stop.wait(_PAUSE_S):
            torch.mm(one, one)
            stream.synchronize()
