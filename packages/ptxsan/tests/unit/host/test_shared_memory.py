"""How much static shared memory a kernel has: what it names, and what it calls names."""

from __future__ import annotations

from ptxsan.host.runtime import static_shared_bytes
from ptxsan.parser import parse

_TEXT = """
.version 8.0
.target sm_90
.address_size 64
.shared .align 4 .b8 of_helper[32768];
.shared .align 4 .b8 of_both[1024];
.extern .shared .align 4 .b8 dynamic[];
.func helper(.param .b64 x)
{
    .reg .b32 %r<2>;
    mov.u32 %r1, of_helper;
    st.shared.u32 [%r1], 0;
    ret;
}
.visible .entry calls()
{
    .reg .b64 %rd<2>;
    .reg .b32 %r<2>;
    mov.u32 %r1, of_both;
    mov.u64 %rd1, 0;
    {
    .param .b64 given;
    st.param.b64 [given], %rd1;
    call.uni helper, (given);
    }
    ret;
}
.visible .entry alone()
{
    .reg .b32 %r<3>;
    .shared .align 4 .b8 own[64];
    mov.u32 %r1, own;
    mov.u32 %r2, of_both;
    mov.u32 %r2, dynamic;
    ret;
}
"""


def test_a_kernel_has_what_it_and_its_functions_name_and_no_more() -> None:
    module = parse(_TEXT)
    found = {name: static_shared_bytes(module, module.functions[name]) for name in module.entries}
    assert found == {"calls": 32768 + 1024, "alone": 64 + 1024}
    assert static_shared_bytes(module, module.functions["alone"]) == 64 + 1024
