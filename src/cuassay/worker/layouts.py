"""Inputs laid out in memory as callers lay them out: views, slices, packed buffers."""

from __future__ import annotations

from cuassay.model.steps import Arrange, CallInto
from cuassay.worker.host import Host, Made


def arrange(host: Host, step: Arrange) -> Made:
    """Execute an Arrange."""
    raise NotImplementedError


def call_into(host: Host, step: CallInto) -> Made:
    """Execute a CallInto."""
    raise NotImplementedError
