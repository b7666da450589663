"""What is signed, by which keys, and what is no key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuassay.errors import UsageError
from cuassay_attest import envelope
from cuassay_attest.statement import canonical
from tests.unit.attest.certified import Certified


def test_a_keyid_is_only_a_hint(certified: Certified, tmp_path: Path) -> None:
    other = envelope.private_key(tmp_path / "other.pem", create=True)
    forged = envelope.sign(canonical(certified.statement()), other)
    forged["signatures"][0]["keyid"] = next(iter(certified.trusted))
    assert not certified.verify(json.dumps(forged).encode()).valid
    honest = json.loads(certified.text)
    honest["signatures"][0]["keyid"] = "whatever"
    assert certified.verify(json.dumps(honest).encode()).valid


def test_the_signature_is_the_specification_s() -> None:
    assert (
        envelope.pre_authentication("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_keys_that_are_none(certified: Certified, tmp_path: Path) -> None:
    key = tmp_path / "keys" / "k.pem"
    assert key.stat().st_mode & 0o077 == 0
    key.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        envelope.private_key(key)
    (tmp_path / "no.pem").write_text("no key")
    (tmp_path / "no.pem").chmod(0o600)
    with pytest.raises(UsageError, match="openssl genpkey"):
        envelope.private_key(tmp_path / "no.pem")
    with pytest.raises(UsageError, match="no readable public key"):
        envelope.public_keys([tmp_path / "no.pem"])
