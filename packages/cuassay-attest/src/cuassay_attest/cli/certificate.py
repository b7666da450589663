"""`cuassay certificate`: sign, look at and revoke certificates on accepted kernels."""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuassay.cli.sinks import dumped, kept_candidate, say
from cuassay.errors import UsageError
from cuassay.home import keys_dir

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from cuassay.model.problem import Problem
    from cuassay_attest.coverage import Revocation

_PACKAGES = ("cuassay", "torch", "triton")


@click.group("certificate")
def certificate() -> None:
    """Sign a certificate on an accepted kernel, ask what it covers, or revoke it."""


@certificate.command("sign")
@click.argument("where", metavar="RUN")
@click.option("--key", metavar="FILE", help="Ed25519 private key in PEM. Default: this home's own.")
@click.option("--out", metavar="FILE", help="Where to write it. Default: RUN.cert.json here.")
@click.option("--days", type=int, default=90, show_default=True, help="How long it is valid.")
def sign(*, where: str, key: str | None, out: str | None, days: int) -> None:
    """Sign a certificate on the accepted kernel of RUN.

    It is an in-toto statement in a DSSE envelope: bound to the kernel's sources and flags, the
    environment, the cases tried, the power of the inputs and a day of expiry.
    """
    from cuassay.store.runs import open_run
    from cuassay_attest import envelope
    from cuassay_attest.statement import canonical, statement

    run = open_run(where)
    _check_origin(run.path)
    verdict, candidate, problem = run.verdict(), kept_candidate(run.path), _problem(run.path)
    if verdict is None or candidate is None or problem is None:
        raise UsageError(
            f"run {run.id} keeps no verdict with its candidate and problem; run `cuassay check` "
            "again"
        )
    path = Path(key).expanduser() if key else keys_dir() / "attest.pem"
    signer = envelope.private_key(path, create=key is None)
    events = (run.path / "events.ndjson").read_bytes()
    now = datetime.datetime.now(datetime.UTC)
    made = statement(verdict, candidate, problem, events=events, now=now, days=days)
    target = Path(out).expanduser() if out else Path(f"{run.id}.cert.json")
    text = json.dumps(envelope.sign(canonical(made), signer), indent=1) + "\n"
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {target} cannot be written: {error.strerror or error}") from None
    say(f"signed with key {envelope.key_id(signer.public_key())[:16]}, valid for {days} days")
    click.echo(str(target))


@certificate.command("covers")
@click.argument("signed_file", metavar="CERT")
@click.argument("kernel", metavar="KERNEL")
@click.option("--key", "keys", multiple=True, metavar="FILE", help="A public key to trust (PEM).")
@click.option("--revocations", metavar="FILE", help="List of revoked digests, as JSON lines.")
@click.option("--same-environment", is_flag=True, help="Other versions here are a failure too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def covers(
    context: click.Context,
    *,
    signed_file: str,
    kernel: str,
    keys: tuple[str, ...],
    revocations: str | None,
    same_environment: bool,
    as_json: bool,
) -> None:
    """Say whether CERT covers KERNEL, here and now. Nothing is run."""
    from cuassay_attest import coverage

    try:
        signed = Path(signed_file).expanduser().read_bytes()
    except OSError as error:
        raise UsageError(f"the certificate {signed_file} cannot be read: {error}") from None
    import importlib.metadata

    installed: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    found = coverage.coverage(
        signed,
        Path(kernel).expanduser(),
        trusted=_trusted(keys),
        revoked=_revocations(revocations),
        now=datetime.datetime.now(datetime.UTC),
        here=installed,
    )
    problems = [*found.problems, *(found.notes if same_environment else ())]
    if as_json:
        from cuassay.report.clean import clean
        from cuassay_attest.coverage import scope

        stated = scope(found.statement) if found.statement else {}
        told = ("verdict", "conditions", "profile", "environment", "power", "issuedAt", "expiresAt")
        document = {
            "schema": "cuassay/verification/1",
            "valid": not problems,
            "problems": [clean(text) for text in problems],
            "notes": [clean(text) for text in found.notes],
            "key": found.key,
            "certificate": {name: stated.get(name) for name in told} if stated else None,
        }
        click.echo(dumped(document))
    else:
        from cuassay.report.clean import one_line
        from cuassay_attest.coverage import scope

        word = click.style("NOT VALID", fg="red") if problems else click.style("VALID", fg="green")
        click.echo(f"{word}  {one_line(kernel)}")
        for text in problems:
            click.echo(f"  {one_line(text)}")
        if found.statement is not None:
            stated = scope(found.statement)
            for condition in stated.get("conditions") or ():
                click.echo(f"  as long as: {one_line(str(condition))}")
            click.echo(f"  key {found.key[:16]}, expires {one_line(str(stated.get('expiresAt')))}")
        for text in found.notes if not problems else ():
            click.echo(f"  note: {one_line(text)}")
    context.exit(1 if problems else 0)


@certificate.command("revoke")
@click.argument("what", metavar="CERT_OR_SHA256")
@click.option("--reason", default="", metavar="TEXT", help="Why, for whoever asks.")
@click.option("--revocations", metavar="FILE", help="The list. Default: this home's own.")
def revoke(*, what: str, reason: str, revocations: str | None) -> None:
    """Revoke a certificate, or every certificate on a kernel or by a key, by its SHA-256."""
    from cuassay_attest import revocations as listed
    from cuassay_attest.coverage import Revocation

    path = Path(what).expanduser()
    digest = (
        hashlib.sha256(path.read_bytes().strip()).hexdigest()
        if path.is_file()
        else listed.checked(what)
    )
    target = Path(revocations).expanduser() if revocations else keys_dir() / "revoked.jsonl"
    listed.append(target, Revocation(digest=digest, reason=reason))
    click.echo(f"revoked {digest} in {target}")


def _check_origin(run: Path) -> None:
    """Refuse a replay, and a trial whose seed was chosen by whoever started it."""
    from cuassay.model import serial
    from cuassay.model.jobs import RunJob, TrialJob

    try:
        job: RunJob = serial.loads(RunJob, (run / "job.json").read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"run {run} has no readable job.json: {error}") from None
    if not isinstance(job, TrialJob):
        raise UsageError(f"run {run.name} is a replay, expected a whole trial of a kernel")
    if job.seed is not None and not job.isolated:
        raise UsageError(
            f"run {run.name} was given its seed, and a seed that is chosen proves nothing; run "
            "`cuassay check` without --seed"
        )


def _problem(run: Path) -> Problem | None:
    from cuassay.model import serial
    from cuassay.model.problem import Problem

    try:
        found: Problem = serial.loads(Problem, (run / "problem.json").read_text())
    except (OSError, UnicodeDecodeError, UsageError):
        return None
    return found


def _trusted(keys: tuple[str, ...]) -> dict[str, Ed25519PublicKey]:
    """Return the keys given, else this home's own and those in its folder `trusted`."""
    from cuassay_attest.envelope import public_keys

    if keys:
        paths = [Path(key).expanduser() for key in keys]
    else:
        own = keys_dir() / "attest.pub.pem"
        paths = [*([own] if own.is_file() else []), *sorted((keys_dir() / "trusted").glob("*.pem"))]
    if not paths:
        raise UsageError(
            f"no key is trusted: give --key PUBLIC_KEY.pem, or put it into {keys_dir() / 'trusted'}"
        )
    return public_keys(paths)


def _revocations(given: str | None) -> tuple[Revocation, ...]:
    from cuassay_attest import revocations

    own = keys_dir() / "revoked.jsonl"
    paths = [*([own] if own.is_file() else []), *([Path(given).expanduser()] if given else [])]
    return tuple(entry for path in paths for entry in revocations.read_revocations(path))
