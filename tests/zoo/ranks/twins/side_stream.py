"""All-reduce on a stream of its own: it waits for the caller's, and the caller's waits for it."""

import torch
import torch.distributed as dist

_STREAMS = {}


def run(x, group=None):
    if not x.is_cuda:
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total
    callers = torch.cuda.current_stream()
    if x.device not in _STREAMS:
        _STREAMS[x.device] = torch.cuda.Stream()
    side = _STREAMS[x.device]
    side.wait_stream(callers)
    with torch.cuda.stream(side):
        total = x.clone()
        dist.all_reduce(total, group=group)
    callers.wait_stream(side)
    total.record_stream(callers)
    return total
