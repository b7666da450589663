"""The system calls that a candidate's process is refused: sockets of the host, other processes.

A seccomp filter (Linux, x86-64 and aarch64) for what Landlock and namespaces leave open: a Unix
socket with a path is reached across network namespaces, and so is a virtual machine's host; the
rest reads or changes other processes, keys of the session, or the kernel. Refused calls fail
with EACCES. Whoever asks prctl whether it is confined is told that it is not: a kernel must not be
right under a judge alone. Numbers: arch/x86/entry/syscalls/syscall_64.tbl,
include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
from dataclasses import dataclass

from cuassay.sandbox import syscalls

_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # struct seccomp_data, low words
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_ANSWER_NO = 0x00050000  # the call returns 0 and does nothing
_GET_SECCOMP, _GET_NO_NEW_PRIVILEGES = 21, 39  # what prctl is asked
_X32 = 0x40000000  # the second table of numbers on x86-64
_AF_VSOCK = 40
_KIND_MASK = 0xF  # of a socket's type: SOCK_CLOEXEC and SOCK_NONBLOCK are above it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """What a processor's kernel calls its system calls."""

    architecture: int
    seccomp: int
    socket: int
    socketpair: int
    prctl: int
    refused: tuple[int, ...]


_TABLES = {
    "x86_64": _Table(
        architecture=0xC000003E,
        seccomp=317,
        socket=41,
        socketpair=53,
        prctl=157,
        # ptrace, process_vm_readv, process_vm_writev, kcmp, perf_event_open, bpf, add_key,
        # request_key, keyctl, userfaultfd, mount, umount2, pivot_root, setns, unshare,
        # open_by_handle_at, io_uring_setup, pidfd_getfd
        refused=(101, 310, 311, 312, 298, 321, 248, 249, 250, 323, 165, 166, 155, 308, 272, 304,
                 425, 438),
    ),
    "aarch64": _Table(
        architecture=0xC00000B7,
        seccomp=277,
        socket=198,
        socketpair=199,
        prctl=167,
        refused=(117, 270, 271, 272, 241, 280, 217, 218, 219, 282, 40, 39, 41, 268, 97, 265,
                 425, 438),
    ),
}  # fmt: skip


def refuse_host_calls() -> None:
    """Refuse the calls above to every thread of this process and all that it starts, for good.

    Needs `syscalls.forbid_new_privileges` first. Raises OSError.
    """
    table = _TABLES.get(platform.machine())
    if table is None:
        raise OSError(errno.ENOSYS, f"no filter for {platform.machine()}")
    # The filter as classic BPF; a jump counts the instructions that it passes over
    steps: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, table.architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for number in table.refused:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    steps += [
        # socket(AF_UNIX or AF_VSOCK, ...)
        (_EQUAL, 0, 5, table.socket),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 1, 0, int(socket.AF_UNIX)),
        (_EQUAL, 0, 1, _AF_VSOCK),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
        # prctl(PR_GET_SECCOMP or PR_GET_NO_NEW_PRIVS, ...)
        (_EQUAL, 0, 5, table.prctl),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 1, 0, _GET_SECCOMP),
        (_EQUAL, 0, 1, _GET_NO_NEW_PRIVILEGES),
        (_RETURN, 0, 0, _ANSWER_NO),
        (_RETURN, 0, 0, _ALLOW),
        # socketpair(..., SOCK_DGRAM, ...): a pair that can still send to any path
        (_EQUAL, 0, 4, table.socketpair),
        (_LOAD, 0, 0, _SECOND),
        (_AND, 0, 0, _KIND_MASK),
        (_EQUAL, 0, 1, int(socket.SOCK_DGRAM)),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    program = b"".join(struct.pack("HBBI", *step) for step in steps)
    held = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held))
    left = syscalls.call(table.seccomp, _SET_MODE_FILTER, _ALL_THREADS, header)
    if left:
        raise OSError(errno.EBUSY, f"thread {left} of this process has a filter of its own")
