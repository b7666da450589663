"""What follows from a thread's place alone, tried for all threads: rows placed by xor and masks."""

from __future__ import annotations

import pytest

from ptxsan import nvrtc
from ptxsan.prove.memory import LaunchAnswer, Proved, Refuted, prove_call
from ptxsan.prove.solver import Discharge
from ptxsan_support.proofs import subject_of, up

pytest.importorskip("z3")
pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
SOURCE = """extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[128];
  int i = blockIdx.x * 128 + threadIdx.x, t = threadIdx.x;
  s[t ^ ((-(t & 1)) & 72)] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (i < n) y[i] = s[t ^ (((t >> 2) & 7) << 4)];
}"""


def _answer(old: str = "", new: str = "") -> LaunchAnswer:
    subject = subject_of(
        "swizzled", SOURCE.replace(old, new) if old else SOURCE, "n", lambda s: up(s["n"], 128),
        128, "p:4*n p:4*n i:n", "n", unwritten=(1,),
    )  # fmt: skip
    (found,) = prove_call(subject.law(), subject.domain, limit_s=30)
    return found


def test_rows_that_xor_places_are_within_the_array_and_written() -> None:
    found = _answer()
    assert isinstance(found.answer, Proved)
    assert isinstance(found.initialized, Proved), found.initialized
    assert found.initialized.discharged == {str(Discharge.THREADS): found.initialized.accesses}


def test_a_row_beyond_the_array_is_refuted() -> None:
    assert isinstance(_answer("& 72)", "& 136)").answer, Refuted)


def test_a_row_that_no_thread_writes_is_refuted() -> None:
    found = _answer("s[t ^ ((-(t & 1)) & 72)]", "s[t & ~((-(t & 1)) & 72)]")
    assert isinstance(found.answer, Proved)
    assert isinstance(found.initialized, Refuted)
