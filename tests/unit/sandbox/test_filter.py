"""The filter of system calls, interpreted as the kernel does: both processors, each call."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping

import pytest

from cuassay.sandbox import filter as calls

_ALLOWED, _NO = "allowed", "answers no"
_ANSWERS = {
    calls._ALLOW: _ALLOWED,
    calls._REFUSE: "EACCES",
    calls._ABSENT: "ENOSYS",
    calls._ANSWER_NO: _NO,
}
_EITHER = pytest.mark.parametrize("name", sorted(calls._PROCESSORS))
_VSOCK, _UNIX = 40, 1


def _answer(
    name: str,
    number: int,
    *arguments: int,
    connects: bool = False,
    architecture: int | None = None,
) -> str:
    """Run the filter over one call; see linux/filter.h and linux/seccomp.h."""
    processor = calls._PROCESSORS[name]
    words: Mapping[int, int] = {
        calls._NUMBER: number,
        calls._ARCHITECTURE: processor.architecture if architecture is None else architecture,
        **{16 + 8 * index: value for index, value in enumerate((*arguments, 0, 0, 0)[:3])},
    }
    steps, place, held = calls._steps(processor, connects=connects), 0, 0
    while True:
        code, if_true, if_false, value = steps[place]
        place += 1
        match code:
            case calls._LOAD:
                held = words[value]
            case calls._AND:
                held &= value
            case calls._RETURN:
                return _ANSWERS[value]
            case calls._EQUAL:
                place += if_true if held == value else if_false
            case calls._AT_LEAST:
                place += if_true if held >= value else if_false
            case calls._ANY_OF:
                place += if_true if held & value else if_false
            case _:
                raise AssertionError(f"unknown step {code:#x}")


def _number(name: str, numbers: tuple[int, ...]) -> int:
    return numbers[calls._PROCESSORS[name].place]


@_EITHER
def test_what_has_no_honest_use_is_refused_and_the_rest_is_not_there(name: str) -> None:
    for numbers in calls._REFUSED.values():
        assert _answer(name, _number(name, numbers)) == "EACCES"
    for numbers in calls._UNKNOWN.values():
        assert _answer(name, _number(name, numbers)) == "ENOSYS"


@_EITHER
def test_ordinary_calls_pass(name: str) -> None:
    read, write, futex = {"x86_64": (0, 1, 202), "aarch64": (63, 64, 98)}[name]
    for number in (read, write, futex):
        assert _answer(name, number, 3, 4, 5) == _ALLOWED


@_EITHER
def test_another_table_of_numbers_is_refused_whole(name: str) -> None:
    assert _answer(name, 0, architecture=0x40000003) == "EACCES"  # 32-bit x86
    assert _answer(name, calls._X32 | 1) == "EACCES"
    assert _answer(name, calls._X32 - 1) == _ALLOWED


@_EITHER
def test_calls_on_a_process_are_allowed_on_oneself_alone(name: str) -> None:
    for *numbers, word in calls._OF_A_PROCESS.values():
        number = _number(name, tuple(numbers))
        before = [7] * ((word - 16) // 8)
        assert _answer(name, number, *before, 0) == _ALLOWED
        assert _answer(name, number, *before, 1234) == "EACCES"


@_EITHER
@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ((socket.AF_INET, socket.SOCK_STREAM, 0), _ALLOWED),
        ((socket.AF_INET6, socket.SOCK_DGRAM | 0x80000, 0), _ALLOWED),  # SOCK_CLOEXEC
        ((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP), _ALLOWED),
        ((socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_UDP), _ALLOWED),
        ((socket.AF_INET, socket.SOCK_STREAM, 132), "EACCES"),  # SCTP
        ((socket.AF_INET, socket.SOCK_RAW, 0), "EACCES"),
        ((_UNIX, socket.SOCK_STREAM, 0), "EACCES"),
        ((_VSOCK, socket.SOCK_STREAM, 0), "EACCES"),
        ((calls._NETLINK, socket.SOCK_RAW, 0), _ALLOWED),  # the list of interfaces
        ((calls._NETLINK, socket.SOCK_RAW, 9), "EACCES"),  # NETLINK_AUDIT
    ],
)
def test_sockets_reach_nobody(name: str, arguments: tuple[int, int, int], answer: str) -> None:
    number = calls._PROCESSORS[name].socket
    assert _answer(name, number, *map(int, arguments)) == answer
    assert _answer(name, number, *map(int, arguments), connects=True) == _ALLOWED


@_EITHER
def test_a_pair_of_sockets_must_not_be_able_to_send_to_a_path(name: str) -> None:
    number = calls._PROCESSORS[name].socketpair
    assert _answer(name, number, _UNIX, int(socket.SOCK_STREAM), 0) == _ALLOWED
    assert _answer(name, number, _UNIX, int(socket.SOCK_DGRAM) | 0x800, 0) == "EACCES"
    assert _answer(name, number, _UNIX, int(socket.SOCK_DGRAM), 0, connects=True) == _ALLOWED


@_EITHER
def test_descriptors_travel_where_ranks_meet_alone(name: str) -> None:
    number = _number(name, calls._REFUSED["sendmsg"])
    assert _answer(name, number) == "EACCES"
    assert _answer(name, number, connects=True) == _ALLOWED
    assert _answer(name, _number(name, calls._REFUSED["ptrace"]), connects=True) == "EACCES"


@_EITHER
def test_a_process_may_be_cloned_without_a_new_namespace(name: str) -> None:
    number = calls._PROCESSORS[name].clone
    assert _answer(name, number, 0x11) == _ALLOWED  # SIGCHLD, as fork
    for bit in (0x10000000, 0x20000000, 0x40000000, 0x02000000, 0x00020000):  # CLONE_NEW...
        assert _answer(name, number, 0x11 | bit) == "EACCES"


@_EITHER
def test_whoever_asks_is_told_that_nothing_confines_it(name: str) -> None:
    number = calls._PROCESSORS[name].prctl
    assert _answer(name, number, calls._GET_SECCOMP) == _NO
    assert _answer(name, number, calls._GET_NO_NEW_PRIVILEGES) == _NO
    assert _answer(name, number, calls._SET_DUMPABLE) == "EACCES"
    assert _answer(name, number, 15) == _ALLOWED  # PR_SET_NAME


@_EITHER
@pytest.mark.parametrize("connects", [False, True])
def test_every_jump_leads_to_a_step_of_the_filter(name: str, connects: bool) -> None:
    steps = calls._steps(calls._PROCESSORS[name], connects=connects)
    assert len(steps) < 4096  # BPF_MAXINSNS
    for place, (code, if_true, if_false, value) in enumerate(steps):
        assert 0 <= value < 2**32
        assert max(if_true, if_false) < 256
        if code not in (calls._LOAD, calls._AND, calls._RETURN):
            assert place + 1 + max(if_true, if_false) < len(steps)
    assert steps[-1][0] == calls._RETURN


def test_an_unknown_processor_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuassay.sandbox.filter.platform.machine", lambda: "riscv64")
    with pytest.raises(OSError, match="no filter for riscv64") as caught:
        calls.refuse_host_calls()
    assert caught.value.errno == errno.ENOSYS
