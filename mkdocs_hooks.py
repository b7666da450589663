"""Adds the pages that are made from the source to the documentation site."""

from __future__ import annotations

from typing import Any

from cuassay.cli.pages import pages


def on_files(files: Any, config: Any) -> Any:
    """Add a page a check, and those of failure classes and causes."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files
