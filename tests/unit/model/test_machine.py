"""What the PTX machine saw of a call: how many launches count as judged, and why others do not."""

from __future__ import annotations

from cuassay.model.machine import LaunchEvidence, MachineEvidence, MachineFault


def _launch(kernel: str = "k", *, inconclusive: str = "", oblivious: bool = True) -> LaunchEvidence:
    return LaunchEvidence(
        kernel=kernel, grid=(1, 1, 1), block=(32, 1, 1), target="sm_90",
        inconclusive=inconclusive, oblivious=oblivious,
    )  # fmt: skip


def test_launches_that_nobody_recorded_count_as_made_and_not_as_judged() -> None:
    launches = (_launch(), _launch(inconclusive="a texture"), _launch())
    seen = MachineEvidence(launches=launches, notes=("captured in a graph",), left_out=2)
    assert (seen.made, seen.judged) == (5, 2)
    assert seen.causes == ("captured in a graph", "captured in a graph", "a texture")
    assert seen.gap == "captured in a graph"


def test_without_a_note_a_launch_that_is_missing_still_has_a_cause() -> None:
    seen = MachineEvidence(launches=(_launch(),), left_out=1)
    assert seen.causes == ("it was not recorded",)
    assert seen.made == seen.judged + len(seen.causes)


def test_where_all_were_judged_there_is_no_gap() -> None:
    assert MachineEvidence(launches=(_launch(),)).gap == ""
    assert MachineEvidence(launches=(_launch(inconclusive="a loop"),)).gap == "a loop"


def test_what_holds_for_all_data_holds_of_every_launch_and_of_one_at_least() -> None:
    assert MachineEvidence(launches=(_launch(), _launch())).oblivious
    assert not MachineEvidence(launches=(_launch(), _launch(oblivious=False))).oblivious
    assert not MachineEvidence().oblivious


def test_faults_come_with_their_launch_in_order() -> None:
    first, second = (MachineFault(kind=kind, severity="wrong", text=kind) for kind in ("a", "b"))
    one = LaunchEvidence(
        kernel="one", grid=(1,), block=(1,), target="sm_90", faults=(first, second)
    )
    two = LaunchEvidence(kernel="two", grid=(1,), block=(1,), target="sm_90", faults=(first,))
    found = MachineEvidence(launches=(one, _launch(), two)).faults
    assert [(launch.kernel, fault.kind) for launch, fault in found] == [
        ("one", "a"), ("one", "b"), ("two", "a"),
    ]  # fmt: skip
