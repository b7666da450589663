"""The system calls that a candidate's process is refused: the host's sockets, other processes.

A seccomp filter (Linux, x86-64 and aarch64) for what Landlock and namespaces leave open: a Unix
socket with a path is reached across network namespaces, and so is a virtual machine's host;
other calls read or change other processes, keys of the session, or the kernel. Two kinds of
refusal: what has no honest use in a kernel fails with EACCES; what libraries do without where a
kernel was built without it fails with ENOSYS. Among the latter are System V memory, semaphores
and queues, which outlive their process and lead from one process of a trial to another, and
`clone3`, whose flags a filter cannot read: glibc then calls `clone`. Whoever asks prctl whether it
is confined is told that it is not: a kernel must not be right under a judge alone.

Numbers: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from cuassay.sandbox import syscalls

_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD = 0, 4, 16, 24, 32  # struct seccomp_data, low words
_ALLOW, _REFUSE, _ABSENT = 0x7FFF0000, 0x00050000 | errno.EACCES, 0x00050000 | errno.ENOSYS
_ANSWER_NO = 0x00050000  # the call returns 0 and does nothing
_GET_SECCOMP, _GET_NO_NEW_PRIVILEGES = 21, 39  # what prctl is asked
_SET_DUMPABLE = 4  # to 0: /proc would not show what a process holds
_X32 = 0x40000000  # the second table of numbers on x86-64
_KIND_MASK = 0xF  # of a socket's type: SOCK_CLOEXEC and SOCK_NONBLOCK are above it
_NETLINK, _NETLINK_ROUTE = 16, 0  # the latter lists the network's interfaces
_NAMESPACES = 0x7E020000  # every CLONE_NEW flag that `clone` takes (linux/sched.h)

# Calls by name: their numbers on x86-64 and on aarch64.
_REFUSED: Mapping[str, tuple[int, int]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "io_uring_setup": (425, 425),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "unshare": (272, 97),
    "open_by_handle_at": (304, 265),
    # A descriptor on its way through a socket is in no list: memory behind it is not counted.
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
}
_OF_SOCKETS = ("sendmsg", "sendmmsg")
_UNKNOWN: Mapping[str, tuple[int, int]] = {
    "clone3": (435, 435),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
}
# Calls on any process of the same user, and the word of their argument that names it: 0 is oneself.
_OF_A_PROCESS: Mapping[str, tuple[int, int, int]] = {
    "prlimit64": (302, 261, _FIRST),
    "sched_setparam": (142, 118, _FIRST),
    "sched_setscheduler": (144, 119, _FIRST),
    "sched_setattr": (314, 274, _FIRST),
    "sched_setaffinity": (203, 122, _FIRST),
    "migrate_pages": (256, 238, _FIRST),
    "move_pages": (279, 239, _FIRST),
    "setpriority": (141, 140, _SECOND),
    "ioprio_set": (251, 30, _SECOND),
}

_Step: TypeAlias = tuple[int, int, int, int]  # of classic BPF: code, jumps if true, false, value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Processor:
    """What a processor's kernel calls itself and the calls whose arguments decide."""

    architecture: int
    place: int  # of its numbers above
    seccomp: int
    socket: int
    socketpair: int
    prctl: int
    clone: int


_PROCESSORS = {
    "x86_64": _Processor(
        architecture=0xC000003E,
        place=0,
        seccomp=317,
        socket=41,
        socketpair=53,
        prctl=157,
        clone=56,
    ),
    "aarch64": _Processor(
        architecture=0xC00000B7,
        place=1,
        seccomp=277,
        socket=198,
        socketpair=199,
        prctl=167,
        clone=220,
    ),
}


def _decided(number: int, *steps: _Step) -> list[_Step]:
    """Return the steps for one call; they end with a return, and others pass over them."""
    return [(_EQUAL, 0, len(steps), number), *steps]


def _steps(processor: _Processor, *, connects: bool = False) -> list[_Step]:
    """Return the filter; a jump counts the steps that it passes over.

    With `connects` every socket is allowed, and descriptors may travel through it.
    """
    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, processor.architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for calls, answer in ((_REFUSED, _REFUSE), (_UNKNOWN, _ABSENT)):
        for name, numbers in calls.items():
            if connects and name in _OF_SOCKETS:
                continue
            steps += _decided(numbers[processor.place], (_RETURN, 0, 0, answer))
    for named in _OF_A_PROCESS.values():
        *on, word = named
        steps += _decided(
            on[processor.place],
            (_LOAD, 0, 0, word),
            (_EQUAL, 0, 1, 0),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _REFUSE),
        )
    steps += _decided(
        processor.clone,
        (_LOAD, 0, 0, _FIRST),
        (_ANY_OF, 0, 1, _NAMESPACES),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    )
    # socket: TCP and UDP, which reach nobody in a network of its own, and the list of interfaces
    of_sockets = _decided(
        processor.socket,
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 4, 0, int(socket.AF_INET)),
        (_EQUAL, 3, 0, int(socket.AF_INET6)),
        (_EQUAL, 0, 10, _NETLINK),
        (_LOAD, 0, 0, _THIRD),
        (_EQUAL, 9, 8, _NETLINK_ROUTE),
        (_LOAD, 0, 0, _SECOND),
        (_AND, 0, 0, _KIND_MASK),
        (_EQUAL, 1, 0, int(socket.SOCK_STREAM)),
        (_EQUAL, 0, 4, int(socket.SOCK_DGRAM)),
        (_LOAD, 0, 0, _THIRD),
        (_EQUAL, 3, 0, 0),
        (_EQUAL, 2, 0, int(socket.IPPROTO_TCP)),
        (_EQUAL, 1, 0, int(socket.IPPROTO_UDP)),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    )
    # socketpair(..., SOCK_DGRAM, ...): a pair that can still send to any path
    of_sockets += _decided(
        processor.socketpair,
        (_LOAD, 0, 0, _SECOND),
        (_AND, 0, 0, _KIND_MASK),
        (_EQUAL, 0, 1, int(socket.SOCK_DGRAM)),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    )
    steps += [] if connects else of_sockets
    steps += _decided(
        processor.prctl,
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 0, 1, _SET_DUMPABLE),
        (_RETURN, 0, 0, _REFUSE),
        (_EQUAL, 1, 0, _GET_SECCOMP),
        (_EQUAL, 0, 1, _GET_NO_NEW_PRIVILEGES),
        (_RETURN, 0, 0, _ANSWER_NO),
        (_RETURN, 0, 0, _ALLOW),
    )
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def refuse_host_calls(*, connects: bool = False) -> None:
    """Refuse the calls above to every thread of this process and all that it starts, for good.

    With `connects` not those of sockets.

    Needs `syscalls.forbid_new_privileges` first. Raises OSError.
    """
    processor = _PROCESSORS.get(platform.machine())
    if processor is None:
        raise OSError(errno.ENOSYS, f"no filter for {platform.machine()}")
    program = b"".join(struct.pack("HBBI", *step) for step in _steps(processor, connects=connects))
    held = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held))
    left = syscalls.call(processor.seccomp, _SET_MODE_FILTER, _ALL_THREADS, header)
    if left:
        raise OSError(errno.EBUSY, f"thread {left} of this process has a filter of its own")
