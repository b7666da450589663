"""A definition's reference source: checked as text, then written to a real file.

Tracebacks, `inspect.getsource` and Triton's decorator need a file on disk.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cuassay.errors import ProblemError, suggestion
from cuassay.formats import signature
from cuassay.home import cache_dir


def check_reference(source: str, inputs: Sequence[str], *, where: str) -> None:
    """Check that `source` has a plain top-level `run` whose parameters are the inputs.

    Raises ProblemError where it does not parse, has no `run`, or `run` takes other
    parameters, in another order or count.
    """
    run = _function(source, "run", where=where)
    expected = f"def run({', '.join(inputs)})"
    if run.is_async:
        raise ProblemError(f"{where}: 'run' is async, expected a plain '{expected}'")
    if run.open_ended or run.keyword_required or run.parameters != tuple(inputs):
        missing = [name for name in inputs if name not in run.parameters]
        extra = [name for name in run.parameters if name not in inputs]
        parts = [f"missing: {', '.join(missing)}"] if missing else []
        parts += [f"not an input: {', '.join(extra)}"] if extra else []
        difference = f" ({'; '.join(parts)})" if parts else ""
        raise ProblemError(
            f"{where}: line {run.line} of the reference: the parameters of '{run}' must equal "
            f"the inputs, in their order: expected '{expected}'{difference}"
        )


def check_generator(source: str, name: str, *, where: str) -> None:
    """Check that `source` has the input generator `name(axes_and_scalars, device)`."""
    generator = _function(source, name, where=f"{where}: custom_inputs_entrypoint")
    if generator.is_async or not generator.accepts(2):
        raise ProblemError(
            f"{where}: custom_inputs_entrypoint: line {generator.line} of the reference: "
            f"'{generator}' cannot be called with two arguments; "
            f"expected 'def {name}(axes_and_scalars, device)'"
        )


def _function(source: str, name: str, *, where: str) -> signature.Signature:
    try:
        tree = signature.syntax_tree(source, "reference")
    except SyntaxError as failure:
        line = f"line {failure.lineno}: " if failure.lineno else ""
        raise ProblemError(
            f"{where}: the reference is not valid Python: {line}{failure.msg}; correct it"
        ) from None
    found = signature.functions(tree)
    if name in found:
        return found[name]
    near = suggestion(name, found)
    listed = ", ".join(found) if found else "none"
    raise ProblemError(
        f"{where}: the reference has no top-level function '{name}'"
        f"{': ' + near if near else ''} (its functions: {listed}); add 'def {name}(...)'"
    )


def reference_path(source: str, beside: Path | None) -> Path:
    """Return a file that holds exactly `source`: `beside` where it does, else a cached one.

    The cached file is named by the content's hash, so that equal sources share it.
    """
    if beside is not None and beside.is_file():
        try:
            if beside.read_text(encoding="utf-8") == source:
                return beside.absolute()
        except (OSError, UnicodeDecodeError):
            pass  # unreadable, so not identical: the definition's own text is what counts
    data = source.encode("utf-8", errors="surrogatepass")
    folder = cache_dir() / "references"
    path = folder / f"reference_{hashlib.sha256(data).hexdigest()[:24]}.py"
    try:
        if not (path.is_file() and path.read_bytes() == data):
            # Write so that another process sees the whole file or none
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            Path(temporary).replace(path)
    except OSError as failure:
        raise ProblemError(
            f"{path} cannot be written: {failure}; set CUASSAY_HOME to a writable folder"
        ) from None
    return path
