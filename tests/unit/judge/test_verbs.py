"""Each job reaches what does it, and its document is emitted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cuassay.judge import verbs
from cuassay.model.events import Document, Event
from cuassay.model.jobs import BuildJob, ExecuteJob, PowerJob, ShowJob, TacticsJob

_OF_ONE_PROBLEM = {ShowJob: "show", PowerJob: "power_document"}
_OF_A_CANDIDATE = {BuildJob: "prebuild", TacticsJob: "tactics", ExecuteJob: "execute"}


@pytest.mark.parametrize("kind", [*_OF_ONE_PROBLEM, *_OF_A_CANDIDATE])
def test_a_job_emits_the_document_of_what_does_it(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []

    def does(job: object, *given: object) -> dict[str, str]:
        done.append(job)
        return {"by": name}

    name = (_OF_ONE_PROBLEM | _OF_A_CANDIDATE)[kind]
    monkeypatch.setattr(verbs, name, does)
    more = {"candidate": ""} if kind in _OF_A_CANDIDATE else {}
    job, told = kind(problem="", **more), list[Event]()
    verbs.run(job, told.append, 0.0, None)
    assert done == [job]
    (document,) = told
    assert isinstance(document, Document)
    assert json.loads(document.text) == {"by": name}
