"""Calls of the CUDA driver, against a library that records them."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from cuassay.build.cuda.driver import Driver, DriverError, parameter_bytes
from ptxsan.parser import parse


class FakeLibrary:
    """Answers like libcuda on a thread without a context; `failing` names a call that fails."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.parameters: list[float] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, arguments))
            if name == "cuGetErrorString":
                arguments[1]._obj.value = b"out of luck"
            if name == "cuModuleGetFunction":
                arguments[0]._obj.value = 41
            if name == "cuLaunchKernel":
                pointers = arguments[9]
                self.parameters = [
                    ctypes.c_float.from_address(pointers[0]).value,
                    ctypes.c_int64.from_address(pointers[1]).value,
                ]
            return 700 if name == self.failing else 0

        return call

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


def driver(library: FakeLibrary) -> Driver:
    return Driver(library)  # type: ignore[arg-type]


def launch(target: Driver, *, shared_bytes: int = 0) -> None:
    target.launch(
        41,
        (2, 3, 1),
        (128, 1, 1),
        shared_bytes=shared_bytes,
        stream=9,
        arguments=[ctypes.c_float(1.5), ctypes.c_int64(2**40)],
    )


def test_launch_passes_sizes_stream_and_parameters() -> None:
    library = FakeLibrary()
    launch(driver(library), shared_bytes=64)
    name, arguments = library.calls[-1]
    assert name == "cuLaunchKernel"
    assert [size.value for size in arguments[1:8]] == [2, 3, 1, 128, 1, 1, 64]
    assert arguments[8].value == 9
    assert library.parameters == [1.5, 2**40]
    assert "cuFuncSetAttribute" not in library.names()


def test_large_shared_memory_is_asked_for_once() -> None:
    library = FakeLibrary()
    target = driver(library)
    launch(target, shared_bytes=100_000)
    launch(target, shared_bytes=100_000)
    assert library.names().count("cuFuncSetAttribute") == 1


def test_module_is_loaded_once_in_the_primary_context() -> None:
    library = FakeLibrary()
    target = driver(library)
    assert target.function(b"cubin", "a") == 41
    assert target.function(b"cubin", "b") == 41
    assert library.names().count("cuModuleLoadData") == 1
    assert library.names().index("cuCtxSetCurrent") < library.names().index("cuModuleLoadData")


def test_failure_names_the_call_and_the_reason() -> None:
    with pytest.raises(DriverError, match="cuLaunchKernel returned 700: out of luck"):
        launch(driver(FakeLibrary(failing="cuLaunchKernel")))


def test_a_kernel_gets_as_many_bytes_as_its_parameters_have() -> None:
    """The driver is given addresses: it copies what the kernel declares."""
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry k(.param .u64 a, .param .u32 n, .param .u64 m) { ret; }"
    )
    kernel = parse(text).functions["k"]
    given = [ctypes.c_uint64(7), ctypes.c_int64(2**32 + 5), ctypes.c_int32(3)]
    assert parameter_bytes(kernel, given) == [
        (7).to_bytes(8, "little"),
        (5).to_bytes(4, "little"),
        (3).to_bytes(4, "little"),
    ]
    assert len(parameter_bytes(kernel, given[:2])[1]) == 8
