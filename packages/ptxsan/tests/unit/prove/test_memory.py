"""Proofs of memory safety: safe kernels are proved, faulty ones refuted, changed ones never
proved where the machine runs into a fault.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import re

import pytest

from ptxsan import nvrtc
from ptxsan.prove.law import Axis, Expression, Integers, Number, Observation, laws
from ptxsan.prove.machine import AxisDomain
from ptxsan.prove.memory import Answer, Proved, Refuted, Unknown, prove_call, prove_launch
from ptxsan.prove.replay import replay, risen
from ptxsan_support.mutants import mutants
from ptxsan_support.proofs import FAULTY, SAFE, Subject
from ptxsan_support.thorough import one_in

pytest.importorskip("z3")
pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
_QUICK = ("elementwise", "grid stride", "four at once", "running sum", "rows: mean")


def _quick(subjects: tuple[Subject, ...]) -> list[Subject]:
    return [one for one in subjects if one.name.startswith(_QUICK)]


@pytest.mark.parametrize("subject", _quick(SAFE), ids=lambda one: one.name)
def test_a_safe_kernel_is_proved_for_all_sizes(subject: Subject) -> None:
    (answer,) = prove_call(subject.law(), subject.domain, limit_s=120)
    assert isinstance(answer.answer, Proved)
    assert answer.answer.accesses > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "subject", one_in(4, [one for one in SAFE if one not in _quick(SAFE)]), ids=lambda one: one.name
)
def test_a_kernel_with_loops_and_tiles_is_proved_for_all_sizes(subject: Subject) -> None:
    (answer,) = prove_call(subject.law(), subject.domain, limit_s=240)
    assert isinstance(answer.answer, Proved)


@pytest.mark.parametrize("subject", FAULTY, ids=lambda one: one.name)
def test_a_faulty_kernel_is_refuted_at_a_size_where_the_machine_shows_it(subject: Subject) -> None:
    law = subject.law()
    (answer,) = prove_call(law, subject.domain, limit_s=120)
    assert isinstance(answer.answer, Refuted)
    assert replay(law.launches[0], answer.answer.sizes).faults


@pytest.mark.parametrize(
    "subject",
    [
        pytest.param(one, id=one.name, marks=[pytest.mark.thorough] if "sum" in one.name else [])
        for one in SAFE
        if one.name.startswith(("elementwise", "four", "running"))
    ],
)
def test_a_changed_kernel_is_not_proved_where_the_machine_finds_a_fault(subject: Subject) -> None:
    law = subject.law()
    every = list(mutants(subject.ptx))
    random.Random(11).shuffle(every)
    proved = 0
    # Most changes of a loop with products of sizes are unknown, which takes all the work allowed.
    count = 2 if subject.name.endswith("backward") else 6
    for what, text in itertools.islice(every, count):
        changed = dataclasses.replace(law.launches[0], module=text)
        answer = prove_launch(changed, law.scope, subject.domain, limit_s=10).answer
        if isinstance(answer, Proved):
            proved += 1
            for sizes in subject.small_sizes(4):
                assert not replay(changed, sizes, limit_s=20).faults, f"{what} at {sizes}"
    assert proved < count  # or the changes would change nothing


def test_a_fault_of_large_sizes_alone_is_refuted_by_a_block_that_runs_by_itself() -> None:
    source = """extern "C" __global__ void k(const char* x, float* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = *(const float*)(x + i * 4);  // wraps from 2^29 elements on
    }"""
    subject = Subject(
        name="bytes in 32 bits", source=source, axes={"n": AxisDomain()},
        grid=(lambda s: -(-s["n"] // 256), lambda s: 1, lambda s: 1), block=(256, 1, 1),
        arguments=(*(("p", lambda s: 4 * s["n"]),) * 2, ("i", lambda s: s["n"])),
        elements=(("n",),), listed=1 << 30,
    )  # fmt: skip
    (answer,) = prove_call(subject.law(), subject.domain)
    assert isinstance(answer.answer, Refuted)
    assert answer.answer.sizes["n"] > 1 << 29
    assert answer.answer.finding.accesses[0].block[0] >= 1 << 21
    below = dataclasses.replace(subject, axes={"n": AxisDomain(high=1 << 29)}, listed=0)
    (answer,) = prove_call(below.law(), below.domain)
    assert isinstance(answer.answer, Proved)


STRIDES = """extern "C" __global__ void k(const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    y[i] = x[i];
}"""


def test_a_loop_whose_counter_wraps_is_refuted_at_the_largest_sizes() -> None:
    from ptxsan_support.proofs import subject_of, up

    subject = subject_of(
        "one element a thread", STRIDES, "n", lambda s: up(s["n"], 256), 256,
        "p:4*n p:4*n i:n", "n",
    )  # fmt: skip
    (launch,) = subject.law().launches
    scope = subject.law().scope
    whole = dataclasses.replace(subject.domain, listed=(1 << 31) - 1)
    found = prove_launch(launch, scope, whole, also=({"n": 64},)).answer
    assert isinstance(found, Refuted)
    assert found.sizes["n"] > 1 << 30, "below, the counter stays below 2^31"
    below = prove_launch(launch, scope, dataclasses.replace(whole, limit=1 << 29, listed=0)).answer
    assert isinstance(below, Proved)


def test_without_a_law_nothing_is_proved() -> None:
    subject = SAFE[0]
    law = subject.law()
    blind = dataclasses.replace(law.launches[0], regions=(None, None))
    answer = prove_launch(blind, law.scope, subject.domain).answer
    assert isinstance(answer, Unknown)
    assert "no law was found for the length" in answer.reason


def test_a_law_that_few_calls_confirm_proves_nothing() -> None:
    subject = SAFE[0]
    few = dataclasses.replace(subject.law(), confirmed=1)
    (answer,) = prove_call(few, subject.domain)
    assert isinstance(answer.answer, Unknown)


GATHER = """extern "C" __global__ void k(const int* index, const float* table, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = table[index[i]];
}"""


def test_indices_from_memory_are_anything_unless_the_domain_bounds_them() -> None:
    from ptxsan_support.proofs import subject_of, up

    subject = subject_of(
        "gather", GATHER, "n rows", lambda s: up(s["n"], 64), 64,
        "p:4*n p:4*rows p:4*n i:n", "n, rows",
    )  # fmt: skip
    law = subject.law()
    (launch,) = law.launches
    anything = prove_launch(launch, law.scope, subject.domain, limit_s=60).answer
    assert isinstance(anything, Unknown)

    def answer(high: Expression, *, low: int = 0, free: bool = True) -> Answer:
        values = {0: Integers(low=Number(low), high=high, nbytes=4, free=free)}
        return prove_launch(launch, law.scope, subject.domain, values=values).answer

    assert isinstance(answer(_less_one("rows")), Proved)
    too_wide = answer(Axis("rows"))
    assert isinstance(too_wide, Refuted)
    (datum,) = too_wide.data
    assert datum.value == too_wide.sizes["rows"], "the only index that is outside"
    # Sorted offsets, say: one that is moved makes data that nobody passes.
    assert isinstance(answer(Axis("rows"), free=False), Unknown)
    # Where zero is no legal index the others are legal as well.
    from_one = answer(Axis("rows"), low=1)
    assert isinstance(from_one, Refuted)
    assert from_one.data


@pytest.mark.parametrize(
    ("written", "expected"),
    [("y[i] = 0.f;", Proved), ("if (i < n) ((int*)index)[i] = 1 << 20;", Unknown)],
)
def test_integers_are_the_domains_after_launches_that_do_not_write_them(
    written: str, expected: type
) -> None:
    from ptxsan_support.proofs import compiled, subject_of, up

    subject = subject_of(
        "gather", GATHER, "n rows", lambda s: up(s["n"], 64), 64,
        "p:4*n p:4*rows p:4*n i:n", "n, rows",
    )  # fmt: skip
    law = subject.law()
    first = compiled(GATHER.replace("y[i] = table[index[i]];", written))
    both = dataclasses.replace(
        law, launches=(dataclasses.replace(law.launches[0], module=first), *law.launches)
    )
    values = {"p0": Integers(low=Number(0), high=_less_one("rows"), nbytes=4, free=True)}
    before, after = prove_call(both, subject.domain, values=values)
    assert isinstance(before.answer, Proved)
    assert isinstance(after.answer, expected)


def test_integers_are_not_the_domains_after_a_launch_that_writes_them_at_some_sizes() -> None:
    from ptxsan_support.proofs import compiled, subject_of, up

    subject = subject_of(
        "gather", GATHER, "n rows", lambda s: up(s["n"], 64), 64,
        "p:4*n p:4*rows p:4*n i:n", "n, rows",
    )  # fmt: skip
    first = compiled(GATHER.replace("y[i] = table[index[i]];", "y[i] = 1.f;"))
    rows = []
    for n in range(1, 40):
        (gather,) = subject.observed({"n": n, "rows": n + 3}, subject.ptx).launches
        x, table, y = gather.arguments[:3]
        given = (table, table, x if n % 2 else y)  # it writes the indices where n is odd
        write = dataclasses.replace(
            gather, module=first, arguments=(*given, *gather.arguments[3:]),
            names=("p0", "", "p2"),
        )  # fmt: skip
        rows.append(Observation(sizes={"n": n, "rows": n + 3}, launches=(write, gather)))
    (law,) = laws(rows)
    values = {"p0": Integers(low=Number(0), high=_less_one("rows"), nbytes=4, free=True)}
    _, after = prove_call(law, subject.domain, values=values)
    assert isinstance(after.answer, Unknown)


LENGTHS = """extern "C" __global__ void k(const int* from, float* y, const float* x, int n) {
  int first = from[blockIdx.x], last = from[blockIdx.x + 1];
  if (threadIdx.x == 0) y[last - first - LEAST] = 1.f;
  for (int i = first + threadIdx.x; i < last; i += 32) y[i] = x[i];
}"""


def _of_lengths(least: int) -> Subject:
    from ptxsan_support.proofs import subject_of

    return subject_of(
        f"lengths of sequences, at least {least}", LENGTHS.replace("LEAST", str(least)), "n b",
        lambda s: s["b"], 32, "p:4*b+4 p:4*n+4 p:4*n i:n", "n, b",
    )  # fmt: skip


def test_offsets_of_sequences_are_in_order() -> None:
    offsets = Integers(low=Number(0), high=Axis("n"), nbytes=4, rising=True)
    law = _of_lengths(0).law()
    (launch,) = law.launches
    domain = _of_lengths(0).domain
    answer = prove_launch(launch, law.scope, domain, values={0: offsets}).answer
    assert isinstance(answer, Proved)
    unordered = dataclasses.replace(offsets, rising=False)
    answer = prove_launch(launch, law.scope, domain, values={0: unordered}).answer
    assert isinstance(answer, Unknown)
    # An empty sequence is what refutes, in offsets that somebody may pass.
    law = _of_lengths(1).law()
    (launch,) = law.launches
    answer = prove_launch(launch, law.scope, domain, values={0: offsets}).answer
    assert isinstance(answer, Refuted)
    given = [one.value for one in answer.data]
    assert given == sorted(given)
    assert len(given) == answer.sizes["b"] + 1
    assert (given[0], given[-1]) == (0, answer.sizes["n"])


@pytest.mark.parametrize(
    ("count", "known", "expected"),
    [
        (4, {}, (0, 0, 0, 9)),
        (4, {1: 3}, (0, 3, 3, 9)),
        (4, {1: 3, 2: 2}, None),
        (4, {0: 1}, None),
        (4, {3: 8}, None),
        (4, {4: 9}, None),
        (1, {}, None),
    ],
)
def test_some_offsets_are_made_whole(
    count: int, known: dict[int, int], expected: tuple[int, ...] | None
) -> None:
    assert risen(count, 0, 9, known) == expected


ADVANCED = """extern "C" __global__ void k(int* at, const float* table, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  BODY
}"""


@pytest.mark.parametrize(
    ("body", "safe"),
    [
        ("int j = at[i]; at[i] = j + 1; y[i] = table[j];", True),
        ("y[i] = 0.f; int j = at[i]; at[i] = j + 1; y[i] = table[j];", True),
        ("int j = at[i]; if (j) at[i] = n; else at[i] = j - 1; y[i] = table[j];", True),
        # What another thread wrote, or this one.
        ("int j = at[(i + 1) % n]; at[i] = n; y[i] = table[j];", False),
        ("at[i] = at[i] + 1; __threadfence(); y[i] = table[((volatile int*)at)[i]];", False),
        (
            "for (int c = 0; c < 2; ++c) {"
            "  int j = ((volatile int*)at)[i]; at[i] = j + 1; y[i] += table[j]; }",
            False,
        ),
        ("int j = at[i]; at[i ^ 1] = n; __syncthreads(); y[i] = table[j + at[i]];", False),
        ("int j = atomicAdd(&at[i % 3], 1); y[i] = table[j];", False),
    ],
)
def test_integers_are_the_domains_until_somebody_writes_them(body: str, safe: bool) -> None:
    from ptxsan_support.proofs import subject_of, up

    subject = subject_of(
        "advanced", ADVANCED.replace("BODY", body), "n rows", lambda s: up(s["n"], 64), 64,
        "p:4*n+16 p:4*rows p:4*n i:n", "n, rows",
    )  # fmt: skip
    law = subject.law()
    values = {0: Integers(low=Number(0), high=_less_one("rows"), nbytes=4)}
    answer = prove_launch(law.launches[0], law.scope, subject.domain, values=values).answer
    assert isinstance(answer, Proved) is safe


NULL = """extern "C" __global__ void k(const float* x, float* y, float* extra, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) y[i] = x[i];
  if (GUARD) extra[i % 4] = 1.f;
}"""


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        ("n == 70003 && i == 5", Refuted),
        ("extra && n == 70003", Proved),
        ("i >= 64 * ((n + 63) / 64)", Proved),
    ],
)
def test_a_null_pointer_is_followed_only_where_no_thread_gets(guard: str, expected: type) -> None:
    from ptxsan_support.proofs import subject_of, up

    subject = subject_of(
        "null", NULL.replace("GUARD", guard), "n", lambda s: up(s["n"], 64), 64,
        "p:4*n p:4*n l:0*n i:n", "n",
    )  # fmt: skip
    (answer,) = prove_call(subject.law(), subject.domain)
    assert isinstance(answer.answer, expected)
    if isinstance(answer.answer, Refuted):
        assert answer.answer.sizes == {"n": 70003}


def test_a_parameter_is_read_at_an_address_in_a_register() -> None:
    subject = SAFE[0]
    law = subject.law()
    found = re.search(
        r"ld\.param\.(?P<type>[usb]32)\s+(?P<to>%r\d+), \[(?P<name>\w+)\];", subject.ptx
    )
    assert found is not None

    def answer(offset: int) -> Answer:
        far = f".reg .b64 %far; mov.b64 %far, {found['name']}; add.s64 %far, %far, 8;"
        text = f"{far} ld.param.{found['type']} {found['to']}, [%far+{offset}];"
        module = subject.ptx.replace(found[0], text, 1)
        changed = dataclasses.replace(law.launches[0], module=module)
        return prove_launch(changed, law.scope, subject.domain).answer

    assert isinstance(answer(-8), Proved)
    assert not isinstance(answer(0), Proved), "nothing is known of what lies behind a parameter"


TABLE = """extern "C" __global__ void k(const float* x, float* y, const int* w, int n, int half) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int ends[2] = {half, LAST};  // of the rows of x
  OVER
  const int* end = ends;
  if (i < n) {
    while (i >= *end) { x += n; ++end; }
    y[i] = x[i];
  }
}"""


@pytest.mark.parametrize(
    ("last", "over", "rows", "expected"),
    [
        ("n", "", 2, Proved),
        ("n", "if (i < n) ends[0] = w[i] & 1;", 2, Proved),
        ("n", "", 1, Refuted),  # a row that is not there
        ("n - 1", "", 2, Refuted),  # the last thread walks out of the table
        ("n", "if (i < n) ends[1 - (w[i] & 1)] = 0;", 2, Refuted),  # where nobody knows
    ],
)
def test_a_table_of_the_threads_own_is_walked(
    last: str, over: str, rows: int, expected: type
) -> None:
    from ptxsan_support.proofs import subject_of, up

    source = TABLE.replace("LAST", last).replace("OVER", over)
    subject = subject_of(
        "table", source, "n", lambda s: up(s["n"], 64), 64,
        f"p:{4 * rows}*n p:4*n p:4*n i:n i:n//2", "n",
    )  # fmt: skip
    assert "ld.local" in subject.ptx
    (answer,) = prove_call(subject.law(), subject.domain)
    assert isinstance(answer.answer, expected)


def _less_one(name: str):  # type: ignore[no-untyped-def]
    from ptxsan.prove.law import Sum

    return Sum(((1, (Axis(name),)), (-1, ())))


def test_what_is_not_followed_is_not_proved() -> None:
    subject = SAFE[0]
    text = subject.ptx.replace("ld.global.nc.f32", "ld.global.f32")
    place = text.index("ld.global.f32")
    fence = "mbarrier.init.shared::cta.b64 [%rd1], 1;\n"
    law = subject.law()
    changed = dataclasses.replace(law.launches[0], module=f"{text[:place]}{fence}{text[place:]}")
    answer = prove_launch(changed, law.scope, subject.domain).answer
    assert isinstance(answer, Unknown)
    assert "mbarrier" in answer.reason
