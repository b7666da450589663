"""Domains."""

from __future__ import annotations

from cuassay.model.problem import Problem


def with_domains(problem: Problem, *, op_type: str = "") -> Problem:
    return problem
