"""Structured logs: every record of `cuassay.guard` carries its fields; this prints them as JSON."""

from __future__ import annotations

import json
import logging
import time


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, message and the event's own fields.

    `handler.setFormatter(JsonFormatter())` on a handler of the logger `cuassay.guard`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        document = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            **getattr(record, "cuassay", {}),
            "message": record.getMessage(),
        }
        return json.dumps(document, default=str, ensure_ascii=True)
