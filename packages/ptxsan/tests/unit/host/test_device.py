"""NVRTC's part of a program: what it does not need and NVRTC does not take is left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ptxsan import nvrtc
from ptxsan.errors import CompileError
from ptxsan.host.device import compile_device

pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")

HOSTS = """#line 7 "options.h"
struct Options {
  std::string file;
  std::string mode;
};
#line 3 "errors.h"
struct Error : std::exception { };
#line 1 "k.cu"
template <class T> __global__ void k(T* x) { x[0] = T(1); }
"""
DOUBTFUL = ((2, 5), (3, 3), (4, 4), (7, 7))


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The expressions of each compilation that NVRTC is asked for."""
    found: list[Sequence[str]] = []

    def counted(source: str, expressions: Sequence[str], **options: object) -> object:
        found.append(expressions)
        return nvrtc.compile_named(source, expressions, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("ptxsan.host.device.compile_named", counted)
    return found


def test_what_does_not_compile_goes_at_once(compilations: list[Sequence[str]]) -> None:
    found = compile_device(HOSTS, ["k<float>"], doubtful=DOUBTFUL, name="k.cu")
    assert found.names["k<float>"] in found.ptx
    # The faults of one round go together; instances are compiled when declarations are right.
    assert compilations == [("k<float>",), (), ("k<float>",)]


def test_places_of_several_files_of_one_name_are_found(compilations: list[Sequence[str]]) -> None:
    text = HOSTS.replace("errors.h", "options.h").replace("#line 3", "#line 8")
    found = compile_device(text, ["k<int>"], doubtful=DOUBTFUL, name="k.cu")
    assert found.names["k<int>"] in found.ptx
    assert "file" not in found.ptx.replace(".file", "")
    assert len(compilations) > 3


def test_a_fault_of_the_kernel_itself_is_told() -> None:
    text = "struct A { };\n__global__ void k() { nowhere(); }\n"
    with pytest.raises(CompileError) as caught:
        compile_device(text, [], doubtful=((1, 1),), name="k.cu")
    assert "nowhere" in caught.value.log
