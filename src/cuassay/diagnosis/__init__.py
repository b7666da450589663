"""From findings to causes: what is wrong with a kernel, where, and what to do about it.

Pure functions of findings and clues; `judge.diagnose.clues` gathers the clues by experiment.
"""

from __future__ import annotations

from cuassay.diagnosis.causes import PAGES, CausePage
from cuassay.diagnosis.clues import TESTED, Clue, Clues
from cuassay.diagnosis.diagnose import NUMBERS, diagnose

__all__ = ["NUMBERS", "PAGES", "TESTED", "CausePage", "Clue", "Clues", "diagnose"]
