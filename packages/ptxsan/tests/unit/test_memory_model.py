"""What PTX's memory model allows: classic programs, each beside a twin that forbids the outcome."""

from __future__ import annotations

import pytest

from ptxsan_support.memory_model import (
    Access,
    Barrier,
    Fence,
    Jump,
    Outcome,
    Program,
    Proxy,
    Scope,
    Step,
    Thread,
    Update,
    allows,
    outcomes,
)


def ld(target: str, location: str, semantics: str = "weak", scope: Scope = Scope.GPU) -> Access:
    """Return a load."""
    return Access(location=location, target=target, semantics=semantics, scope=scope)


def st(location: str, value: int, semantics: str = "weak", scope: Scope = Scope.GPU) -> Access:
    """Return a store."""
    return Access(
        location=location, operands=(value,), writes=True, semantics=semantics, scope=scope
    )


def atom(target: str, location: str, update: Update, *operands: int, semantics: str) -> Access:
    """Return an atomic."""
    return Access(
        location=location, target=target, operands=operands, writes=True, update=update,
        semantics=semantics, scope=Scope.GPU,
    )  # fmt: skip


def threads(*bodies: tuple[Step, ...], blocks: tuple[int, ...] | None = None) -> Program:
    """Return a program of threads of different blocks of one GPU."""
    places = blocks or tuple(range(len(bodies)))
    return Program(
        threads=tuple(
            Thread(block=block, gpu=0, steps=body)
            for block, body in zip(places, bodies, strict=True)
        )
    )


def stale(outcome: Outcome) -> bool:
    """Whether the flag was seen and what it announces was not."""
    return outcome.registers[1]["f"] == 1 and outcome.registers[1]["v"] == 0


SC, ACQ_REL = Fence(sc=True, scope=Scope.GPU), Fence(scope=Scope.GPU)
HEARD = ld("f", "flag", "acquire")
TOLD = st("flag", 1, "release")


@pytest.mark.parametrize(
    ("writer", "reader", "allowed"),
    [
        pytest.param((st("x", 1), TOLD), (HEARD, ld("v", "x")), False, id="release-acquire"),
        pytest.param(
            (st("x", 1), TOLD), (ld("f", "flag", "relaxed"), ld("v", "x")), True, id="no-acquire"
        ),
        pytest.param(
            (st("x", 1), st("flag", 1, "relaxed")), (HEARD, ld("v", "x")), True, id="no-release"
        ),
        pytest.param(
            (st("x", 1), ACQ_REL, st("flag", 1, "relaxed")),
            (ld("f", "flag", "relaxed"), ACQ_REL, ld("v", "x")),
            False,
            id="fences",
        ),
        pytest.param(
            (st("x", 1), ACQ_REL, st("flag", 1, "relaxed")),
            (ld("f", "flag", "relaxed"), Fence(scope=Scope.CTA), ld("v", "x")),
            True,
            id="narrow-fence",
        ),
        pytest.param(
            (st("x", 1), ACQ_REL, st("flag", 1)),
            (ld("f", "flag"), ACQ_REL, ld("v", "x")),
            True,
            id="weak-flag",
        ),
        pytest.param(
            (st("x", 1), TOLD),
            (atom("f", "flag", Update.EXCHANGE, 0, semantics="acq_rel"), ld("v", "x")),
            False,
            id="exchange",
        ),
    ],
)
def test_a_message_is_passed_by_release_and_acquire_alone(
    writer: tuple[Step, ...], reader: tuple[Step, ...], allowed: bool
) -> None:
    assert allows(threads(writer, reader), stale) is allowed


@pytest.mark.parametrize(("fence", "allowed"), [(SC, False), (ACQ_REL, True)])
def test_only_sequentially_consistent_fences_forbid_store_buffering(
    fence: Fence, allowed: bool
) -> None:
    def body(mine: str, other: str) -> tuple[Step, ...]:
        return (st(mine, 1, "relaxed"), fence, ld("r", other, "relaxed"))

    program = threads(body("x", "y"), body("y", "x"))
    assert allows(program, lambda end: all(one["r"] == 0 for one in end.registers)) is allowed


@pytest.mark.parametrize(("blocks", "allowed"), [((0, 0), False), ((0, 1), True)])
def test_a_barrier_orders_its_own_block(blocks: tuple[int, int], allowed: bool) -> None:
    program = threads(
        (st("x", 1), Barrier(name=(0,))), (Barrier(name=(0,)), ld("v", "x")), blocks=blocks
    )
    assert allows(program, lambda end: end.registers[1]["v"] == 0) is allowed


def test_barriers_in_different_orders_end_nowhere() -> None:
    first, second = Barrier(name=(0,)), Barrier(name=(1,))
    assert list(outcomes(threads((first, second), (first, second), blocks=(0, 0))))
    assert not list(outcomes(threads((first, second), (second, first), blocks=(0, 0))))


def test_atomics_lose_no_update_and_plain_additions_do() -> None:
    add = atom("r", "x", Update.ADD, 1, semantics="relaxed")
    assert {end.memory["x"] for end in outcomes(threads((add,), (add,)))} == {2}
    loads = (ld("r", "x", "relaxed"), Access(location="x", operands=("r",), writes=True))
    assert {end.memory["x"] for end in outcomes(threads(loads, (add,)))} == {0, 1}


def test_nothing_comes_out_of_thin_air_and_what_depends_on_nothing_may_be_early() -> None:
    def body(source: str, to: str, value: str | int) -> tuple[Step, ...]:
        return (ld("r", source), Access(location=to, operands=(value,), writes=True))

    def both(end: Outcome) -> bool:
        return all(one["r"] == 1 for one in end.registers)

    assert not allows(threads(body("x", "y", "r"), body("y", "x", "r")), both)
    assert allows(threads(body("x", "y", 1), body("y", "x", 1)), both)


def test_whoever_waits_in_a_loop_leaves_it_with_the_value_waited_for() -> None:
    waits = (ld("f", "flag", "acquire"), Jump(to=0, operands=("f", 0)), ld("v", "x"))
    program = threads((st("x", 1), TOLD), waits)
    assert {end.registers[1]["v"] for end in outcomes(program)} == {1}


@pytest.mark.parametrize(("fenced", "allowed"), [(True, False), (False, True)])
def test_another_name_of_a_location_needs_a_fence_of_aliases(fenced: bool, allowed: bool) -> None:
    fence = (Fence(proxy=Proxy.ALIAS, scope=Scope.CTA),) if fenced else ()
    thread = Thread(block=0, gpu=0, steps=(st("x", 1), *fence, ld("v", "y")))
    program = Program(threads=(thread,), aliases={"y": "x"})
    assert allows(program, lambda end: end.registers[0]["v"] == 0) is allowed


def test_too_many_executions_are_refused() -> None:
    many = threads(*((st("x", n), ld("a", "x"), ld("b", "x")) for n in range(5)))
    with pytest.raises(TimeoutError, match="more executions"):
        list(outcomes(many, limit_s=0.05))
