"""What a judge process does for every job before the job itself."""

from __future__ import annotations

import pytest

from cuassay import settings
from cuassay.judge import entry
from cuassay.model.device import CPU
from cuassay.model.jobs import TrialJob


@pytest.mark.parametrize("waited", [False, True])
def test_a_job_says_what_its_kernels_are_compiled_for(
    monkeypatch: pytest.MonkeyPatch, waited: bool
) -> None:
    """Also where the judge was ready before it knew the job."""
    monkeypatch.setattr(settings, "_told", {"CUASSAY_HOME": "/h"})
    monkeypatch.setattr(entry, "_nursery", lambda job: None)
    monkeypatch.setattr(entry, "_confined", lambda *given: None)
    place = entry._Place(0)
    place._is_ready = waited
    place.prepare(TrialJob(problem="p.py", candidate="k.py", device=CPU))
    assert settings.get(settings.MACHINE_ARCH) == ""
    place.prepare(TrialJob(problem="p.py", candidate="k.py", device=CPU, arch="sm_100"))
    assert settings.get(settings.MACHINE_ARCH) == "sm_100"
    assert settings.get("CUASSAY_HOME") == "/h"
