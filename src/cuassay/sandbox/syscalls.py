"""Linux system calls that the standard library of Python 3.11 does not offer, by ctypes."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import os
import signal
import socket
import struct
from collections.abc import Sequence

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_MS_REC, _MS_PRIVATE, _MS_NOSUID, _MS_NODEV = 0x4000, 0x40000, 2, 4
_MS_BIND = 0x1000
_SYS_LANDLOCK = 444  # create_ruleset, add_rule, restrict_self follow one another everywhere
_CAPABILITY_VERSION = 0x20080522
_LAST_CAPABILITY = 63
_CHUNK = 1 << 30
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1

# Landlock access rights (linux/landlock.h): every right that changes a file system.
_WRITE_FILE, _TRUNCATE, _REFER = 1 << 1, 1 << 14, 1 << 13
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
_TCP = 0b11  # bind, connect
_SCOPES = 0b11  # abstract unix sockets, signals
# Executing, reading files, listing folders.
_READ_FILE, _READS = 1 << 2, 1 << 0 | 1 << 2 | 1 << 3
_OF_FILES = _WRITE_FILE | _TRUNCATE | 1 << 0 | _READ_FILE
_DEVICES = ("null", "zero", "full", "random", "urandom", "nvidia*", "nvidia-caps/*")

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def call(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call by its number and return its result. Raises OSError."""
    return _check(_libc.syscall(number, *arguments), f"system call {number}")


def unshare(flags: int) -> None:
    """Enter new namespaces. The process must be single-threaded. Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def map_own_ids(uid: int, gid: int) -> None:
    """Map the caller's ids to themselves in its new user namespace. Raises OSError."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def make_mounts_private() -> None:
    """Keep the mounts of this namespace from the rest of the system. Raises OSError."""
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "mount")


def cover(path: str) -> None:
    """Mount an empty file system over a folder. Raises OSError."""
    flags = _MS_NOSUID | _MS_NODEV
    result = _libc.mount(b"none", os.fsencode(path), b"tmpfs", flags, b"size=1g,mode=700")
    _check(result, f"mount over {path}")


def bind(path: str, place: str) -> None:
    """Let a folder be found at another place too, which is a folder. Raises OSError."""
    result = _libc.mount(os.fsencode(path), os.fsencode(place), None, _MS_BIND, None)
    _check(result, f"mount at {place}")


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Ask for a signal when the thread that made this process ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent dies."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def set_dumpable(dumpable: bool) -> None:
    """Choose whether others of the same user may trace this process or read its memory."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, int(dumpable), 0, 0, 0), "prctl")


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Return bytes of another process's memory. Raises OSError; EFAULT for what it has not."""
    held = ctypes.create_string_buffer(size)
    here = struct.pack("PN", ctypes.addressof(held), size)
    there = struct.pack("PN", address, size)
    one = ctypes.c_ulong(1)
    read = _libc.process_vm_readv(pid, here, one, there, one, ctypes.c_ulong(0))
    return held.raw[: _check(int(read), f"the memory of process {pid}")]


def read_memory_into(pid: int, address: int, target: memoryview) -> None:
    """Fill `target` with another process's memory. Raises OSError; EFAULT for what it has not."""
    done, one = 0, ctypes.c_ulong(1)
    start = ctypes.addressof(ctypes.c_char.from_buffer(target)) if len(target) else 0
    while done < len(target):
        size = min(len(target) - done, _CHUNK)
        here, there = struct.pack("PN", start + done, size), struct.pack("PN", address + done, size)
        read = _libc.process_vm_readv(pid, here, one, there, one, ctypes.c_ulong(0))
        moved = _check(int(read), f"the memory of process {pid}")
        if not moved:
            raise OSError(errno.EFAULT, f"the memory of process {pid} ends")
        done += moved


def forbid_new_privileges() -> None:
    """Make set-uid programs and file capabilities powerless for this process."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def drop_capabilities() -> None:
    """Give up every capability, also those that root would regain by exec. Raises OSError."""
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails past the last one: no harm
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


def landlock_version() -> int:
    """Return the kernel's Landlock version, 0 where there is none."""
    return max(0, int(_libc.syscall(_SYS_LANDLOCK, None, 0, 1)))


def raise_loopback() -> None:
    """Let processes of a new network namespace reach one another by 127.0.0.1. Raises OSError."""
    request = struct.pack("16sH22x", b"lo", _IFF_UP)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, request)


def landlock_scopes() -> None:
    """Keep signals and abstract sockets among this process and all that it starts from now on.

    What these deny themselves by `landlock(connects=True)` leaves them able to reach one another.
    Does nothing below Landlock 6. Needs forbid_new_privileges first. Raises OSError.
    """
    if landlock_version() < 6:
        return
    # Rules that do not speak of moves between folders forbid them all the same.
    ruleset = _ruleset(struct.pack("QQQ", _REFER, 0, _SCOPES))
    try:
        _allow(ruleset, "/", _REFER)
        _check(_libc.syscall(_SYS_LANDLOCK + 2, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _ruleset(attributes: bytes) -> int:
    """Return a new set of rules that handles `attributes`."""
    return _check(
        _libc.syscall(_SYS_LANDLOCK, attributes, ctypes.c_size_t(len(attributes)), 0),
        "landlock_create_ruleset",
    )


def landlock(
    writable: Sequence[str], readable: Sequence[str] | None = None, *, connects: bool = False
) -> int:
    """Deny changes outside `writable` folders, TCP, and signals to processes outside.

    With `connects` TCP is allowed, and signals are as `landlock_scopes` left them.

    With `readable` (files and folders) nothing else can be read or executed but what is
    writable, the devices that kernels need, and this process's own part of /proc. Applies to
    this thread and what it starts; needs forbid_new_privileges first. Returns the Landlock
    version used (4: TCP, 6: signals). Raises OSError.
    """
    version = landlock_version()
    if not version:
        raise OSError("this kernel has no Landlock")
    rights = _CHANGES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    if readable is not None:
        rights |= _READS
    apart = not connects
    ruleset = _ruleset(
        struct.pack(
            "QQQ",
            rights,
            _TCP if version >= 4 and apart else 0,
            _SCOPES if version >= 6 and apart else 0,
        )[: 24 if version >= 6 else 16 if version >= 4 else 8]
    )
    try:
        for folder in writable:
            _allow(ruleset, folder, rights)
        for path in readable or ():
            _allow(ruleset, path, rights & _READS)
        for pattern in _DEVICES:
            for device in glob.glob(f"/dev/{pattern}"):
                _allow(ruleset, device, rights & (_WRITE_FILE | _TRUNCATE | _READ_FILE))
        # The CUDA driver names its threads in /proc/self/task/*/comm; cuInit fails without.
        _allow(ruleset, "/proc/self", rights & (_WRITE_FILE | _TRUNCATE | _READS))
        _check(_libc.syscall(_SYS_LANDLOCK + 2, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)
    return version


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Allow `rights` below a path; a file takes those that files have. No path, no rule."""
    if not os.path.isdir(path):
        rights &= _OF_FILES
    if rights and os.path.exists(path):
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = struct.pack("=Qi", rights, target)
            _check(_libc.syscall(_SYS_LANDLOCK + 1, ruleset, 1, rule, 0), "landlock_add_rule")
        finally:
            os.close(target)
