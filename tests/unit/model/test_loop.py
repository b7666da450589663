"""What `cuassay loop` asks of a judge travels in its job."""

from __future__ import annotations

import json

import pytest

from cuassay.errors import UsageError
from cuassay.model import serial
from cuassay.model.loop import LoopSettings, Start


def test_settings_arrive_as_they_were_asked_for() -> None:
    asked = LoopSettings(site="rmsnorm", data=("real",), starts=(Start.SURE,), learning_rate=1e-3)
    text = json.dumps(serial.to_json(asked))
    assert serial.from_json(LoopSettings, json.loads(text)) == asked


def test_an_unknown_start_names_those_that_there_are() -> None:
    asked = serial.to_json(LoopSettings(site="rmsnorm"))
    with pytest.raises(UsageError, match=r"scratch.*trained.*sure"):
        serial.from_json(LoopSettings, {**asked, "starts": ["warm"]})
