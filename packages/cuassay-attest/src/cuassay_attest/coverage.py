"""Does a certificate cover this kernel, here and now? Every reason why not, in words."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuassay.errors import UsageError
from cuassay.model import serial
from cuassay.model.candidate import Candidate
from cuassay.model.problem import Problem
from cuassay_attest.envelope import CertificateError, opened
from cuassay_attest.statement import PREDICATE, STATEMENT, subjects

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """What is no longer valid: a SHA-256 of a certificate, a kernel or a key, and why."""

    digest: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The answer. `problems` is empty where the certificate covers the kernel.

    `notes` are differences that leave it valid, such as another machine; `statement` is None
    where the signature did not hold: nothing in the certificate can be believed then.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    key: str = ""
    statement: Mapping[str, Any] | None = None

    @property
    def valid(self) -> bool:
        """Whether the certificate covers the kernel."""
        return not self.problems


def coverage(
    text: bytes,
    kernel: Path,
    *,
    trusted: Mapping[str, Ed25519PublicKey],
    revoked: Iterable[Revocation] = (),
    now: datetime.datetime,
    here: Mapping[str, str] | None = None,
) -> Coverage:
    """Return whether the certificate in `text` covers the kernel at `kernel`.

    The signature comes first; only then is anything read from the payload. `here` are versions
    of this machine, compared with the certificate's. Raises CandidateError where `kernel` is
    not there.
    """
    try:
        payload, key = opened(text, trusted)
        try:
            found = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise CertificateError(f"the signed payload is no JSON: {error}") from None
        if not isinstance(found, dict) or found.get("_type") != STATEMENT:
            raise CertificateError(f"the payload is no in-toto statement ({STATEMENT})")
        if found.get("predicateType") != PREDICATE or not isinstance(scope(found), dict):
            raise CertificateError(f"the statement is no test result of cuassay ({PREDICATE})")
        if scope(found).get("verdict") != "ACCEPTED":
            raise CertificateError(f"it states {scope(found).get('verdict')!r}, expected ACCEPTED")
        try:
            problem: Problem = serial.from_json(Problem, scope(found).get("problem"))
        except UsageError as unread:
            raise CertificateError(f"its problem cannot be read: {unread}") from None
    except CertificateError as error:
        return Coverage(problems=(str(error),))
    from cuassay import formats

    candidate = formats.load_candidate(str(kernel), problem)
    issued, expires = (_moment(scope(found).get(name)) for name in ("issuedAt", "expiresAt"))
    if issued is None or expires is None:
        time = ["it states no time of issue or expiry"]
    elif now >= expires:
        time = [f"it expired on {expires:%Y-%m-%d %H:%M} UTC; judge the kernel again"]
    elif now < issued - datetime.timedelta(minutes=5):
        time = [f"it is issued in the future ({issued:%Y-%m-%d %H:%M} UTC): check this clock"]
    else:
        time = []
    ours = {
        hashlib.sha256(text.strip()).hexdigest(): "this certificate",
        _bundle(found): "this kernel",
        str(scope(found).get("digest")): "this kernel",
        key: "the key that signed it",
    }
    problems = [
        *_differences(found, candidate),
        *time,
        *[
            f"{ours[entry.digest]} is revoked" + (f": {entry.reason}" if entry.reason else "")
            for entry in revoked
            if entry.digest in ours
        ],
    ]
    stated = scope(found).get("environment")
    certified = stated if isinstance(stated, dict) else {}
    notes = tuple(
        f"certified with {name} {certified[name]}, here it is {version}"
        for name, version in (here or {}).items()
        if name in certified and certified[name] != version
    )
    return Coverage(problems=tuple(problems), notes=notes, key=key, statement=found)


def scope(statement: Mapping[str, Any]) -> dict[str, Any]:
    """Return what cuassay adds to the predicate; empty where it is not there."""
    predicate = statement.get("predicate")
    found = predicate.get("cuassay") if isinstance(predicate, dict) else None
    return found if isinstance(found, dict) else {}


def _differences(statement: Mapping[str, Any], candidate: Candidate) -> list[str]:
    """Return what differs between the certified kernel and this one: files first."""
    listed = statement.get("subject")
    rest = listed[1:] if isinstance(listed, list) else []
    certified = {str(s.get("name")): _sha256(s) for s in rest if isinstance(s, dict)}
    present = {s["name"]: s["digest"]["sha256"] for s in subjects(candidate)[1:]}
    told = [f"{name} was changed" for name in present if certified.get(name, "") != present[name]
            and name in certified]  # fmt: skip
    told += [f"{name} is not in the certificate" for name in present if name not in certified]
    told += [f"{name} is missing" for name in certified if name not in present]
    bundle = subjects(candidate)[0]["digest"]["sha256"]
    stated = _bundle(statement)
    if bundle != stated and not told:
        told.append(
            "the sources are the same, but the entry point, calling convention, flags or launches "
            "were changed"
        )
    return told


def _bundle(statement: Mapping[str, Any]) -> str:
    listed = statement.get("subject")
    first = listed[0] if isinstance(listed, list) and listed else {}
    return _sha256(first) if isinstance(first, dict) else ""


def _sha256(subject: Mapping[str, Any]) -> str:
    digest = subject.get("digest")
    return str(digest.get("sha256", "")) if isinstance(digest, dict) else ""


def _moment(value: object) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(str(value), "%Y-%m-%dT%H:%M:%SZ").replace(
            tzinfo=datetime.UTC
        )
    except ValueError:
        return None
