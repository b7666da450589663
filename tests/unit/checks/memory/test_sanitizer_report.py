"""Reports of compute-sanitizer as records: XML, its text, and hostile ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.checks.memory.sanitizer_report import (
    Record,
    find_sanitizer,
    of_kernels,
    parse_report,
)

_XML = """<?xml version="1.0"?>
<ComputeSanitizerOutput>
  <record>
    <kind>Invalid global read</kind><level>Error</level>
    <what><text>Invalid   global
read</text><size>4</size><accessAddress>0x7f0</accessAddress></what>
    <where><func>scale(float*)</func><path>/home/them/scale.cu</path><line>9</line></where>
    <who><blockIdx><x>1</x><y>0</y><z>0</z></blockIdx>
         <threadIdx><x>31</x><y>a</y><z>0</z></threadIdx></who>
    <hostStack>
      <frame><module>/x/torch/lib/libtorch.so</module><func>at::launch</func></frame>
      <frame><module>/x/theirs.so</module><func>run</func></frame>
    </hostStack>
  </record>
  <record><kind>Unused</kind><level>Info</level><what>A note</what></record>
</ComputeSanitizerOutput>"""

_LOG = """\
noise
========= Invalid __global__ write of size 4 bytes
=========     at scale(float*)+0x70 in scale.cu:12
=========     by thread (5,0,0) in block (2,0,0)
=========     Address 0x7f1234 is out of bounds
=========     Host Frame: run in theirs.so
========= Warning: Race reported between Write access at other(int*)+0x10
=========     and more
"""


def test_a_record_of_xml_says_what_where_and_who() -> None:
    first, second = parse_report(_XML)
    assert first == Record(
        kind="Invalid global read", level="error", text="Invalid global read",
        kernel="scale(float*)", at="scale.cu:9", address="0x7f0", size="4", block="1,0,0",
        thread="", host="run",
    )  # fmt: skip
    assert (second.level, second.text, second.kernel) == ("warning", "A note", "")


def test_where_the_xml_is_broken_the_tools_text_is_read() -> None:
    for broken in ("<a><b></a>", "", '<!DOCTYPE x [<!ENTITY a "b">]><a>&a;</a>'):
        write, race = parse_report(broken, _LOG)
        assert write.text == "Invalid __global__ write of size 4 bytes"
        assert (write.kernel, write.at) == ("scale(float*)", "scale.cu:12")
        assert (write.thread, write.block, write.address) == ("5,0,0", "2,0,0", "0x7f1234")
        assert (race.level, race.kernel) == ("warning", "other(int*)")


def test_records_and_their_fields_are_bounded() -> None:
    long = "<record><kind>" + "x" * 5000 + "</kind></record>"
    found = parse_report(f"<all>{long * 300}</all>")
    assert len(found) == 200
    assert len(found[0].kind) == 300


def test_only_the_candidates_kernels_count() -> None:
    records = [Record(kernel=name) for name in ("void scale<4>(int)", "at::scale", "rescale")]
    assert of_kernels(records, {"scale"}) == records[:1]


def test_the_tool_is_found_where_cuda_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "compute-sanitizer" / "compute-sanitizer"
    tool.parent.mkdir()
    tool.write_text("")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert find_sanitizer() != str(tool)  # it cannot be executed
    tool.chmod(0o755)
    assert find_sanitizer() == str(tool)
