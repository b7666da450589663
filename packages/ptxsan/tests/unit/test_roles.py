"""What strong accesses of a kernel are for: waiting, carrying data, or telling others."""

from __future__ import annotations

from ptxsan.parser import parse
from ptxsan.program import Program, build
from ptxsan.roles import is_replicated, table_of
from ptxsan.runtime import layout as L
from ptxsan_support.ptx import kernel


def _program(body: str) -> Program:
    return build(parse(kernel(body)), "k")


def _roles(body: str) -> dict[str, int]:
    program = _program(body)
    table = table_of(program)
    assert table is not None
    return {one.opcode: int(role) for one, role in zip(program.body, table, strict=True) if role}


def test_a_kernel_without_strong_accesses_has_no_roles() -> None:
    assert table_of(_program("ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd2], %r2;")) is None


def test_a_read_that_a_loop_waits_for_is_polled_and_carries_nothing() -> None:
    found = _roles("AGAIN: ld.volatile.global.u32 %r2, [%rd1];\nsetp.eq.u32 %p1, %r2, 0;\n"
                   "@%p1 bra AGAIN;")  # fmt: skip
    assert found == {"ld.volatile.global.u32": L.LOADS | L.POLLED}


def test_the_turn_that_a_compiler_took_out_of_a_loop_is_polled_too() -> None:
    body = (
        "ld.volatile.global.u32 %r2, [%rd1];\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra END;\n"
        "AGAIN: ld.volatile.global.u32 %r3, [%rd1];\nsetp.eq.u32 %p2, %r3, 0;\n"
        "@%p2 bra AGAIN;\nEND:"
    )
    program = _program(body)
    table = table_of(program)
    assert table is not None
    assert [int(role) & L.POLLED for role in table if role] == [L.POLLED] * 2


def test_a_value_that_reaches_memory_or_an_address_carries_data() -> None:
    stored = _roles("ld.volatile.global.u32 %r2, [%rd1]; st.global.u32 [%rd2], %r2;")
    assert stored == {"ld.volatile.global.u32": L.LOADS | L.CARRIES}
    addressed = _roles(
        "ld.volatile.global.u64 %rd3, [%rd1]; ld.global.u32 %r2, [%rd3]; st.global.u32 [%rd2], %r1;"
    )
    assert addressed["ld.volatile.global.u64"] & L.CARRIES
    shared = _roles(
        "ld.volatile.global.u32 %r2, [%rd1]; st.shared.u32 [%r1], %r2; bar.sync 0;\n"
        "ld.shared.u32 %r3, [%r1]; st.global.u32 [%rd2], %r3;"
    )
    assert shared["ld.volatile.global.u32"] & L.CARRIES


def test_updates_and_stores_have_roles_of_their_own() -> None:
    found = _roles("atom.global.add.u32 %r2, [%rd1], 1; st.volatile.global.u32 [%rd2], %r1;")
    assert found == {"atom.global.add.u32": L.UPDATES, "st.volatile.global.u32": L.STORES}


_REPLICATED = (
    "ld.volatile.global.u32 %r2, [%rd1];\nsetp.eq.u32 %p1, %r1, 0;\n"
    "@%p1 atom.global.add.u32 %r3, [%rd2], 1;"
)


def _sites(program: Program) -> tuple[int, int]:
    codes = [one.opcode for one in program.body]
    return codes.index("ld.volatile.global.u32"), codes.index("atom.global.add.u32")


def test_all_threads_read_what_one_thread_chosen_by_its_number_updates() -> None:
    program = _program(_REPLICATED)
    assert is_replicated(program, *_sites(program))
    everybody = _program(_REPLICATED.replace("@%p1 ", ""))
    assert not is_replicated(everybody, *_sites(everybody))
    by_data = _program(_REPLICATED.replace("%p1, %r1, 0", "%p1, %r4, 0"))
    assert not is_replicated(by_data, *_sites(by_data))
    each_its_own = _program("mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3;\n" + _REPLICATED)
    assert not is_replicated(each_its_own, *_sites(each_its_own))
