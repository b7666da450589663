"""Evidence: what a capsule holds, what it must not hold, its limits, and its replay."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import cuassay
from cuassay.cli.main import main
from cuassay.errors import CannotJudgeError, UsageError
from cuassay.model.device import CPU
from cuassay_guard.capsules import evidence
from cuassay_guard.capsules.replay import opened, replayed
from cuassay_guard.capsules.shrink import shrunk
from cuassay_guard.cli.capsule import _lines
from cuassay_guard.config import CapsulePolicy
from cuassay_guard.trusted import Where
from tests.support.guards import QUIET, inputs, rmsnorm, row_wrong


@pytest.fixture(autouse=True)
def _nothing_written(monkeypatch: pytest.MonkeyPatch, quiet_guards: None) -> None:
    monkeypatch.setattr(evidence, "_written", [])


def _capsule(folder: Path, **policy: Any) -> Path:
    chosen = CapsulePolicy(folder=folder, **policy)
    guarded = cuassay.guard(
        row_wrong, trusted=rmsnorm, trace_id=lambda: "t-1", **{**QUIET, "capsules": chosen}
    )
    with guarded:
        guarded(*inputs(32, 64), eps=1e-5)
    assert guarded.last_violation is not None
    return Path(guarded.last_violation.capsule)


def test_a_capsule_holds_the_call(tmp_path: Path) -> None:
    path = _capsule(tmp_path)
    header, tensors = evidence.read_capsule(path)
    x, weight = inputs(32, 64)
    assert torch.equal(tensors["in0"], x)
    assert torch.equal(tensors["in1"], weight)
    assert torch.equal(tensors["got0"], row_wrong(x, weight, 1e-5))
    assert torch.equal(tensors["want0"], rmsnorm(x, weight, 1e-5))
    assert json.loads(header.template) == [
        "tuple", [["tensor", 0], ["tensor", 1], ["value", 1e-05]],
    ]  # fmt: skip
    assert header.violation.trace_id == "t-1"
    assert header.reference.qualname == "rmsnorm"
    assert header.candidate.qualname == "row_wrong"
    assert header.environment["torch"] == torch.__version__
    assert header.complete


def test_redacted_values_never_leave_the_process(tmp_path: Path) -> None:
    header, tensors = evidence.read_capsule(_capsule(tmp_path, redact=("x",)))
    assert set(tensors) == {"in1"}  # and nothing that was computed from x
    kept = {one.name: one for one in header.tensors}
    assert (kept["in0"].why, kept["in0"].absmax, kept["in0"].shape) == ("redacted", None, (32, 64))
    assert kept["got0"].why == "redacted"
    other, _ = evidence.read_capsule(_capsule(tmp_path, redact=("*",)))
    digests = [one.sha256 for one in (*header.tensors, *other.tensors) if one.name == "in0"]
    assert len(set(digests)) == 2  # salted: equal values cannot be told


def test_sizes_numbers_and_rates_are_bounded(tmp_path: Path) -> None:
    header, tensors = evidence.read_capsule(_capsule(tmp_path / "large", max_bytes=100))
    assert tensors == {}
    assert not header.complete
    assert _capsule(tmp_path / "full", max_folder_bytes=100) == Path()
    policy = CapsulePolicy(folder=tmp_path / "many", per_signature=2)
    guarded = cuassay.guard(
        row_wrong, trusted=rmsnorm, on_violation="record", **{**QUIET, "capsules": policy}
    )
    with guarded:
        for _ in range(5):
            guarded(*inputs(32, 64))
    assert len(list((tmp_path / "many").glob("*"))) == 2
    assert guarded.watch.tally["capsules left out"] == 3


def test_a_full_disk_costs_the_evidence_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    guarded = cuassay.guard(row_wrong, trusted=rmsnorm, **{**QUIET, "capsules": tmp_path})
    with guarded:
        guarded(*inputs(32, 64))
    found = guarded.stats()
    assert (found.violations, found.errors, found.state) == (1, 1, "open")
    assert guarded.last_violation is not None
    assert guarded.last_violation.capsule == ""
    assert list(tmp_path.glob("*")) == []


def test_replay_shows_it_again_and_shrinks_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _capsule(tmp_path)
    assert main(["replay", str(path), "--device", "cpu", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["shows"]
    assert document["kernel_found"]
    assert not document["recorded_outputs"]["passes"]
    assert document["shapes"] == [[32, 64], [64]]
    assert document["shrunk_shapes"] == [[6, 17], [17]]
    again, _ = evidence.read_capsule(Path(document["shrunk"]))
    assert again.violation.kernel == "row_wrong"
    text = "\n".join(_lines(document))
    assert "smaller: [32, 64] to [6, 17], [64] to [17]" in text
    assert "It shows again (call 1): out" in text


def test_replay_of_a_repaired_kernel_says_so(tmp_path: Path) -> None:
    path = _capsule(tmp_path)
    repaired = tmp_path / "statistics.py"  # the name of another module: this very file counts
    repaired.write_text("from tests.support.guards import honest as norm\n")
    document = replayed(path, kernel=f"{repaired}:norm", device=CPU, shrink=True)
    assert not document["shows"]
    assert list(_lines(document))[-1] == "It does not show again in 8 calls."


def test_replay_says_what_it_cannot_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _capsule(tmp_path, redact=("x",))
    with pytest.raises(CannotJudgeError, match=r"holds no values of in0 \(redacted\)"):
        opened(path, kernel="", device="cpu")
    bad = tmp_path / "bad.capsule.safetensors"
    bad.write_bytes(b"nonsense")
    with pytest.raises(UsageError, match="is not a readable safetensors file"):
        opened(bad, kernel="", device="cpu")
    with pytest.raises(UsageError, match=r"expected FILE.py:FUNCTION"):
        opened(_capsule(tmp_path), kernel="k.cu", device="cpu")
    assert main(["replay", str(tmp_path / "no.capsule.safetensors")]) == 2
    assert main(["replay", "last", "--kernel", "k.py:f"]) == 2
    assert main(["replay", str(path), "--html", str(tmp_path / "r.html")]) == 2
    assert "or with --json alone" in capsys.readouterr().err


def test_a_capsule_that_names_python_s_own_functions_is_not_called(tmp_path: Path) -> None:
    path = _capsule(tmp_path)
    header, tensors = evidence.read_capsule(path)
    evil = replace(header, reference=Where(module="os", qualname="system"))
    target = tmp_path / "evil.capsule.safetensors"
    evidence.save_capsule(target, evil, tensors)
    with pytest.raises(UsageError, match="it is not called"):
        opened(target, kernel="", device="cpu")


def test_shrinking_reaches_the_exact_minimum() -> None:
    def fails(given: Any) -> bool:
        x, index = given
        return bool(x.shape[0] > 3 and (x[:, 3:] > 0).any() and index.numel() > 1)

    x = torch.randn(40, 17, generator=torch.Generator().manual_seed(0))
    found = shrunk([x, torch.arange(9)], fails)
    assert [tuple(t.shape) for t in found.inputs] == [(4, 4), (2,)]
    assert found.tries <= 200
    assert not shrunk([x], lambda given: False).changed


def test_a_call_on_one_element_of_a_strided_tensor_is_evidence_too(tmp_path: Path) -> None:
    """Such a tensor counts as contiguous and still has no bytes to view."""

    def off_by_one(x: torch.Tensor) -> torch.Tensor:
        return x + 1.0

    policy = CapsulePolicy(folder=tmp_path, redact=("x",))
    guarded = cuassay.guard(off_by_one, trusted=torch.clone, **{**QUIET, "capsules": policy})
    with guarded:
        guarded(torch.arange(10.0)[::2][:1])
    assert guarded.last_violation is not None
    header, _ = evidence.read_capsule(Path(guarded.last_violation.capsule))
    assert [one.shape for one in header.tensors if one.name == "in0"] == [(1,)]
