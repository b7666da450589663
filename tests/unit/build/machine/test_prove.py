"""Outlines of launches in, answers for all sizes out; which sizes are recorded."""

from __future__ import annotations

import dataclasses
import json
import struct

import pytest

from cuassay.build.cuda.nvrtc import find_nvrtc
from cuassay.build.machine import sampled
from cuassay.build.machine.prove import expression, packed, prove
from cuassay.judge.proofs.launch_samples import legal_sizes, plan
from cuassay.judge.proofs.request import wanted
from cuassay.model import serial
from cuassay.model.domain import Domain, Index, IntegerRange, Offsets
from cuassay.model.dtype import DType
from cuassay.model.machine import MachineEvidence
from cuassay.model.problem import TensorSpec, VarAxis
from cuassay.model.proofs import Claim, ProofAnswer, ProofEvidence, Property
from cuassay.model.recording import RecordedLaunch, Recording, Region, encode
from cuassay.model.stated import FactKind, StatedFact
from ptxsan.nvrtc import compile_ptx
from ptxsan.prove.law import evaluated
from tests.support.builds import problem

pytest.importorskip("z3")
pytestmark = pytest.mark.skipif(find_nvrtc() is None, reason="libnvrtc is not installed")
SOURCE = """extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i %s n) y[i] = x[i];
}"""
WANTED = {
    "axes": {"n": [1, None, 1]},
    "tensors": [[["n"]]],
    "values": {},
    "listed": [],
    "limit_s": 60.0,
}


def outlines(compare: str, source: str = SOURCE) -> list[tuple[dict[str, int], Recording]]:
    text = compile_ptx(source % compare, arch="sm_90")
    found = []
    for n in (1, 2, 5, 31, 32, 33, 100, 127, 128, 129, 200, 257, 300, 512, 1000):
        first, second = 1 << 20, 1 << 21
        launch = RecordedLaunch(
            module=0, kernel="k", grid=(-(-n // 128), 1, 1), block=(128, 1, 1), shared_bytes=0,
            arguments=(struct.pack("<Q", first), struct.pack("<Q", second), struct.pack("<i", n)),
            regions=(
                Region(name="x", base=first, nbytes=4 * n),
                Region(name="y", base=second, nbytes=4 * n),
            ),
        )  # fmt: skip
        found.append(({"n": n}, Recording(modules=(text,), launches=(launch,))))
    return found


def answered(compare: str) -> ProofEvidence:
    data = prove(memoryview(packed(outlines(compare), WANTED)))
    found: ProofEvidence = serial.loads(ProofEvidence, data.decode())
    return found


def test_a_guarded_kernel_is_proved_and_its_law_is_told() -> None:
    evidence = answered("<")
    assert evidence.answer is ProofAnswer.PROVED
    assert [evidence.of(what) for what in evidence.wanted] == [ProofAnswer.PROVED] * 3
    (call,) = evidence.calls
    (launch,) = call.launches
    assert (call.fitted, call.confirmed) == (10, 5)
    assert launch.law == (
        "grid (ceil(n / 128), 1, 1), block (128, 1, 1)",
        "argument 0: 'x', 4*n bytes",
        "argument 1: 'y', 4*n bytes",
        "argument 2: n",
    )


WRAPS = """extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i %s n) *(float*)((char*)y + (int)(i * 4u)) = x[i];
}"""


def test_a_proof_holds_for_as_many_elements_as_are_asked_for() -> None:
    recorded = outlines("<", WRAPS)

    def memory(**asked: int) -> Claim:
        data = prove(memoryview(packed(recorded, {**WANTED, **asked})))
        found: ProofEvidence = serial.loads(ProofEvidence, data.decode())
        return found.calls[0].launches[0].claims[0]

    below = memory()
    assert (below.answer, below.limit_elements) == (ProofAnswer.PROVED, 1 << 29)
    above = memory(elements=1 << 31)
    assert above.answer is ProofAnswer.REFUTED
    assert above.sizes["n"] >= 1 << 29
    assert above.block is not None
    (launch,) = recorded[0][1].launches
    n = above.sizes["n"]
    regions = tuple(
        Region(name=one.name, base=base, nbytes=4 * n)
        for one, base in zip(launch.regions, (1 << 40, 1 << 41), strict=True)
    )
    own = dataclasses.replace(
        launch, grid=(-(-n // 128), 1, 1), regions=regions,
        arguments=(*(struct.pack("<Q", one.base) for one in regions), struct.pack("<i", n)),
    )  # fmt: skip
    hollow = encode(dataclasses.replace(recorded[0][1], launches=(own,)))

    def again(**changed: object) -> int:
        named = {
            "kernel": "k",
            "block": above.block,
            "line": above.ptx_line,
            "data": [],
            **changed,
        }
        request = json.dumps({"limit_s": 10.0, "again": named}).encode()
        seen = serial.loads(
            MachineEvidence, sampled.replay(memoryview(hollow), memoryview(request)).decode()
        )
        assert not seen.refused
        return len(seen.faults)

    assert again()
    assert not again(block=(0, 0, 0)), "the first block stays inside"
    assert not again(kernel="other")


GATHER = """extern "C" __global__ void k(const int* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i %s n) y[x[i]] = 1.f;
}"""


@pytest.mark.parametrize(("high", "free", "answer"), [
    ([["n", 1, "-"]], True, ProofAnswer.PROVED),
    ([["n"]], True, ProofAnswer.REFUTED),
    ([["n"]], False, ProofAnswer.UNKNOWN),
])  # fmt: skip
def test_an_index_refutes_where_the_domain_lets_callers_pass_it(
    high: list[list[object]], free: bool, answer: ProofAnswer
) -> None:
    asked = {**WANTED, "values": {"x": [[0], high[0], 4, free, False]}}
    data = prove(memoryview(packed(outlines("<", GATHER), asked)))
    claim = serial.loads(ProofEvidence, data.decode()).calls[0].launches[0].claims[0]
    assert claim.answer is answer
    if answer is ProofAnswer.REFUTED:
        (datum,) = claim.data
        assert (datum.input, datum.value) == ("x", claim.sizes["n"])


def test_one_element_too_many_is_refuted_with_sizes_and_thread() -> None:
    evidence = answered("<=")
    assert evidence.answer is ProofAnswer.REFUTED
    (launch,) = evidence.calls[0].launches
    memory, *_ = launch.claims
    n = memory.sizes["n"]
    assert n % 128
    assert memory.thread == (n % 128, 0, 0)
    assert "'x'" in memory.reason


def test_a_proof_covers_the_sizes_that_the_problem_names_or_is_none() -> None:
    wrapping = SOURCE.replace(
        "if (i %s n) y[i] = x[i];",
        """for (; i < n; i += 2 * blockDim.x * gridDim.x)
    if (i %s n) y[i] = x[i];""",
    )

    def answer(listed: int) -> ProofAnswer:
        found = outlines("<", wrapping)
        asked = {**WANTED, "listed": [{"n": listed}]}
        data = prove(memoryview(packed(found, asked)))
        evidence: ProofEvidence = serial.loads(ProofEvidence, data.decode())
        return evidence.of(Property.MEMORY)

    assert answer(1 << 20) is ProofAnswer.PROVED  # below 2^29, where no index wraps
    assert answer((1 << 31) - 1) is not ProofAnswer.PROVED


def test_garbage_is_refused() -> None:
    evidence = serial.loads(ProofEvidence, prove(memoryview(b'{"axes": {}}')).decode())
    assert evidence.refused
    assert evidence.answer is ProofAnswer.UNKNOWN


def test_shapes_become_laws() -> None:
    law = expression(["n", 2, "+", "m", "*", 4, "//"])
    assert evaluated(law, {"n": 5, "m": 3}) == 5


def test_sizes_to_record_are_legal_and_the_first_is_small() -> None:
    axis = VarAxis(name="n", minimum=4, maximum=1000, multiple_of=4)
    sizes = legal_sizes(axis, 1 << 20)
    assert sizes[0] == 4
    assert sizes[-1] == 1000
    assert all(size % 4 == 0 for size in sizes)
    one = problem()
    planned = plan(one)
    assert len(planned) > 20
    assert planned[0] == {"rows": 9}
    assert max(row["rows"] for row in planned) > 100_000
    assert set(wanted(one)["axes"]) == {axis.name for axis in one.var_axes()}


@pytest.mark.parametrize(("domain", "facts", "free"), [
    (Index(axis="rows"), (), True),
    (Index(axis="rows", sentinels=(-1,)), (), True),
    (Index(axis="rows", sentinels=(-100,)), (), False),  # -50 is no index
    (Index(axis="rows", unique=True), (), False),
    (Offsets(axis="rows"), (), False),
    (IntegerRange(low=3, high=9), (), True),
    (Index(axis="rows"), (StatedFact(input="x", kind=FactKind.SORTED),), False),
])  # fmt: skip
def test_only_what_may_stand_anywhere_refutes_by_data(
    domain: Domain, facts: tuple[StatedFact, ...], free: bool
) -> None:
    spec = TensorSpec(name="x", dtype=DType.INT32, shape=("rows",), domain=domain)
    asked = wanted(dataclasses.replace(problem(), inputs=(spec,), stated=facts))
    assert asked["values"]["x"][3:] == [free, isinstance(domain, Offsets)]
