"""What holds a candidate: namespaces of the zygote, then bounds that each worker puts on itself.

The zygote enters its namespaces once, before it has threads; a worker, forked from it, gives
up capabilities, write access outside its folders and signals to others. Each measure is tried
and its outcome recorded, since containers and older kernels refuse some.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cuassay.sandbox import syscalls as kernel
from cuassay.sandbox.limits import Limits

_NAMESPACES = (
    kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET | kernel.CLONE_NEWNS,
    kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET,
    kernel.CLONE_NEWNET | kernel.CLONE_NEWNS,
    kernel.CLONE_NEWNET,
)
OK = "yes"
_SHARED_MEMORY = "/dev/shm"


def enter_namespaces(hide: Sequence[str]) -> dict[str, str]:
    """Leave the network and cover the folders in `hide`. Must run single-threaded.

    Returns measure -> "yes", or why not.
    """
    uid, gid = os.getuid(), os.getgid()
    entered, why = 0, ""
    for flags in _NAMESPACES:
        try:
            kernel.unshare(flags)
        except OSError as error:
            why = f"no: {error.strerror}"
            continue
        entered = flags
        break
    report = {"network namespace": OK if entered else why, "user namespace": "no"}
    if entered & kernel.CLONE_NEWUSER:
        report["user namespace"] = _outcome(lambda: kernel.map_own_ids(uid, gid))
    # Semaphores and shared tensors need /dev/shm: an own one leaves nothing behind.
    report["private shared memory"] = _hide([_SHARED_MEMORY], entered)
    report["hidden folders"] = _hide(hide, entered)
    return report


def _hide(folders: Sequence[str], entered: int) -> str:
    if not entered & kernel.CLONE_NEWNS:
        return "no: no mount namespace"
    outcome = _outcome(kernel.make_mounts_private)
    for folder in folders:
        if outcome == OK and os.path.isdir(folder):
            outcome = _outcome(lambda folder=folder: kernel.cover(folder))  # type: ignore[misc]
    return outcome


def _outcome(measure: Callable[[], object]) -> str:
    try:
        measure()
    except OSError as error:
        return f"no: {error.strerror or error}"
    return OK


def restrict(
    limits: Limits, *, device: str, writable: Sequence[str], namespaces: Mapping[str, str]
) -> dict[str, str]:
    """Bound the calling worker process for good; returns measure -> "yes", or why not.

    `namespaces` is what enter_namespaces returned.
    """
    own_users = namespaces.get("user namespace") == OK
    if namespaces.get("private shared memory") == OK:
        writable = (*writable, _SHARED_MEMORY)
    report = {
        "no new privileges": _outcome(kernel.forbid_new_privileges),
        "no capabilities": _outcome(kernel.drop_capabilities),
    }
    report |= _landlock(writable)
    report["resource limits"] = _outcome(lambda: _set_limits(limits, device, own_users))
    return report


def _landlock(writable: Sequence[str]) -> dict[str, str]:
    version = 0

    def apply() -> None:
        nonlocal version
        version = kernel.landlock(writable)

    outcome = _outcome(apply)
    signals = OK if version >= 6 else f"no: Landlock {version}, needs 6"
    return {"writes confined": outcome, "signals confined": signals}


def _set_limits(limits: Limits, device: str, own_users: bool) -> None:
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
    }
    if device == "cpu":  # the CUDA driver reserves far more address space than it uses
        bounds[resource.RLIMIT_DATA] = limits.memory_bytes
    if own_users and os.getuid() != 0:  # root is exempt; without a namespace others count too
        bounds[resource.RLIMIT_NPROC] = limits.processes * 4  # threads count as well
    for kind, wanted in bounds.items():
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))
    # A write past RLIMIT_FSIZE then fails with EFBIG instead of ending the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def capabilities() -> Mapping[str, str]:
    """Return what this machine enforces: measure -> "yes", or why not (for `doctor`).

    Tried in a child process of its own, which ends at once.
    """
    command = [sys.executable, "-P", "-m", "cuassay.sandbox.guest.walls"]
    root = str(Path(__file__).resolve().parents[3])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=dict(os.environ, PYTHONPATH=root),
    )
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return {"sandbox": f"no: {done.stderr.strip()[-200:]}"}
    return {str(name): str(outcome) for name, outcome in found.items()}


def _main() -> None:
    report = enter_namespaces(())
    report |= restrict(Limits(), device="cpu", writable=("/tmp",), namespaces=dict(report))
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    _main()
