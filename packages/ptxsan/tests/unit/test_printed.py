"""printf and assert in the machine: what was printed, by whom, bounded, and nothing obeyed."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ptxsan import nvrtc
from ptxsan.findings import Kind, MachineReport
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.printed import MOST_CHARACTERS, MOST_LINES, formatted
from ptxsan.records import LaunchState
from ptxsan.run import run

SOURCE = """
extern "C" __global__ void k(const float* x, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) printf("i=%d x=%g of %s %lld%%\\n", i, x[i], "row\\x1b[31m", (long long)i << 40);
    assert(x[i] < 100.0f && "too large");
}
"""
needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="libnvrtc is not installed")
# As Triton writes it: what vprintf returns is not read, and there are no arguments.
BARE = """
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.global .align 1 .b8 text[3] = {111, 107, 10};
.visible .entry k() {
.reg .b64 %rd<3>;
mov.u64 %rd1, text; cvta.global.u64 %rd2, %rd1;
{
.param .b64 p0; st.param.b64 [p0], %rd2;
.param .b64 p1; st.param.b64 [p1], 0;
.param .b32 q;
call.uni (q), vprintf, (p0, p1);
}
ret;
}
"""


def execute(values: list[float], count: int, blocks: int = 1) -> MachineReport:
    """Run SOURCE over values, four threads a block."""
    x = np.array(values, np.float32)
    buffer = Buffer(name="x", data=x.view(np.uint8))
    launch = Launch(
        kernel="k", grid=(blocks, 1, 1), block=(x.size // blocks, 1, 1),
        arguments=(Pointer(buffer=buffer), struct.pack("<i", count)),
    )  # fmt: skip
    module = parse(nvrtc.compile_ptx(SOURCE, arch="sm_80", name="k.cu"))
    return run(module, launch, options=Options(shadow=False))


def empty() -> LaunchState:
    return LaunchState(record=np.zeros(8, np.uint8), allocations=[])


@needs_nvrtc
def test_what_each_thread_prints_is_kept_with_its_place() -> None:
    report = execute([1, 2.5, 3, 4], 2)
    assert report.printed == (
        "thread (0, 0, 0) of block (0, 0, 0): i=0 x=1 of row\\x1b[31m 0%",
        "thread (1, 0, 0) of block (0, 0, 0): i=1 x=2.5 of row\\x1b[31m 1099511627776%",
    )
    assert report.findings == ()
    assert report.inconclusive is None


@needs_nvrtc
def test_a_failed_assertion_is_a_finding_with_its_message_file_and_line() -> None:
    (finding,) = execute([1, 2, 300, 4], 0).findings
    assert finding.kind is Kind.ASSERT
    assert '`x[i] < 100.0f && "too large"` at k.cu:5 in void k(' in finding.text
    assert finding.accesses[0].thread == (2, 0, 0)


@needs_nvrtc
def test_calls_beyond_the_table_are_counted() -> None:
    report = execute([0.0] * 2048, 2048, blocks=4)
    assert len(report.printed) == MOST_LINES + 1
    assert report.printed[-1] == f"... and {2048 - MOST_LINES} calls more"


def test_a_call_whose_result_nobody_reads() -> None:
    launch = Launch(kernel="k", grid=(1, 1, 1), block=(2, 1, 1))
    assert run(parse(BARE), launch).printed[1] == "thread (1, 0, 0) of block (0, 0, 0): ok"


def test_a_call_of_anything_else_is_named() -> None:
    launch = Launch(kernel="k", grid=(1, 1, 1), block=(2, 1, 1))
    report = run(parse(BARE.replace("vprintf", "malloc")), launch)
    assert report.inconclusive is not None
    assert "calls 'malloc'" in report.inconclusive


@pytest.mark.parametrize(
    ("pattern", "data", "shown"),
    [
        ("%5d|%-5d|%05d", struct.pack("<iii", 42, 42, 42), "   42|42   |00042"),
        ("%u %x %#o", struct.pack("<iII", -1, 255, 8), "4294967295 ff 010"),
        ("%hhd %hu", struct.pack("<ii", 200, -1), "-56 65535"),
        ("%d %f", struct.pack("<ixxxxd", 7, 0.5), "7 0.500000"),
        ("%.2e %G %a", struct.pack("<3d", 12345, 1e-9, 1), "1.23e+04 1E-09 0x1.0000000000000p+0"),
        ("%*d|%-*d|%.*f", struct.pack("<iiiiixxxxd", 4, 1, 3, 2, 1, 0.25), "   1|2  |0.2"),
        ("%p %c%n!", struct.pack("<QixxxxQ", 255, 65, 1), "0xff A!"),
        ("%s", struct.pack("<Q", 12345), ""),
        ("%d and %d", struct.pack("<i", 1), "1 and (missing)"),
        ("100%", b"", "100%"),
        ("%lld %zu", struct.pack("<qQ", -(1 << 40), 1 << 63), "-1099511627776 9223372036854775808"),
        ("\x1b]0;title\x07\r\n", b"", "\\x1b]0;title\\x07\\r"),
    ],
)  # fmt: skip
def test_formats_as_c_knows_them(pattern: str, data: bytes, shown: str) -> None:
    assert formatted(empty(), pattern, data) == shown


def test_a_hostile_width_costs_nothing() -> None:
    text = formatted(empty(), "%999999999d%.999999999f" * 50, struct.pack("<id", 1, 1.0) * 14)
    assert len(text) <= MOST_CHARACTERS
