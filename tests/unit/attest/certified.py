"""A kernel on disk with a certificate, for tests of all parts of certificates."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from cuassay.formats import load_candidate, load_problem
from cuassay.model.verdict import Verdict
from cuassay_attest import envelope
from cuassay_attest.coverage import Coverage, coverage
from cuassay_attest.statement import canonical, statement
from tests.support import samples

NOW = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)
KERNEL = "import torch\ndef run(x, weight, eps):\n    return x\n"


class Certified:
    """A kernel on disk with a certificate, and the means to try to fool the verifier."""

    def __init__(self, folder: Path) -> None:
        self.kernel = folder / "kernel.py"
        self.kernel.write_text(KERNEL)
        self.problem = load_problem("rmsnorm")
        self.key = envelope.private_key(folder / "keys" / "k.pem", create=True)
        self.trusted = envelope.public_keys([folder / "keys" / "k.pub.pem"])
        self.text = self.signed(self.statement())

    def statement(self, verdict: Verdict | None = None, days: int = 30) -> dict[str, Any]:
        candidate = load_candidate(str(self.kernel), self.problem)
        return statement(
            verdict if verdict is not None else samples.accepted(),
            candidate,
            self.problem,
            events=b"events",
            now=NOW,
            days=days,
        )

    def signed(self, made: dict[str, Any]) -> bytes:
        return json.dumps(envelope.sign(canonical(made), self.key)).encode()

    def verify(self, text: bytes | None = None, **changes: Any) -> Coverage:
        given: dict[str, Any] = {"trusted": self.trusted, "now": NOW, **changes}
        kernel = given.pop("kernel", self.kernel)
        return coverage(self.text if text is None else text, kernel, **given)
