"""What a statement certifies: an accepted verdict, for some days."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest

from cuassay.errors import UsageError
from cuassay.formats import load_candidate
from cuassay.model import serial
from cuassay.model.candidate import SourceFile
from cuassay.model.problem import Problem
from cuassay_attest.statement import canonical, signature_of, subjects
from tests.support import samples
from tests.unit.attest.certified import Certified


def test_only_accepted_is_certified(certified: Certified) -> None:
    for verdict in (samples.rejected(), samples.inconclusive()):
        with pytest.raises(UsageError, match="only ACCEPTED is certified"):
            certified.statement(verdict)
    with pytest.raises(UsageError, match="--days 0"):
        certified.statement(days=0)
    made = certified.statement()
    made["predicate"]["cuassay"]["verdict"] = "REJECTED"
    assert "expected ACCEPTED" in certified.verify(certified.signed(made)).problems[0]


def test_the_same_statement_is_the_same_bytes() -> None:
    assert canonical({"b": 1, "a": "ü"}) == '{"a":"ü","b":1}'.encode()
    with pytest.raises(ValueError, match="Out of range float"):
        canonical({"share": float("nan")})


def test_the_kernel_comes_first_and_its_sources_by_name(certified: Certified) -> None:
    candidate = load_candidate(str(certified.kernel), certified.problem)
    helper = SourceFile(path="a_helper.py", text="x = 1\n")
    made = dataclasses.replace(candidate, sources=(*candidate.sources, helper))
    whole, *sources = subjects(made)
    assert [one["name"] for one in sources] == ["a_helper.py", "kernel.py"]
    assert sources[0]["digest"]["sha256"] == hashlib.sha256(b"x = 1\n").hexdigest()
    assert whole["digest"] != subjects(candidate)[0]["digest"]
    other = dataclasses.replace(candidate, entry_function="other")
    assert subjects(other)[0]["digest"] != subjects(candidate)[0]["digest"]
    assert subjects(other)[1:] == subjects(candidate)[1:]


def test_a_verifier_reads_the_problem_without_its_reference(certified: Certified) -> None:
    problem: Problem = serial.from_json(Problem, signature_of(certified.problem))
    assert problem.reference.source == ""
    assert problem.inputs == certified.problem.inputs
    assert problem.outputs == certified.problem.outputs
    assert problem.path is None
    assert certified.problem.reference.path.name not in str(signature_of(certified.problem))
