"""Python runs this at the start of every process of a Ray cluster that `two_nodes` makes.

Ray's actors take the judge that judges nothing, as the driver does in tests of audits.
"""

import sys

if any("default_worker" in word for word in sys.orig_argv):
    from tests.support import fake_judge

    from cuassay.engine import judge_process

    judge_process.COMMAND = fake_judge.COMMAND  # type: ignore[assignment]
