"""Pydantic models that refuse unknown keys, and their errors in the user's words."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from cuassay.errors import UsageError, suggestion
from cuassay.formats.textfile import fail_all, json_kind

Model = TypeVar("Model", bound="StrictModel")
_UNKNOWN = "unknown_key"


class StrictModel(BaseModel):
    """A JSON object with a closed list of keys; no value is coerced to another type."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    hints: ClassVar[Mapping[str, str]] = {}  # misplaced key -> where it belongs
    aliases: ClassVar[Mapping[str, str]] = {}  # key seen in real files -> the key that it means

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            unknown = [key for key in data if key not in known]
            if unknown:
                context = {"unknown": unknown, "known": known, "hints": dict(cls.hints)}
                context["aliases"] = dict(cls.aliases)
                raise PydanticCustomError(_UNKNOWN, "unknown key", context)
        return data


def read_model(
    model: type[Model],
    data: Mapping[str, Any],
    *,
    where: str,
    error: type[UsageError],
    strict: bool = False,
    notes: list[str] | None = None,
) -> Model:
    """Return `data` as a `model`; `where` (file, line) opens every message.

    Unknown keys are dropped and each is described in `notes`; with `strict` they are refused.
    Keys that real files are known to use for another (`aliases`) are read as that one. Raises
    `error`.
    """
    remaining: dict[str, Any] = copy.deepcopy(dict(data))
    dropped: list[str] = []
    while True:
        try:
            return model.model_validate(remaining)
        except ValidationError as failure:
            details = failure.errors(include_url=False)
        unknown = [detail for detail in details if detail["type"] == _UNKNOWN]
        if strict or not unknown:  # an unknown key may say what is really wrong with the file
            found = [_message(detail, remaining) for detail in details]
            fail_all(error, (f"{where}: {text}" for text in (*dropped, *found)))
        for detail in unknown:
            owner = _at(remaining, _path(detail["loc"], remaining))
            for key, meant in detail["ctx"]["aliases"].items():
                if key in owner and meant not in owner:
                    owner[meant] = owner.pop(key)
            detail["ctx"]["unknown"] = [key for key in detail["ctx"]["unknown"] if key in owner]
            texts = _unknown_texts(detail, remaining)
            dropped += texts
            if notes is not None:
                notes += [f"{where}: ignored: {text}" for text in texts]
            for key in detail["ctx"]["unknown"]:
                del owner[key]


def _message(detail: ErrorDetails, data: Mapping[str, Any]) -> str:
    if detail["type"] == _UNKNOWN:
        texts = "; ".join(_unknown_texts(detail, data))
        return f"{texts}. Correct the key, or read without --strict to ignore it"
    path = _dotted(_path(detail["loc"], data)) or "the object"
    if detail["type"] == "missing":
        return f"{path} is missing: add it"
    if detail["type"] in ("union_tag_not_found", "union_tag_invalid"):
        legal = detail.get("ctx", {}).get("expected_tags", "")
        if detail["type"] == "union_tag_not_found":
            got = json_kind(detail["input"])
            return f"{path}: expected an object with a 'type', got {got} without one"
        tag = str(detail["ctx"]["tag"])
        near = suggestion(tag, [name.strip().strip("'") for name in legal.split(",")])
        return f"{path}.type: unknown type '{tag}'{': ' + near if near else ''} (known: {legal})"
    wanted = detail["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    wanted = re.sub(r"a valid dictionary( or (an )?instance of \w+)?", "an object", wanted)
    expected = "" if detail["type"] == "value_error" else "expected "
    return f"{path}: {expected}{wanted}, got {json_kind(detail['input'])}"


def _unknown_texts(detail: ErrorDetails, data: Mapping[str, Any]) -> list[str]:
    owner = _path(detail["loc"], data)
    known: Sequence[str] = detail["ctx"]["known"]
    texts = []
    for key in detail["ctx"]["unknown"]:
        hint = detail["ctx"]["hints"].get(key) or suggestion(str(key), known)
        text = f"unknown key '{_dotted((*owner, key))}'" + (f": {hint}" if hint else "")
        texts.append(f"{text} (known: {', '.join(known)})")
    return texts


def _path(location: Sequence[str | int], data: Any) -> tuple[str | int, ...]:
    """Return the location without the tags of unions, which stand in no file."""
    path: list[str | int] = []
    for part in location:
        if isinstance(data, dict) and part not in data and data.get("type") == part:
            continue
        path.append(part)
        data = _at(data, (part,), default=None)
    return tuple(path)


def _at(data: Any, path: Sequence[str | int], default: Any = None) -> Any:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return default
    return data


def _dotted(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")
