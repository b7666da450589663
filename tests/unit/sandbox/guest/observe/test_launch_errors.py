"""Errors of launches that a candidate did not check for, read from a stand-in for the runtime."""

from __future__ import annotations

from typing import Any

import pytest

from cuassay.errors import LaunchError
from cuassay.model.device import CPU, CUDA
from cuassay.sandbox.guest.observe import launch_errors


class _Named:
    """A function of the library: ctypes sets what it returns."""

    restype: Any = None

    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer

    def __call__(self, code: int) -> bytes | None:
        return self._answer


class _Runtime:
    """Holds one error, which reading it clears, as CUDA's runtime does."""

    def __init__(self, code: int, name: bytes | None = b"cudaErrorInvalidConfiguration") -> None:
        self._code = code
        self.cudaGetErrorName = _Named(name)
        self.cudaGetErrorString = _Named(b"invalid configuration argument")

    def cudaGetLastError(self) -> int:
        code, self._code = self._code, 0
        return code


def _use(monkeypatch: pytest.MonkeyPatch, runtime: object) -> None:
    monkeypatch.setattr(launch_errors, "_runtime", lambda: runtime)


def test_an_error_that_nobody_asked_for_is_raised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, _Runtime(9))
    with pytest.raises(LaunchError, match="cudaErrorInvalidConfiguration: invalid configuration"):
        launch_errors.raise_pending(CUDA)
    launch_errors.raise_pending(CUDA)


def test_an_error_of_before_the_call_is_not_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, _Runtime(9))
    launch_errors.clear(CUDA)
    launch_errors.raise_pending(CUDA)


@pytest.mark.parametrize("code", [0, 600, 704])
def test_what_is_no_error_of_a_launch_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    _use(monkeypatch, _Runtime(code))
    launch_errors.raise_pending(CUDA)


def test_an_error_without_a_name_is_raised_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, _Runtime(4242, name=None))
    with pytest.raises(LaunchError, match=r"^unknown: "):
        launch_errors.raise_pending(CUDA)


def test_a_cpu_and_a_process_without_the_runtime_have_no_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _use(monkeypatch, _Runtime(9))
    launch_errors.raise_pending(CPU)
    _use(monkeypatch, None)
    launch_errors.raise_pending(CUDA)
