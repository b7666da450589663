"""What C++ links to is told by kind; what compilers and counters link to is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cuassay.build.cuda.host_lines import HostLines
from cuassay.sandbox.guest.observe import native_calls
from tests.support.counted_library import counted_library

_HEADS = "".join(
    f"#include <{name}>\n"
    for name in ("ctime", "fstream", "string", "sys/resource.h", "chrono", "unistd.h")
)


def _asked(
    monkeypatch: pytest.MonkeyPatch, folder: Path, body: str, *, flags: Sequence[str] = ()
) -> set[str]:
    code = f'{_HEADS}extern "C" double of(double x) {{ {body} }}\n'
    lines, _ = counted_library(folder, code, link=flags)
    monkeypatch.setattr(native_calls, "HOST_LINES", lines)
    return {name for name, text in native_calls.asked().items() if text == "yes"}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return x * (std::time(nullptr) % 7);", {"asks a clock in C++"}),
        ("return x * std::chrono::system_clock::now().time_since_epoch().count();",
         {"asks a clock in C++"}),
        ("rlimit most; getrlimit(RLIMIT_FSIZE, &most); return x * most.rlim_cur;",
         {"asks its limits in C++"}),
        ('std::ifstream file("/proc/self/status"); return x * file.get();',
         {"asks a file in C++"}),
        ("return environ[40] ? x : 2.0 * x;", {"asks variables of its process in C++"}),
        ("return x * 2.0;", set()),
    ],
)  # fmt: skip
def test_what_a_library_links_to_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, told: set[str]
) -> None:
    assert _asked(monkeypatch, tmp_path, body) == told


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("static std::string made(9, 'a' + int(x)); return made.size();", set()),
        ('std::ifstream file("/proc/self/status"); return x * file.get();', {"asks a file in C++"}),
    ],
)
def test_what_an_archive_of_libstdcpp_calls_is_not_the_library_s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, told: set[str]
) -> None:
    flags = ("-static-libstdc++", "-static-libgcc")
    assert _asked(monkeypatch, tmp_path, body, flags=flags) == told


def test_without_a_followed_library_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_calls, "HOST_LINES", HostLines())
    assert set(native_calls.asked().values()) == {"no"}
