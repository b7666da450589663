"""Files of users as modules: once for each content, under their own names, with one message."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cuassay.errors import ProblemError, ReferenceError_
from cuassay.formats.modules import import_file


def test_a_file_is_imported_once_for_each_content(tmp_path: Path) -> None:
    file = tmp_path / "reference.py"
    file.write_text("runs = []\nvalue = 1\n")
    first = import_file(file)
    assert import_file(file) is first
    assert sys.modules[first.__name__] is first  # pickle and dataclasses look there
    file.write_text("value = 2\n")
    assert import_file(file).value == 2
    assert first.value == 1


def test_a_file_of_a_package_has_its_dotted_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kernels_of_test" / "inner"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("")
    (folder / "scale.py").write_text("from . import __name__ as package\n")
    with pytest.raises(ReferenceError_, match="attempted relative import"):
        import_file(folder / "scale.py")  # the package cannot be imported from here
    monkeypatch.syspath_prepend(str(tmp_path))
    module = import_file(folder / "scale.py")
    assert module.__name__ == "kernels_of_test.inner.scale"
    assert module.package == "kernels_of_test.inner"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n1 / 0\n", "ZeroDivisionError: division by zero (line 2)"),
        ("def f(:\n", "SyntaxError: "),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 (line 2)"),
        ("import json\n\njson.loads('{')\n", "(line 3)"),  # its own line, not that of json
        ("raise ValueError\n", "ValueError: no message (line 1)"),
    ],
)
def test_what_goes_wrong_is_told_with_the_file_s_own_line(
    text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "reference.py"
    file.write_text(text)
    for _ in range(2):  # nothing of a failed import is left behind
        with pytest.raises(ReferenceError_) as failure:
            import_file(file)
        assert message in str(failure.value)


def test_a_mistake_that_is_cuassay_s_to_tell_passes(tmp_path: Path) -> None:
    file = tmp_path / "reference.py"
    file.write_text("from cuassay.errors import ProblemError\nraise ProblemError('as it is')\n")
    with pytest.raises(ProblemError, match=r"^as it is$"):
        import_file(file)
    other = tmp_path / "reference.cu"
    other.write_text("int x;")
    with pytest.raises(ReferenceError_, match=r"expected a file that ends in \.py"):
        import_file(other)
