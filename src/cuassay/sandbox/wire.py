"""Frames on the channel between judge and worker: a length, then strict JSON; never pickles.

Every request carries a fresh random nonce and its reply must carry the same one. Bytes that a
candidate scribbles on descriptors, and replies made before the request, are thereby seen.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
from collections.abc import Sequence
from typing import Any

_HEADER = struct.Struct("<I")
REQUEST_CAP = 256 << 20  # the judge's requests carry the candidate's sources
REPLY_CAP = 4 << 20

# Bound before any candidate runs: a patched json module then changes nothing here.
_ENCODE = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_DECODE = json.JSONDecoder().decode


class GarbledError(Exception):
    """The peer sent what the protocol does not allow."""


class ClosedError(Exception):
    """The peer closed the channel."""


def new_nonce() -> str:
    """Return 128 fresh random bits as hex."""
    return secrets.token_hex(16)


def frame(message: dict[str, Any]) -> bytes:
    """Return a message as bytes ready to send."""
    body = _ENCODE(message).encode()
    return _HEADER.pack(len(body)) + body


def parse(body: bytes) -> dict[str, Any]:
    """Return the object in `body`. Raises GarbledError."""
    try:
        message = _DECODE(body.decode())
    except (ValueError, RecursionError):
        raise GarbledError(f"{len(body)} bytes that are not JSON: {body[:60]!r}") from None
    if not isinstance(message, dict):
        raise GarbledError(f"a JSON {type(message).__name__}, expected an object")
    return message


def take_frame(buffer: bytearray, *, cap: int) -> dict[str, Any] | None:
    """Remove one whole frame from the front of `buffer`; None while it is incomplete."""
    if len(buffer) < _HEADER.size:
        return None
    (length,) = _HEADER.unpack_from(buffer)
    if length > cap:
        raise GarbledError(f"a frame of {length} bytes: {bytes(buffer[:60])!r}")
    end = _HEADER.size + length
    if len(buffer) < end:
        return None
    body = bytes(buffer[_HEADER.size : end])
    del buffer[:end]
    return parse(body)


def send(channel: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one frame, blocking; `fds` travel with its first byte."""
    data = memoryview(frame(message))
    sent = socket.send_fds(channel, [data], list(fds)) if fds else channel.send(data)
    channel.sendall(data[sent:])


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return the next frame and its descriptors, blocking: the worker's side.

    Raises ClosedError at the end of the stream, GarbledError for anything else.
    """
    head, fds, _, _ = socket.recv_fds(channel, _HEADER.size, 4)
    while 0 < len(head) < _HEADER.size:
        head += _some(channel, _HEADER.size - len(head))
    if not head:
        raise ClosedError("the judge is gone")
    (length,) = _HEADER.unpack(head)
    if length > REQUEST_CAP:
        raise GarbledError(f"a request of {length} bytes")
    body = bytearray()
    while len(body) < length:
        body += _some(channel, length - len(body))
    for fd in fds:
        os.set_inheritable(fd, False)
    return parse(bytes(body)), list(fds)


def _some(channel: socket.socket, count: int) -> bytes:
    data = channel.recv(min(count, 1 << 20))
    if not data:
        raise ClosedError("the judge is gone")
    return data
