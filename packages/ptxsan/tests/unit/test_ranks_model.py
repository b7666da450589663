"""Scopes of several devices: what the machine calls a race there is one by the memory model.

As runtime/test_causality.py has it for one device: small programs, here of threads on two devices,
run in every order of the devices, and through `ptxsan_support.memory_model`.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptxsan.findings import Kind, Severity
from ptxsan.launch import Launch, Part, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.ranks import run_parts
from ptxsan_support.memory_model import data_races
from ptxsan_support.ptx import buffer_of
from ptxsan_support.small_programs import Bodies, Op, in_model, in_ptx

# Its block is counted over all devices: %r4.
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
    reports = run_parts(parse(f"{_HEAD}{in_ptx(bodies)}\nret;\n}}"), parts, options)
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
    assert bool(data_races(in_model(bodies, blocks=range(len(bodies)), devices=devices))) is racy
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
        races = data_races(
            in_model(bodies, blocks=range(len(bodies)), devices=devices), limit_s=600
        )
        wrong, remark = machine_says(bodies, devices)
        assert races or not wrong, (seed, bodies, devices)
        racy += bool(races)
        found += bool(races) and remark
    assert 20 <= racy <= 55, racy
    assert found >= racy - 3, (found, racy)
