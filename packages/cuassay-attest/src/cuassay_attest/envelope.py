"""DSSE envelopes signed with Ed25519, and the keys for them.

Specification: Dead Simple Signing Envelope 1.0: the signature is over
`DSSEv1 SP LEN(type) SP type SP LEN(body) SP body`, lengths in decimal bytes.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuassay.errors import UsageError, missing_extra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_CAP_BYTES = 16 * 2**20


class CertificateError(Exception):
    """A certificate that proves nothing; the message says why."""


def sign(payload: bytes, key: Ed25519PrivateKey) -> dict[str, Any]:
    """Return the envelope of a payload."""
    signature = key.sign(pre_authentication(PAYLOAD_TYPE, payload))
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [
            {"keyid": key_id(key.public_key()), "sig": base64.b64encode(signature).decode()}
        ],
    }


def opened(text: bytes, trusted: Mapping[str, Ed25519PublicKey]) -> tuple[bytes, str]:
    """Return the payload of an envelope and the id of the trusted key that signed it.

    The payload is not looked at before a signature holds. Raises CertificateError.
    """
    if len(text) > _CAP_BYTES:
        raise CertificateError(f"it is {len(text)} bytes long, expected {_CAP_BYTES} at most")
    try:
        envelope = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"it is no JSON: {error}") from None
    if not isinstance(envelope, dict):
        raise CertificateError("it is no DSSE envelope: expected a JSON object")
    payload, kind = _decoded(envelope.get("payload"), "payload"), envelope.get("payloadType")
    if kind != PAYLOAD_TYPE:
        raise CertificateError(f"the payload's type is {kind!r}, expected {PAYLOAD_TYPE}")
    signatures = envelope.get("signatures")
    if not isinstance(signatures, list) or not signatures:
        raise CertificateError("the envelope carries no signature")
    message = pre_authentication(kind, payload)
    known = False
    for signature in signatures:
        raw = _decoded(signature.get("sig") if isinstance(signature, dict) else None, "signature")
        for name, key in trusted.items():  # the keyid is a hint that anybody can write
            if _holds(key, raw, message):
                return payload, name
            known = known or (isinstance(signature, dict) and signature.get("keyid") == name)
    if known:
        raise CertificateError("the signature does not hold: the certificate was changed")
    names = ", ".join(str(s.get("keyid"))[:16] for s in signatures if isinstance(s, dict))
    raise CertificateError(
        f"signed by a key that is not trusted here ({names or 'unnamed'}); trust it with "
        "--key PUBLIC_KEY.pem"
    )


def pre_authentication(kind: str, payload: bytes) -> bytes:
    """Return the bytes that a DSSE signature covers."""
    name = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)


def key_id(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 of the raw public key."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def private_key(path: Path, *, create: bool = False) -> Ed25519PrivateKey:
    """Return the signing key in `path`; with `create`, make it and its public half once.

    Raises UsageError where the file is no unencrypted Ed25519 key in PEM, or may be read by
    others.
    """
    ed25519, serialization = _cryptography()
    if create and not path.exists():
        key = ed25519.Ed25519PrivateKey.generate()
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with (
            contextlib.suppress(FileExistsError),
            os.fdopen(os.open(path, flags, 0o600), "wb") as out,
        ):
            out.write(private)
            path.with_suffix(".pub.pem").write_bytes(public)
    try:
        if path.stat().st_mode & 0o077:
            raise UsageError(f"{path} may be read by others: chmod 600 {path}")
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"{path} is no readable private key: {error}; expected an unencrypted Ed25519 key in "
            "PEM, such as `openssl genpkey -algorithm ed25519 -out FILE` makes"
        ) from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise UsageError(f"{path} holds a {type(key).__name__}, expected an Ed25519 key")
    signer: Ed25519PrivateKey = key
    return signer


def public_keys(paths: Iterable[Path]) -> dict[str, Ed25519PublicKey]:
    """Return the keys in PEM files by their id. Raises UsageError for what is none."""
    ed25519, serialization = _cryptography()
    found: dict[str, Ed25519PublicKey] = {}
    for path in paths:
        try:
            key = serialization.load_pem_public_key(path.read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{path} is no readable public key: {error}; expected an Ed25519 public key in PEM"
            ) from None
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise UsageError(f"{path} holds a {type(key).__name__}, expected an Ed25519 key")
        found[key_id(key)] = key
    return found


def _holds(key: Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _decoded(value: object, what: str) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        raise CertificateError(f"its {what} is not base64") from None


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise missing_extra("cryptography", "attest") from None
    return ed25519, serialization
