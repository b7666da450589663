"""Names as the source spells them, with the compiler's library and without it."""

from __future__ import annotations

import pytest

from ptxsan import names
from ptxsan.names import plain_name, readable, source_name

_ROWS = "_Z4rowsIfLi4EEvPKT_i"  # void rows<float, 4>(float const*, int)


def test_functions_have_their_template_arguments() -> None:
    assert source_name(_ROWS) == "rows<float, 4>"
    assert source_name("_ZN2ns5inner4fillIiEEvPT_S2_") == "ns::inner::fill<int>"
    assert source_name("_ZZ4rowsIfLi4EEvPKT_iE4tile") == "tile of rows<float, 4>"
    assert source_name("_ZN12_GLOBAL__N_15scaleEPf") == "scale"
    assert source_name("triton_kernel_0d1d") == "triton_kernel_0d1d"


def test_plain_names_have_neither_scopes_nor_arguments() -> None:
    assert plain_name("_ZN2ns5inner4fillIiEEvPT_S2_") == "fill"
    assert plain_name("_Z4rowsISt4pairIiiEEvPT_") == "rows"


def test_a_message_is_readable() -> None:
    assert readable(f"kernel '{_ROWS}' waits") == "kernel 'rows<float, 4>' waits"
    assert readable("nothing to do with _Zebra") == "nothing to do with _Zebra"


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z5scalePf", "scale"),
        ("_ZN2ns5inner4fillIiEEvPT_S2_", "fill"),
        ("_ZZ5scalePfE4tile", "tile of scale"),
        ("_Z99short", "_Z99short"),
        ("_Zebra", "_Zebra"),
    ],
)
def test_without_the_library_the_last_name_is_read_from_the_mangled_one(
    mangled: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "_demangled", lambda text: "")
    assert source_name(mangled) == name
