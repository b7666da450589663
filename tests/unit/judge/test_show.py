"""The document of a problem tells its truth, what callers may pass, and what was tried."""

from __future__ import annotations

import json

from cuassay.judge.show import show
from cuassay.model.jobs import ShowJob


def test_the_document_of_a_problem_has_its_truth_and_its_facts() -> None:
    document = show(ShowJob(problem="rmsnorm", seed=3))
    assert document["name"] == "rmsnorm"
    assert json.loads(json.dumps(document)) == document
    assert {"notes", "facts", "tried"} <= set(document)
    facts = document["facts"]
    assert isinstance(facts, list)
    for fact in facts:
        assert {"fact", "kind", "source", "count", "broken"} <= set(fact)
