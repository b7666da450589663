"""Scopes of several devices: what the machine calls a race there is one by the memory model.

As test_causality.py has it for one device: small programs, here of threads on two devices, run in
every order of the devices, and through `ptxsan_support.memory_model`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from ptxsan.findings import Kind, Severity
from ptxsan.launch import Launch, Part, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.ranks import run_parts
from ptxsan_support.memory_model import (
    Access,
    Fence,
    Jump,
    Program,
    Scope,
    Step,
    Thread,
    Update,
    data_races,
)
from ptxsan_support.ptx import buffer_of

PLACES = {"x": 0, "f": 4, "g": 8}
_HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u32 k_2)
{
.reg .b32 %r<64>; .reg .b64 %rd<4>; .reg .pred %p<4>;
ld.param.u64 %rd1, [k_0]; ld.param.u64 %rd2, [k_1]; ld.param.u32 %r1, [k_2];
mov.u32 %r2, %ctaid.x; add.u32 %r4, %r2, %r1;
"""


@dataclass(frozen=True, slots=True)
class Op:
    """`kind` is ld, st, atom, fence, or if: what follows runs where the last value is so."""

    kind: str
    place: str = "x"
    semantics: str = "weak"
    value: int = 1
    scope: str = "sys"


def st(place: str, value: int = 1, semantics: str = "weak", scope: str = "sys") -> Op:
    """Return a store."""
    return Op("st", place, semantics, value, scope)


def ld(place: str, semantics: str = "weak", scope: str = "sys") -> Op:
    """Return a load."""
    return Op("ld", place, semantics, scope=scope)


def add(place: str, semantics: str = "relaxed", scope: str = "sys") -> Op:
    """Return an atomic addition of 1."""
    return Op("atom", place, semantics, scope=scope)


def fence(scope: str = "sys") -> Op:
    """Return a fence."""
    return Op("fence", scope=scope)


SEEN = Op("if")
Bodies = list[list[Op]]


def in_ptx(bodies: Bodies) -> str:
    """Return a kernel whose block `i`, counted over all devices, runs body `i`."""
    lines = [_HEAD]
    for number, body in enumerate(bodies):
        lines += [f"setp.ne.s32 %p1, %r4, {number};", f"@%p1 bra next{number};"]
        register, values = 10, []
        for op in body:
            at = f"[%rd1+{PLACES[op.place]}]"
            how = "" if op.semantics == "weak" else f".{op.semantics}.{op.scope}"
            match op.kind:
                case "ld":
                    lines.append(f"ld{how}.global.u32 %r{register}, {at};")
                case "st":
                    lines.append(f"st{how}.global.u32 {at}, {op.value};")
                case "atom":
                    lines.append(f"atom{how}.global.add.u32 %r{register}, {at}, 1;")
                case "fence":
                    lines.append(f"fence.acq_rel.{op.scope};")
                case _:
                    lines.append(f"setp.ne.u32 %p2, %r{register - 1}, {op.value};")
                    lines.append(f"@%p2 bra done{number};")
            if op.kind in ("ld", "atom"):
                values.append(register)
                register += 1
        lines.append(f"done{number}:")
        lines += [
            f"st.global.u32 [%rd2+{4 * (4 * number + index)}], %r{one};"
            for index, one in enumerate(values)
        ]
        lines += ["ret;", f"next{number}:"]
    return "\n".join([*lines, "ret;", "}"])


def in_model(bodies: Bodies, devices: tuple[int, ...]) -> Program:
    """Return the same program for the memory model; thread `i` is on device `devices[i]`."""
    threads = []
    for number, body in enumerate(bodies):
        steps: list[Step] = []
        last = ""
        for index, op in enumerate(body):
            scope, name = Scope(op.scope), f"r{index}"
            match op.kind:
                case "ld":
                    steps.append(
                        Access(location=op.place, target=name, semantics=op.semantics, scope=scope)
                    )
                case "st":
                    steps.append(
                        Access(
                            location=op.place, operands=(op.value,), writes=True,
                            semantics=op.semantics, scope=scope,
                        )
                    )  # fmt: skip
                case "atom":
                    steps.append(
                        Access(
                            location=op.place, target=name, operands=(1,), writes=True,
                            update=Update.ADD, semantics=op.semantics, scope=scope,
                        )
                    )  # fmt: skip
                case "fence":
                    steps.append(Fence(scope=scope))
                case _:
                    steps.append(Jump(to=len(body), operands=(last, op.value), equal=False))
            last = name if op.kind in ("ld", "atom") else last
        threads.append(Thread(block=number, gpu=devices[number], steps=tuple(steps)))
    return Program(threads=tuple(threads))


def machine_says(bodies: Bodies, devices: tuple[int, ...]) -> tuple[bool, bool]:
    """Return whether any order shows a race, and whether any remark on order."""
    memory, results = buffer_of(np.zeros(4, np.uint32)), buffer_of(np.zeros(64, np.uint32))
    parts = [
        Part(
            device=device,
            launch=Launch(
                kernel="k", grid=(devices.count(device), 1, 1), block=(1, 1, 1),
                arguments=(
                    Pointer(buffer=memory), Pointer(buffer=results),
                    devices.index(device).to_bytes(4, "little"),
                ),
            ),
        )
        for device in sorted(set(devices))
    ]  # fmt: skip
    options = Options(shadow=False, optimise=False, workers=1)
    reports = run_parts(parse(in_ptx(bodies)), parts, options)
    assert all(one.inconclusive is None for one in reports)
    found = [one for report in reports for one in report.findings]
    races = [one for one in found if one.kind is Kind.RACE]
    wrong = any(one.severity is Severity.WRONG for one in races)
    return wrong, bool(races) or any(one.kind is Kind.ACQUIRE_FENCE for one in found)


TOLD = [st("x"), st("f", 1, "release")]
HEARD = [ld("f", "acquire"), SEEN, ld("x")]
CLASSIC: dict[str, tuple[Bodies, tuple[int, ...], bool]] = {
    "release and acquire of the system": ([TOLD, HEARD], (0, 1), False),
    "a release of the GPU, on one": (
        [[st("x"), st("f", 1, "release", "gpu")], HEARD], (0, 0), False,
    ),
    "a release of the GPU, on two": (
        [[st("x"), st("f", 1, "release", "gpu")], HEARD], (0, 1), True,
    ),
    "an acquire of the GPU, on two": (
        [TOLD, [ld("f", "acquire", "gpu"), SEEN, ld("x")]], (0, 1), True,
    ),
    "fences of the system": (
        [
            [st("x"), fence(), st("f", 1, "relaxed")],
            [ld("f", "relaxed"), SEEN, fence(), ld("x")],
        ],
        (0, 1), False,
    ),
    "a fence of the GPU before the flag": (
        [
            [st("x"), fence("gpu"), st("f", 1, "relaxed")],
            [ld("f", "relaxed"), SEEN, fence(), ld("x")],
        ],
        (0, 1), True,
    ),
    "a fence of the GPU behind the flag": (
        [
            [st("x"), fence(), st("f", 1, "relaxed")],
            [ld("f", "relaxed"), SEEN, fence("gpu"), ld("x")],
        ],
        (0, 1), True,
    ),
    "a fence of the GPU behind one of the system": (
        [
            [st("x"), fence(), fence("gpu"), st("f", 1, "relaxed")],
            [ld("f", "relaxed"), SEEN, fence("gpu"), fence(), ld("x")],
        ],
        (0, 1), False,
    ),
    "data behind the fence of the system, before that of the GPU": (
        [
            [fence(), st("x"), fence("gpu"), st("f", 1, "relaxed")],
            [ld("f", "relaxed"), SEEN, fence(), ld("x")],
        ],
        (0, 1), True,
    ),
    "what came by the system goes on by the GPU": (
        [TOLD, [ld("f", "acquire"), SEEN, st("g", 1, "release", "gpu")],
         [ld("g", "acquire", "gpu"), SEEN, ld("x")]],
        (0, 1, 1), False,
    ),
    "what came by the system goes on by the block": (
        [TOLD, [ld("f", "acquire"), SEEN, st("g", 1, "release", "cta")],
         [ld("g", "acquire", "gpu"), SEEN, ld("x")]],
        (0, 1, 1), True,
    ),
    "what came by the GPU goes on by the system": (
        [[st("x"), st("g", 1, "release", "gpu")],
         [ld("g", "acquire", "gpu"), SEEN, st("f", 1, "release")], HEARD],
        (0, 0, 1), False,
    ),
    "atomics of the GPU on two": ([[add("x", scope="gpu")]] * 2, (0, 1), True),
    "atomics of the system on two": ([[add("x")], [add("x")]], (0, 1), False),
    "one of the GPU, one of the system": ([[add("x", scope="gpu")], [add("x")]], (0, 1), True),
    "atomics of the GPU on one": ([[add("x", scope="gpu")]] * 2, (0, 0), False),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSIC)
def test_the_machine_and_the_model_agree(name: str) -> None:
    bodies, devices, racy = CLASSIC[name]
    assert bool(data_races(in_model(bodies, devices))) is racy
    assert machine_says(bodies, devices)[1] is racy


def random_program(seed: int) -> tuple[Bodies, tuple[int, ...]]:
    """Return two or three threads of a few operations, and the device of each."""
    rng = random.Random(seed)
    devices = rng.choice(((0, 1), (0, 1), (0, 0, 1), (0, 1, 1)))
    bodies = []
    for number in range(len(devices)):
        body: list[Op] = []
        for index in range(rng.randint(2, 4 if len(devices) == 2 else 3)):
            place, scope = rng.choice("xxfg"), rng.choice(("sys", "sys", "gpu", "cta"))
            kind = rng.choice(("ld", "st", "atom", "fence", "if"))
            strong = rng.random() < (0.3 if place == "x" else 0.8)
            if kind == "ld":
                how = rng.choice(("relaxed", "acquire")) if strong else "weak"
                body.append(ld(place, how, scope))
            elif kind == "st":
                how = rng.choice(("relaxed", "release")) if strong else "weak"
                body.append(st(place, 10 + 4 * number + index, how, scope))
            elif kind == "atom":
                body.append(add(place, rng.choice(("relaxed", "acq_rel")), scope))
            elif kind == "fence":
                body.append(fence(rng.choice(("sys", "gpu"))))
            elif body and body[-1].kind in ("ld", "atom"):
                body.append(Op("if", value=rng.choice((0, 1, 1))))
        bodies.append(body or [ld("x")])
    return bodies, devices


def test_random_programs_race_in_the_machine_only_where_the_model_lets_them() -> None:
    racy = found = 0
    for seed in range(60):
        bodies, devices = random_program(seed)
        races = data_races(in_model(bodies, devices), limit_s=600)
        wrong, remark = machine_says(bodies, devices)
        assert races or not wrong, (seed, bodies, devices)
        racy += bool(races)
        found += bool(races) and remark
    assert 20 <= racy <= 55, racy
    assert found >= racy - 3, (found, racy)
