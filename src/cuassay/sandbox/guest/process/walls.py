"""What holds a candidate: namespaces of the zygote, then bounds that each worker puts on itself.

The zygote enters its namespaces once, before it has threads; a worker, forked from it, gives
up capabilities, write access outside its folders and signals to others. Each measure is tried
and its outcome recorded, since containers and older kernels refuse some.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cuassay.model import walls
from cuassay.model.device import CPU, Device
from cuassay.sandbox import filter
from cuassay.sandbox import syscalls as kernel
from cuassay.sandbox.limits import Limits

_NAMESPACES = (
    kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET | kernel.CLONE_NEWNS,
    kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET,
    kernel.CLONE_NEWNET | kernel.CLONE_NEWNS,
    kernel.CLONE_NEWNET,
)
OK = walls.STANDS
_SHARED_MEMORY = "/dev/shm"
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
# Not there counts: what is hidden cannot be climbed to.
_REFUSALS = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ESRCH, errno.EROFS)


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
    report[walls.SHARED] = _hide([_SHARED_MEMORY], entered)
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


def enter_own_network() -> dict[str, str]:
    """Let this process and its children reach one another, and nobody else.

    By a network of their own, sockets without a path, and signals. Returns measure -> "yes", or
    why not.
    """

    def enter() -> None:
        kernel.unshare(kernel.CLONE_NEWNET)
        kernel.raise_loopback()

    def keep_together() -> None:
        kernel.forbid_new_privileges()
        kernel.landlock_scopes()

    return {walls.NETWORK: _outcome(enter), walls.SIGNALS: _outcome(keep_together)}


def restrict(
    limits: Limits,
    *,
    device: Device,
    writable: Sequence[str],
    readable: Sequence[str],
    namespaces: Mapping[str, str],
) -> dict[str, str]:
    """Bound the calling worker process for good; returns measure -> "yes", or why not.

    `namespaces` is what enter_namespaces returned. `readable` is what it may read beside what
    it may write. Must run before the process has threads; `filter_calls` comes after them.
    """
    own_users = namespaces.get("user namespace") == OK
    if namespaces.get(walls.SHARED) == OK or limits.connects:  # ranks share it by NCCL
        writable = (*writable, _SHARED_MEMORY)
    report = {
        walls.PRIVILEGES: _outcome(kernel.forbid_new_privileges),
        walls.CAPABILITIES: _outcome(kernel.drop_capabilities),
    }
    version = 0

    def apply() -> None:
        nonlocal version
        version = kernel.landlock(writable, readable, connects=limits.connects)

    outcome = _outcome(apply)
    signals = OK if version >= 6 else f"no: Landlock {version}, needs 6"
    report |= {walls.WRITES: outcome, walls.READS: outcome, walls.SIGNALS: signals}
    report[walls.RESOURCES] = _outcome(lambda: _set_limits(limits, device, own_users))
    return report


def filter_calls(*, connects: bool = False) -> dict[str, str]:
    """Refuse calls that reach the host to every thread of this process, for good.

    With `connects` not those of sockets.
    """
    return {walls.SOCKETS: _outcome(lambda: filter.refuse_host_calls(connects=connects))}


def climb(outside: str, judge: int) -> dict[str, str]:
    """Try every wall that can be tried; returns wall -> "yes" where it stood, or what fell.

    `outside` is a folder of the judge's with a file `inside`, `judge` the judge's process.
    """
    # Try to connect to this machine, which needs no route: an answer of any kind came from it
    try:
        with socket.create_connection(("127.0.0.1", 9), timeout=1.0):
            closed_network = "no: a connection was made"
    except OSError as error:
        reached = error.errno in (errno.ECONNREFUSED, errno.ETIMEDOUT, None)
        closed_network = "no: this machine's ports can be reached" if reached else OK
    return {
        walls.WRITES: _refused(lambda: os.close(os.open(f"{outside}/climbed", _MAKE, 0o600))),
        walls.READS: _refused(lambda: os.close(os.open(f"{outside}/inside", os.O_RDONLY))),
        walls.MEMORY: _closed_memory(judge),
        walls.SIGNALS: _refused(lambda: os.kill(judge, 0)),
        walls.NETWORK: closed_network,
        walls.SOCKETS: _refused(lambda: socket.socket(socket.AF_UNIX).close()),
    }


def _refused(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except OSError as error:
        return OK if error.errno in _REFUSALS else f"no: {error.strerror}"
    return "no: an attempt to climb it succeeded"


def _closed_memory(judge: int) -> str:
    """Try to read and to open the judge's memory."""
    opened = _refused(lambda: os.close(os.open(f"/proc/{judge}/mem", os.O_RDWR)))
    if opened != OK:
        return opened
    try:
        kernel.read_memory(judge, 0, 1)
    except OSError as error:
        return OK if error.errno in _REFUSALS else f"no: {error.strerror}"
    return "no: its memory was read"


def _set_limits(limits: Limits, device: Device, own_users: bool) -> None:
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CPU: limits.processor_s,
    }
    if not device.on_gpu:  # the CUDA driver reserves far more address space than it uses
        bounds[resource.RLIMIT_DATA] = limits.memory_bytes
    if own_users and os.getuid() != 0:  # root is exempt; without a namespace others count too
        bounds[resource.RLIMIT_NPROC] = limits.processes * 4  # threads count as well
    for kind, wanted in bounds.items():
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))
    # A write past RLIMIT_FSIZE then fails with EFBIG instead of ending the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def standing(measures: Mapping[str, str], climbed: Mapping[str, str]) -> dict[str, str]:
    """Return the outcome of every wall: what climbing showed, with the measure's reason why not."""
    found = dict(measures) | dict(climbed)
    if walls.NETWORK in measures:  # in its own network its own ports may be reached
        found[walls.NETWORK] = measures[walls.NETWORK]
    for name, outcome in climbed.items():
        if outcome != OK and measures.get(name, OK) != OK:
            found[name] = measures[name]
    return found


def _main() -> None:
    """Print what holds here as JSON: this process is the judge, a fork of it the candidate's."""
    from cuassay.sandbox.readable import readable

    with tempfile.TemporaryDirectory() as outside:
        Path(outside, "inside").write_text("a secret", encoding="ascii")
        own = Path(outside, "own")
        own.mkdir()
        paths = readable(os.environ, device=CPU)
        kernel.set_dumpable(False)
        reader, writer = os.pipe()
        if os.fork() == 0:
            kernel.set_dumpable(True)
            found = enter_namespaces(())
            found |= restrict(
                Limits(), device=CPU, writable=(str(own),), readable=paths, namespaces=found
            )
            found |= filter_calls()
            found = standing(found, climb(outside, os.getppid()))
            os.write(writer, json.dumps(found).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            sys.stdout.write(answer.read().decode())
        os.wait()


if __name__ == "__main__":
    _main()
