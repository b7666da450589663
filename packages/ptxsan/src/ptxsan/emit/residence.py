"""Which registers stay in the thread's record: those with more waits to outlive than uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ptxsan import isa
from ptxsan.dataflow import Liveness, definitions, target_of, uses
from ptxsan.isa import Ends
from ptxsan.syntax import Instruction


def long_lived(
    body: Sequence[Instruction], labels: dict[str, int], liveness: Liveness
) -> frozenset[str]:
    """Return the registers whose moves at suspensions would outnumber their uses."""
    crossed: Counter[str] = Counter()
    touched: Counter[str] = Counter()
    for site, one in enumerate(body):
        touched.update(definitions(one))
        touched.update(uses(one))
        row = isa.row(one)
        if row.suspends:
            crossed.update(liveness.after(site))
        elif row.ends is Ends.JUMP and (target := target_of(one, labels)) <= site:
            crossed.update(liveness.before(target))
    return frozenset(name for name, count in crossed.items() if 2 * count > touched[name])
