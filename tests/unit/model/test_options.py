"""What a caller may choose is one list, whoever asks: jobs take it, and wrong values are named."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from cuassay.errors import UnknownNameError, UsageError
from cuassay.model.device import Device
from cuassay.model.jobs import TrialJob
from cuassay.model.options import Chosen, Given, Options
from cuassay.model.precision import Precision
from cuassay.model.profile import Profile


def test_options_are_one_list_and_a_job_takes_all_of_it() -> None:
    names = {field.name for field in dataclasses.fields(Options)}
    assert names == set(Given.__annotations__) == set(Chosen.__annotations__)
    given = Options.read(
        profile="deep", device="cuda:1", seed=7, require=["streams", "streams"], precision="tf32"
    )
    job = TrialJob(problem="p", candidate="c", **given.chosen())
    assert {name: getattr(job, name) for name in names} == {
        "profile": Profile.DEEP,
        "device": Device("cuda:1"),
        "seed": 7,
        "require": ("streams",),
        "precision": Precision.TF32,
    }


def test_nothing_chosen_is_what_a_job_does_by_itself() -> None:
    assert TrialJob(problem="p", candidate="c", **Options.read().chosen()) == TrialJob(
        problem="p", candidate="c"
    )


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"profile": "slow"}, UsageError, "profile is 'slow', expected one of quick, standard"),
        ({"device": "gpu"}, UsageError, "device 'gpu' is not known; expected cpu, cuda or cuda:N"),
        ({"require": ["stream"]}, UnknownNameError, "stream"),
        ({"precision": "bf16"}, UnknownNameError, "bf16"),
        ({"profil": "deep"}, TypeError, "profil"),
    ],
)
def test_an_unknown_value_or_option_is_named(
    given: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        Options.read(**given)
