"""`cuassay prove`: what it prints, its exit codes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from cuassay.cli.main import main
from cuassay.engine import run as engine
from cuassay.judge.decide.verdict import decide_proofs
from cuassay.model import serial
from cuassay.model.conditions import wanted_proofs
from cuassay.model.proofs import (
    CallProof,
    Claim,
    Datum,
    Equality,
    LaunchProof,
    ProofAnswer,
    ProofEvidence,
    Property,
    proofs_of,
)
from cuassay.model.verdict import Decision
from cuassay.report.terminal.proofs import lines

ORDERED = Claim(
    what=Property.RACES, answer=ProofAnswer.PROVED, accesses=1, limit_elements=1 << 31
)  # fmt: skip
WRITTEN = Claim(what=Property.INITIALIZED, answer=ProofAnswer.PROVED, accesses=4)
SAFE = Claim(
    what=Property.MEMORY, answer=ProofAnswer.PROVED, accesses=2, discharged={"intervals": 3},
    limit_elements=1 << 31,
)  # fmt: skip
FAULT = Claim(
    what=Property.MEMORY, answer=ProofAnswer.REFUTED, sizes={"n": 7}, block=(0, 0, 0),
    thread=(7, 0, 0), reason="reads 4 bytes\x1b[31m beyond its end", file="k.cu", line=3,
    ptx_line=40, gpu="nothing of it shows on this GPU",
)  # fmt: skip
GAP = Claim(
    what=Property.MEMORY, answer=ProofAnswer.UNKNOWN, reason="'wgmma' is not followed",
    ptx_line=9, suspects=({"n": 3},),
)  # fmt: skip
LAW = ("grid (ceil(n / 256), 1, 1)",)
PROVED = LaunchProof(
    kernel="scale", claims=(SAFE, ORDERED, WRITTEN), law=LAW, seconds=0.5, solver_s=0.25
)  # fmt: skip
REFUTED = LaunchProof(kernel="scale", claims=(FAULT, ORDERED, WRITTEN))
UNKNOWN = LaunchProof(kernel="scale", claims=(GAP, ORDERED, WRITTEN))


def _call(*launches: LaunchProof) -> CallProof:
    return CallProof(scope="n from 1", fitted=40, confirmed=20, launches=launches)


def _run(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *calls: CallProof,
    options: tuple[str, ...] = (),
) -> int:
    (tmp_path / "k.cu").write_text("//\n")
    evidence = ProofEvidence(calls=calls)

    def prove(job: Any, progress: Any) -> dict[str, Any]:
        assert job.problem == "p"
        return {
            "candidate": "k", "problem": "p", "sizes_recorded": 60,
            "proof": serial.to_json(evidence), "answer": str(evidence.answer),
        }  # fmt: skip

    monkeypatch.setattr(engine, "document", prove)
    return main(["prove", str(tmp_path / "k.cu"), "--problem", "p", *options])


def test_a_proof_names_its_scope_its_law_and_what_is_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, tmp_path, _call(PROVED)) == 0
    out = capsys.readouterr().out
    for text in (
        "n from 1", "fitted to 40 calls, confirmed by 20 others", "ceil(n / 256)",
        "2 accesses in bounds and aligned", "PROVED: every launch stays within its memory",
        "races: proved: 1 pairs of accesses", "PROVED: no two threads race",
        "4 reads of memory that was written before", "PROVED: every byte that is read was written",
        "fewer than 2,147,483,648 elements", "trusted: the law above",
    ):  # fmt: skip
        assert text in out


def test_a_refutation_names_sizes_thread_and_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, tmp_path, _call(PROVED, REFUTED)) == 1
    out = capsys.readouterr().out
    assert "refuted at n=7, block (0, 0, 0), thread (7, 0, 0)" in out
    assert "k.cu:3: reads 4 bytes" in out
    assert "nothing of it shows on this GPU; it is refuted by the PTX machine" in out
    assert "\x1b" not in out


def test_a_refutation_says_what_inputs_have_to_hold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = dataclasses.replace(FAULT, data=(Datum(input="index", offset=12, nbytes=4, value=7),))
    launch = LaunchProof(kernel="scale", claims=(fault, ORDERED, WRITTEN))
    assert _run(monkeypatch, tmp_path, _call(launch)) == 1
    assert "where element 3 of 'index' is 7" in capsys.readouterr().out


def test_one_launch_that_is_not_proved_leaves_the_whole_unproved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, tmp_path, _call(PROVED, UNKNOWN)) == 3
    out = capsys.readouterr().out
    assert "not proved: 'wgmma' is not followed (PTX line 9)" in out
    assert "PROVED: every launch" not in out
    assert "races: PROVED: no two threads race" in out


def test_nothing_recorded_is_nothing_proved() -> None:
    assert ProofEvidence().answer is ProofAnswer.UNKNOWN


def test_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, tmp_path, _call(REFUTED), options=("--json",)) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["answer"] == "refuted"
    assert document["exit_code"] == 1
    claims = document["proof"]["calls"][0]["launches"][0]["claims"]
    assert claims[0]["sizes"] == {"n": 7}


def test_a_verdict_says_of_each_property_what_it_covers() -> None:
    memory, races, written = proofs_of(ProofEvidence(calls=(_call(UNKNOWN),)))
    assert written.answer is ProofAnswer.PROVED
    assert (memory.answer, memory.reason) == (ProofAnswer.UNKNOWN, "'wgmma' is not followed")
    assert memory.scope[-1].endswith("written before is another property: initialized")
    assert races.answer is ProofAnswer.PROVED
    assert races.scope == (
        "n from 1; tensors of 1 to 2,147,483,647 elements; launch law confirmed by 20 calls",
    )
    (refuted, *_) = proofs_of(ProofEvidence(calls=(_call(PROVED), _call(REFUTED))))
    assert refuted.answer is ProofAnswer.REFUTED
    assert refuted.reason.endswith("beyond its end at n=7")


def test_expressions_are_told_with_their_scope_and_bind_like_the_others() -> None:
    found = Equality(answer=ProofAnswer.PROVED, scope=("at n=7",), elements=7, data=4, seeds=2)
    evidence = ProofEvidence(calls=(_call(PROVED),), equality=found, wanted=tuple(Property))
    assert evidence.answer is ProofAnswer.PROVED
    told = "\n".join(lines(evidence))
    assert "equal: proved: 7 output elements in 4 sets of data" in told
    assert "equal: PROVED: outputs are the reference's expressions, up to rounding\n" in told
    *_, equal = proofs_of(evidence)
    assert (equal.what, equal.scope) == (Property.EQUAL, ("at n=7",))
    (what,) = wanted_proofs(("proof:equal",))
    assert decide_proofs(Decision.ACCEPTED, "", (equal,), (what,))[0] is Decision.ACCEPTED
    other = Equality(answer=ProofAnswer.REFUTED, reason="y[3] is 2, expected 1", sizes={"n": 7})
    refuted = dataclasses.replace(evidence, equality=other)
    assert refuted.answer is ProofAnswer.REFUTED
    assert "equal: refuted at n=7:" in "\n".join(lines(refuted))
    decision, reason = decide_proofs(Decision.ACCEPTED, "", proofs_of(refuted), (what,))
    assert decision is Decision.REJECTED
    assert reason == "proof:equal is refuted: y[3] is 2, expected 1"
    alone = ProofEvidence(refused="no law", equality=found, wanted=(Property.EQUAL,))
    assert alone.answer is ProofAnswer.PROVED
    assert [one.what for one in proofs_of(alone)] == [Property.EQUAL]


def test_what_has_to_be_proved_binds_the_verdict() -> None:
    proved = proofs_of(ProofEvidence(calls=(_call(PROVED),)))
    unknown = proofs_of(ProofEvidence(calls=(_call(UNKNOWN),)))
    refuted = proofs_of(ProofEvidence(calls=(_call(REFUTED),)))
    memory, races = wanted_proofs(("shapes", "proof:memory", "proof:races"))
    accepted = Decision.ACCEPTED
    assert decide_proofs(accepted, "passed", proved, (memory, races)) == (accepted, "passed")
    assert decide_proofs(accepted, "passed", unknown, (races,))[0] is accepted
    decision, reason = decide_proofs(accepted, "passed", unknown, (memory,))
    assert decision is Decision.INCONCLUSIVE
    assert reason == "proof:memory is not proved: 'wgmma' is not followed"
    assert decide_proofs(accepted, "passed", refuted, (memory,))[0] is Decision.REJECTED
    assert decide_proofs(accepted, "passed", (), (memory,))[0] is Decision.INCONCLUSIVE
