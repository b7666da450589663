"""What trials of one problem under one seed share."""

from __future__ import annotations

from cuassay.catalog import registry
from cuassay.judge import trial_job
from cuassay.model.device import CPU, CUDA
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Profile


def test_what_trials_share_is_that_of_one_problem_seed_profile_and_device() -> None:
    problem, other = registry.get("rmsnorm"), registry.get("swiglu")

    def job(seed: int, profile: Profile = Profile.QUICK) -> TrialJob:
        return TrialJob(problem="", candidate="", seed=seed, profile=profile)

    shared = trial_job._OfOneSeed()
    shared.open(job(1), problem, CPU)
    truths, powers = shared.truths, shared.powers
    shared.open(job(1), problem, CPU)
    assert shared.truths is truths
    assert shared.powers is powers
    for asked, of, device in (
        (job(2), problem, CPU),
        (job(2), other, CPU),
        (job(2), other, CUDA),
        (job(2, Profile.STANDARD), other, CUDA),
    ):
        shared.open(asked, of, device)
        assert shared.truths is not truths
        assert shared.powers is not powers
        truths, powers = shared.truths, shared.powers
