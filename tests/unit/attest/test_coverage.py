"""What a certificate covers: every way in which one must not verify."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from cuassay.errors import UsageError
from cuassay.formats import load_candidate, load_problem
from cuassay_attest import envelope
from cuassay_attest.coverage import Revocation
from cuassay_attest.statement import statement
from tests.support import samples
from tests.unit.attest.certified import KERNEL, NOW, Certified


def test_an_unchanged_kernel_verifies(certified: Certified) -> None:
    found = certified.verify()
    assert found.problems == ()
    assert found.key in certified.trusted
    assert found.statement is not None
    assert found.statement["predicateType"].endswith("test-result/v0.1")
    predicate = found.statement["predicate"]
    assert predicate["result"] == "WARNED"
    assert "NUM001" in predicate["passedTests"]
    told = predicate["cuassay"]
    assert told["power"] == {"mutants": 18, "killed": 18}
    assert told["notDecided"] == ["MEM001"]
    assert told["expiresAt"] == "2026-12-21T12:00:00Z"
    assert told["cases"]["sizes"]["hidden"] == [16, 4096]


def test_every_changed_byte_of_the_kernel_shows(certified: Certified) -> None:
    for position in range(len(KERNEL)):
        text = KERNEL[:position] + chr(ord(KERNEL[position]) ^ 1) + KERNEL[position + 1 :]
        certified.kernel.write_text(text)
        try:
            assert certified.verify().problems, position
        except UsageError:
            continue  # no longer a kernel for this problem: said, exit code 2
    certified.kernel.write_text(KERNEL)
    assert certified.verify().valid


def test_every_changed_byte_of_the_certificate_shows(certified: Certified) -> None:
    payload = json.loads(certified.text)
    body = base64.b64decode(payload["payload"])
    for position in range(0, len(body), 37):
        changed = bytearray(body)
        changed[position] ^= 1
        forged = payload | {"payload": base64.b64encode(bytes(changed)).decode()}
        found = certified.verify(json.dumps(forged).encode())
        assert found.problems == ("the signature does not hold: the certificate was changed",)
        assert found.statement is None


def test_a_changed_flag_shows(certified: Certified) -> None:
    candidate = load_candidate(str(certified.kernel), certified.problem)
    fast = dataclasses.replace(candidate.flags, cuda_cflags=("--use_fast_math",))
    made = statement(
        samples.accepted(),
        dataclasses.replace(candidate, flags=fast),
        certified.problem,
        events=b"",
        now=NOW,
        days=1,
    )
    (problem,) = certified.verify(certified.signed(made)).problems
    assert "flags" in problem


def test_a_file_more_or_less_shows(certified: Certified, tmp_path: Path) -> None:
    folder = tmp_path / "candidate"
    folder.mkdir()
    (folder / "kernel.py").write_text(KERNEL)
    assert certified.verify(kernel=folder).valid
    (folder / "helper.py").write_text("x = 1\n")
    assert certified.verify(kernel=folder).problems == ("helper.py is not in the certificate",)


def test_unknown_keys_expiry_and_clocks(certified: Certified, tmp_path: Path) -> None:
    other = envelope.private_key(tmp_path / "other.pem", create=True)
    stranger = {envelope.key_id(other.public_key()): other.public_key()}
    (problem,) = certified.verify(trusted=stranger).problems
    assert "not trusted here" in problem
    late = certified.verify(now=NOW + datetime.timedelta(days=30))
    assert late.problems == ("it expired on 2026-12-21 12:00 UTC; judge the kernel again",)
    (problem,) = certified.verify(now=NOW - datetime.timedelta(days=1)).problems
    assert "in the future" in problem


def test_revoked_by_kernel_certificate_or_key(certified: Certified) -> None:
    import hashlib

    made = certified.statement()
    for digest, what in (
        (made["subject"][0]["digest"]["sha256"], "this kernel is revoked: overflow"),
        (hashlib.sha256(certified.text).hexdigest(), "this certificate is revoked: overflow"),
        (next(iter(certified.trusted)), "the key that signed it is revoked: overflow"),
    ):
        entry = Revocation(digest=digest, reason="overflow")
        assert certified.verify(revoked=[entry]).problems == (what,)
    assert certified.verify(revoked=[Revocation(digest="0" * 64)]).valid


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b"\xff", b'{"payloadType": 1, "payload": "e30=", "signatures": [1]}',
     b'{"payloadType": "application/vnd.in-toto+json", "payload": "*", "signatures": []}',
     b"[" * 100_000],
)  # fmt: skip
def test_rubbish_is_not_valid(text: bytes, certified: Certified) -> None:
    assert not certified.verify(text).valid


@pytest.mark.parametrize(
    "made",
    [[], {}, {"_type": "x"}, {"_type": "https://in-toto.io/Statement/v1", "predicate": 3}],
)
def test_signed_rubbish_is_not_valid_either(made: Any, certified: Certified) -> None:
    assert not certified.verify(certified.signed(made)).valid
    whole = certified.statement()
    whole["subject"] = [3]
    assert not certified.verify(certified.signed(whole)).valid
    whole = certified.statement()
    whole["predicate"]["cuassay"]["problem"] = {"type": "Problem"}
    assert not certified.verify(certified.signed(whole)).valid


def test_another_machine_is_a_note(certified: Certified) -> None:
    found = certified.verify(here={"torch": "9.9", "triton": "3.6.0", "unheard": "1"})
    assert found.valid
    assert found.notes == ("certified with torch 2.11.0+cu130, here it is 9.9",)


_EXTENSION = """
#include <torch/extension.h>
void run(torch::Tensor x, torch::Tensor weight, double eps, torch::Tensor y) {}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""
_EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "embedding_rmsnorm_backward"


@pytest.mark.parametrize(
    ("problem", "kernel"),
    [
        (str(_EXAMPLE / "problem"), _EXAMPLE / "kernel_fp32.cu"),
        (str(_EXAMPLE / "problem"), _EXAMPLE / "kernel_fp32_triton.py"),
    ],
)
def test_kernels_of_every_kind_are_read_back_the_same(
    problem: str, kernel: Path, certified: Certified
) -> None:
    found = load_problem(problem)
    candidate = load_candidate(str(kernel), found)
    made = statement(samples.accepted(), candidate, found, events=b"", now=NOW, days=1)
    assert certified.verify(certified.signed(made), kernel=kernel).problems == ()


def test_a_flag_in_a_solution_file_shows(certified: Certified, tmp_path: Path) -> None:
    solution: dict[str, Any] = {
        "name": "mine",
        "definition": "rmsnorm",
        "author": "a",
        "spec": {
            "languages": ["cuda_cpp"],
            "target_hardware": ["LOCAL"],
            "entry_point": "kernel.cu::run",
            "binding": "torch",
            "compile_options": {"cuda_cflags": ["-O3"]},
        },
        "sources": [{"path": "kernel.cu", "content": _EXTENSION}],
    }
    file = tmp_path / "solution.json"
    file.write_text(json.dumps(solution))
    candidate = load_candidate(str(file), certified.problem)
    made = statement(samples.accepted(), candidate, certified.problem, events=b"", now=NOW, days=1)
    text = certified.signed(made)
    assert certified.verify(text, kernel=file).problems == ()
    solution["spec"]["compile_options"]["cuda_cflags"] = ["-O3", "--use_fast_math"]
    file.write_text(json.dumps(solution))
    (problem,) = certified.verify(text, kernel=file).problems
    assert "flags" in problem
