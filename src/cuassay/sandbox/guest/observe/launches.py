"""Which kernels of its own a candidate launches, and what becomes of it without them.

The counting is done where launches pass (`build.launch_ledger`), in the candidate's process:
what is reported is its word.
"""

from __future__ import annotations

from cuassay.build.recording.ledger import LEDGER
from cuassay.model.steps import Disarm
from cuassay.sandbox.guest.interface import Around, Made

# Names of facts that the check reads; each but the last is followed by a kernel's name.
ASKED, RAISED, REASON, BLIND = "launched", "raised", "reason", "unseen"
_FACTS = 250


def read(around: Around) -> Made:
    """Execute a ReadLaunches: facts `launched KERNEL` and the number of launches so far.

    `raised KERNEL` counts launches that ended in an exception, `reason KERNEL` is the first
    one; `unseen` names what may launch kernels that are not counted.
    """
    facts = [(f"{ASKED} {name}", str(count)) for name, count in LEDGER.asked.items()]
    facts += [(f"{RAISED} {name}", str(count)) for name, count in LEDGER.raised.items()]
    facts += [(f"{REASON} {name}", text) for name, text in LEDGER.reasons.items()]
    blind = [(BLIND, LEDGER.blind)] if LEDGER.blind else []
    return Made(facts=(*blind, *facts[:_FACTS]))


def disarm(around: Around, step: Disarm) -> Made:
    """Execute a Disarm: launches are counted and do nothing, or do what they did again.

    From the first of them on, launches of the candidate's shared libraries count as well.
    """
    LEDGER.lead_libraries()
    LEDGER.disarmed = step.active
    return Made()


def rearm() -> None:
    """Let every kernel run on its own again, whatever an earlier scenario left."""
    LEDGER.rearm()
