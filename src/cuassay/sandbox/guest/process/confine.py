"""Confines a fork of `apart`; imported in that fork alone, and forgotten before it loads."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
from typing import Any

from cuassay.model.device import Device
from cuassay.model.walls import SHARED
from cuassay.sandbox import syscalls as kernel
from cuassay.sandbox.guest.process import guise, walls
from cuassay.sandbox.limits import Limits


def confine(request: dict[str, Any]) -> dict[str, str]:
    """Bound the calling process for good; returns wall -> "yes", or why it does not stand.

    `request` is what `host.apart.Plain.spawn` sends.
    """
    kernel.set_dumpable(True)
    kernel.die_with_parent(signal.SIGKILL)
    folder, device = request["folder"], Device(request["device"])
    with open(request["readable"], encoding="utf-8") as file:
        readable = json.load(file)
    namespaces = walls.enter_namespaces(request["hide"])
    if "guise" in request and namespaces[SHARED] == walls.OK:
        folder = guise.move(folder)
    for name, place in request["variables"].items():
        os.environ[name] = os.path.normpath(os.path.join(folder, place))
    for name in request["without"]:
        os.environ.pop(name, None)
    os.chdir(folder)
    tempfile.tempdir = None
    report = namespaces | walls.restrict(
        Limits(**request["limits"]),
        device=device,
        writable=(folder,),
        readable=readable,
        namespaces=namespaces,
    )
    if device.on_gpu:
        import torch

        with contextlib.suppress(Exception):  # told by the call that needs it
            torch.zeros(1, device=device)
            torch.cuda.synchronize()
    report |= walls.filter_calls()
    return walls.standing(report, walls.climb(request["outside"], request["judge"]))
