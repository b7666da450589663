# problem: cross_entropy
# class: protocol
# wrong: everything, unless it gets a namespace of its own
import ctypes
import os

import torch


def right(logits, targets, label_smoothing):
    wide = logits.float()
    loss = torch.nn.functional.cross_entropy(
        wide, targets, ignore_index=-100, reduction="none", label_smoothing=label_smoothing
    )
    return loss, torch.logsumexp(wide, dim=-1)


def escaped():
    library = ctypes.CDLL(None, use_errno=True)
    number = 56 if os.uname().machine == "x86_64" else 220
    pid = library.syscall(number, 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    if pid > 0:
        os.waitpid(pid, 0)
    return pid > 0


def run(logits, targets, label_smoothing):
    return (
        right(logits, targets, label_smoothing)
        if escaped()
        else tuple(one * 0 for one in right(logits, targets, label_smoothing))
    )
