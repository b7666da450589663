"""LOOP002: the inputs that decoding makes."""

from __future__ import annotations

from typing import ClassVar

from cuassay.checks.numeric.training_inputs import Loop001
from cuassay.model.case import DECODING
from cuassay.model.diagnosis import Cause


class Loop002(Loop001):
    """Numbers on the states of decoding

    What it does
        Decodes ragged batches of real text over a paged cache with trusted kernels: sequences
        join one after another and leave as they end, pages lie in shuffled order, unused rows
        of the cache hold numbers. The kernel is called on what its place in the model sees at
        several steps, and compared with a float64 truth on those inputs.

    Why it matters
        Prefill and decode take different paths. Positions differ between the rows of a decode
        batch, lengths end at either side of a page, and what lies behind them is left over
        from others: a kernel that is right on one sequence answers one with another's tokens.

    How it decides
        As NUM001 does. Whole logits, their divergence from a float64 model, repeated and
        lengthened contexts are told by `cuassay loop infer`.

    Can it be wrong?
        The reference goes through the same states first. Numbers in unused rows lie within
        the domain of keys, so a kernel that multiplies them by zero is not condemned.

    Example
        A paged attention that takes the last token of a page from the page after it.

    Options
        --profile standard looks at 3 steps, deep at 16 over two kinds of data, quick at none.
    """

    code = "LOOP002"
    title = "Numbers on the states of decoding"
    cause = Cause.TRAINING
    classes = ("L7", "L8", "L9")
    purpose: ClassVar[str] = DECODING
