"""The configuration of a guard: a mistake is told at construction, and the environment decides."""

from __future__ import annotations

import pytest

import cuassay
from cuassay.errors import UnknownNameError, UsageError
from cuassay_guard.config import Enforcement, configured, mode
from tests.support.guards import axpy_, double, honest, rmsnorm


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": -0.1}, "sample is -0.1, expected a share from 0 to 1"),
        ({"sample": 2}, "sample is 2, expected a share"),
        ({"sample": "often"}, "sample is 'often', expected a share"),
        ({"sample": float("nan")}, "sample is nan"),
        ({"max_overhead": 0}, "max_overhead is 0, expected a share above 0"),
        ({"on_violation": "fall-back"}, "did you mean 'fallback'"),
        ({"mode": "enforced"}, "did you mean 'enforce'"),
        ({"oracle": "remote"}, "known: auto, process, local"),
        ({"samples": 0.1}, "did you mean 'sample'"),
        ({"deep_every": 0}, "deep_every is 0, expected a whole number of at least 1"),
        ({"deep_every": 1.5}, "deep_every is 1.5, expected a whole number"),
        ({"cooldown_s": -1}, "cooldown_s is -1"),
        ({"hooks": "pager"}, "hooks is 'pager', expected a list or tuple"),
        ({"hooks": [3]}, "expected functions that take a Violation"),
        ({"mutates": ["z"]}, "mutates names 'z', but the kernel takes"),
        ({"capsules": 3}, "expected a folder, a CapsulePolicy, or None"),
        ({"problem": "rmsnrm"}, "did you mean 'rmsnorm'"),
        ({"problem": 3}, "problem is 3"),
    ],
)
def test_a_bad_configuration_fails_at_construction(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError) as failure:
        cuassay.guard(honest, trusted=rmsnorm, **options)
    assert message in str(failure.value)


def test_a_trusted_operator_of_another_signature_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the trusted operator takes .* the kernel"):
        cuassay.guard(honest, trusted=double)
    with pytest.raises(UsageError, match="guard needs a trusted operator"):
        cuassay.guard(honest)
    with pytest.raises(UsageError, match="expected a function to guard"):
        cuassay.guard(3, trusted=rmsnorm)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="stands inside a function"):
        cuassay.guard(double, trusted=lambda x: x * 2, oracle="process")


def test_the_environment_overrides_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mode(None) is Enforcement.ENFORCE
    assert mode("observe") is Enforcement.OBSERVE
    monkeypatch.setenv("CUASSAY_GUARD", "off")
    assert configured({"mode": "enforce"}).mode is Enforcement.OFF
    monkeypatch.setenv("CUASSAY_GUARD", "on")
    with pytest.raises(UnknownNameError, match=r"\$CUASSAY_GUARD"):
        configured({})


def test_written_parameters_are_known_by_name() -> None:
    guarded = cuassay.guard(axpy_, trusted=axpy_, mutates=["x"], sample=0)
    assert guarded.kernel is axpy_
