"""Rewards over a judge that stands in: TRL's interface, columns, and what is not told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cuassay.errors import UsageError
from cuassay_adapters.reward import KernelReward
from cuassay_adapters.stages import Stage
from tests.support import fake_judge

_RIGHT = "Here:\n```python\ndef run(x): return x\n```"
_WRONG = "```python\n# reject\ndef run(x): return x\n```"


@pytest.fixture
def reward(monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelReward]:
    fake_judge.install(monkeypatch)
    with KernelReward("softmax", shaped=True, device="cpu", workers=1) as made:
        yield made


def test_a_reward_for_each_completion(reward: KernelReward) -> None:
    messages = [{"role": "assistant", "content": _RIGHT}]
    completions = [messages, _WRONG, "no kernel", []]
    told = reward(["p"] * 4, completions, completion_ids=[[1]] * 4)
    assert told[0] == 1.0
    assert 0.0 < told[1] < 1.0
    assert told[2:] == [0.0, 0.0]
    assert reward.__name__ == "cuassay_shaped"


def test_each_sample_may_name_its_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_judge.install(monkeypatch)
    with KernelReward(device="cpu", workers=1) as reward:
        assert reward(["p"], [_RIGHT], problem=["softmax"]) == [1.0]
        with pytest.raises(UsageError, match="no problem is named"):
            reward(["p"], [_RIGHT])


def test_one_reply(reward: KernelReward) -> None:
    assert reward.of(_RIGHT) == 1.0
    assert reward.stage(_WRONG) is Stage.FRAGILE  # the stand-in finds NUM002 alone
    assert reward.stage("none") is Stage.NOTHING
