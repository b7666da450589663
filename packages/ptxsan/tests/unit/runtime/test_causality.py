"""One account of causality order: what the machine calls a race is one by the memory model.

Small programs run in the machine under several schedules, and through
`ptxsan_support.memory_model`, which looks at every execution that the axioms allow. Where the
machine reports a race there must be one; and of the races of the model the machine has to find
nearly all: what it misses needs an execution that no order of threads gives.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptxsan.findings import Kind, Severity
from ptxsan.options import Options
from ptxsan_support.memory_model import Program, data_races
from ptxsan_support.ptx import buffer_of, execute, kernel
from ptxsan_support.small_programs import Bodies, Op, in_model, in_ptx

# The number of a thread in the grid.
_NUMBER = "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r4, %r2, %r3, %r1;\n"
SCHEDULES = (("forward", 0), ("reverse", 0), ("random", 1), ("random", 2), ("random", 3))


def ld(place: str, semantics: str = "weak") -> Op:
    """Return a load."""
    return Op("ld", place, semantics)


def st(place: str, value: int, semantics: str = "weak") -> Op:
    """Return a store."""
    return Op("st", place, semantics, value)


def add(place: str, semantics: str = "relaxed", scope: str = "gpu") -> Op:
    """Return an atomic addition of 1."""
    return Op("atom", place, semantics, scope=scope)


FENCE, BAR = Op("fence"), Op("bar")


def when(value: int) -> Op:
    """Return what lets the rest of a thread run only if its last value is this."""
    return Op("if", value=value)


def blocks_of(bodies: Bodies, threads_a_block: int) -> Program:
    """Return a program for the memory model whose threads stand in blocks of one GPU."""
    blocks = [number // threads_a_block for number in range(len(bodies))]
    return in_model(bodies, blocks=blocks, devices=[0] * len(bodies))


def machine_says(bodies: Bodies, threads_a_block: int) -> tuple[bool, bool]:
    """Return whether any schedule shows a race that rejects, and whether any remark on order."""
    wrong = remark = False
    for schedule, seed in SCHEDULES:
        memory = buffer_of(np.zeros(2, np.uint32)), buffer_of(np.zeros(64, np.uint32))
        report = execute(
            kernel(_NUMBER + in_ptx(bodies)), *memory, block=threads_a_block,
            grid=len(bodies) // threads_a_block,
            options=Options(schedule=schedule, seed=seed, shadow=False, optimise=False),
        )  # fmt: skip
        assert report.inconclusive is None
        races = [one for one in report.findings if one.kind is Kind.RACE]
        wrong |= any(one.severity is Severity.WRONG for one in races)
        remark |= bool(races) or any(one.kind is Kind.ACQUIRE_FENCE for one in report.findings)
        if wrong:
            break
    return wrong, remark


TICKET = [add("x"), when(2), st("x", 0)]
CLASSIC = {
    "the last ticket puts the counter back": ([TICKET] * 3, 1, False),
    "anybody puts the counter back": ([[add("x"), st("x", 0)]] * 2, 1, True),
    "the last but one puts the counter back": (
        [[add("x"), when(1), st("x", 0)]] * 3, 1, True,
    ),
    "the counter orders no other memory": (
        [[st("f", 1), add("x")], [add("x"), when(1), ld("f")]], 1, True,
    ),
    "with fences it does": (
        [[st("f", 1), FENCE, add("x")], [add("x"), when(1), FENCE, ld("f")]], 1, False,
    ),
    "who waited for a strong store may store plainly": (
        [[st("x", 1, "relaxed")], [ld("x", "relaxed"), when(1), st("x", 2)]], 1, False,
    ),
    "who saw nothing may not": (
        [[st("x", 1, "relaxed")], [ld("x", "relaxed"), when(0), st("x", 2)]], 1, True,
    ),
    "a plain read of what was not seen": ([[add("x")], [ld("x")]], 1, True),
    "another reader of the counter": (
        [[add("x")], [add("x"), when(1), st("x", 7)], [ld("x", "relaxed")]], 1, True,
    ),
    "an atomic of block scope is not seen": (
        [[add("x", scope="cta")], [add("x"), when(1), st("x", 7)]], 1, True,
    ),
    "but in its block it is": (
        [[add("x", scope="cta")], [add("x", scope="cta"), when(1), st("x", 7)]], 2, False,
    ),
    "another thread puts it back behind a barrier": (
        [[add("x"), BAR], [BAR, st("x", 0)]], 2, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSIC)
def test_the_machine_and_the_model_agree(name: str) -> None:
    bodies, threads_a_block, racy = CLASSIC[name]
    assert bool(data_races(blocks_of(bodies, threads_a_block))) is racy
    assert machine_says(bodies, threads_a_block)[1] is racy


def random_program(seed: int) -> tuple[Bodies, int]:
    """Return two or three threads of a few operations, and how many stand in a block."""
    rng = random.Random(seed)
    count, together = rng.choice(((2, 1), (2, 2), (3, 1)))
    bodies = []
    for number in range(count):
        body: list[Op] = []
        for index in range(rng.randint(1, 3)):
            place = rng.choice("xxf")
            kind = rng.choice(("ld", "st", "atom", "atom", "fence", "when"))
            strength = rng.random() < 0.6
            if kind == "ld":
                body.append(ld(place, rng.choice(("relaxed", "acquire")) if strength else "weak"))
            elif kind == "st":
                how = rng.choice(("relaxed", "release")) if strength else "weak"
                body.append(st(place, 10 + 4 * number + index, how))
            elif kind == "atom":
                body.append(
                    add(
                        place, rng.choice(("relaxed", "acq_rel")), rng.choice(("gpu", "gpu", "cta"))
                    )
                )
            elif kind == "fence":
                body.append(FENCE)
            elif any(one.kind in ("ld", "atom") for one in body):
                body.append(when(rng.choice((0, 1, 1))))
        bodies.append(body or [ld("x")])
    return bodies, together


@pytest.mark.parametrize("seeds", [range(24), pytest.param(range(80), marks=pytest.mark.thorough)])
def test_random_programs_race_in_the_machine_only_where_the_model_lets_them(seeds: range) -> None:
    racy = found = 0
    for seed in seeds:
        bodies, together = random_program(seed)
        races = data_races(blocks_of(bodies, together), limit_s=600)
        wrong, remark = machine_says(bodies, together)
        assert races or not wrong, (seed, bodies, together)
        racy += bool(races)
        found += bool(races) and remark
    assert len(seeds) / 4 <= racy <= len(seeds) * 7 / 8, racy
    assert found >= racy - 3, (found, racy)
