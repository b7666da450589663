"""YAML files of other people's problems; PyYAML is optional."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuassay.errors import ProblemError, missing_extra
from cuassay.formats.textfile import read_text


def read_yaml(file: Path, *, expected: str) -> Mapping[str, Any]:
    """Return the mapping that a YAML file holds; `expected` are keys for the message.

    Raises ProblemError, and MissingToolError without PyYAML.
    """
    text = read_text(file, ProblemError)
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise missing_extra("pyyaml", "gpumode") from None
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as failure:
        raise ProblemError(f"{file} is not valid YAML: {failure}; correct it") from None
    if not isinstance(data, dict):
        raise ProblemError(f"{file}: expected keys such as {expected}; correct it")
    return data
