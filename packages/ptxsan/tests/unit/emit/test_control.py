"""Branches through a table (brx.idx), as compilers write them where warps take different parts."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.errors import MachineError
from ptxsan.parser import parse
from ptxsan_fuzz.execute import run_text
from ptxsan_support.ptx import kernel

pytest.importorskip("numba")
_BODY = """and.b32 %r2, %r1, 3;
table: .branchtargets zero, one, two, zero;
{}brx.idx %r2, {};
one: mov.u32 %r3, 10; bra.uni done;
two: mov.u32 %r3, 20; bra.uni done;
zero: mov.u32 %r3, 5;
done: mul.wide.u32 %rd7, %r1, 4; add.u64 %rd2, %rd2, %rd7;
st.global.b32 [%rd2], %r3;"""


def test_lanes_go_where_the_table_says() -> None:
    text = kernel(_BODY.format("", "table"))
    found = run_text(text, "k", np.zeros(64, np.float32), 1, (1, 64)).view(np.uint32)
    np.testing.assert_array_equal(found.ravel(), [5, 10, 20, 5] * 16)


@pytest.mark.parametrize(("predicate", "table"), [("@%p1 ", "table"), ("", "other")])
def test_what_is_not_modelled_is_refused(predicate: str, table: str) -> None:
    with pytest.raises(MachineError, match=r"brx\.idx"):
        parse(kernel(_BODY.format(predicate, table)))
