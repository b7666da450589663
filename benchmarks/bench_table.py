"""What `make bench` measures: one row each, with where it runs and how long it takes.

Times are of one NVIDIA H200 beside 16 cores, or of two cores; they plan a run and decide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A measurement. `result` begins the names of its files in the folder of results.

    `timed`: its figures are times, so nothing may run beside it. `least_s`: it ends with less
    than all, but keeps nothing before that. `both`: it measures a GPU's side where there is one.
    """

    name: str
    what: str
    command: tuple[str, ...]
    result: str
    about_s: float
    limit_s: float
    gpus: int = 0
    both: bool = False
    timed: bool = False
    least_s: float = 20.0

    @property
    def place(self) -> Literal["cpu", "gpu", "both"]:
        """Where it measures: on computers without a GPU, with one, or either."""
        if self.gpus:
            return "gpu"
        return "both" if self.both else "cpu"


def _script(name: str, *more: str) -> tuple[str, ...]:
    return (f"benchmarks/{name}.py", *more)


def _gpu_tests(*more: str) -> tuple[str, ...]:
    return (
        "-m",
        "pytest",
        "-m",
        "gpu",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:benchmark",
        *more,
    )


BENCHES: tuple[Bench, ...] = (
    # The core: transport, comparison, whole verdicts.
    Bench(
        name="roundtrip", what="64 MiB to a worker and back", command=_script("roundtrip"),
        result="roundtrip", about_s=30, both=True, limit_s=120, timed=True,
    ),
    Bench(
        name="comparator", what="bandwidth of the comparison", command=_script("comparator"),
        result="comparator", about_s=40, both=True, limit_s=180, timed=True,
    ),
    Bench(
        name="verdicts", what="time to verdict, cold and warm", command=_script("verdicts"),
        result="verdicts", about_s=350, both=True, limit_s=600, timed=True, least_s=300,
    ),
    Bench(
        name="standard-production", what="whole `standard` at production size, phase by phase",
        command=_script("standard_production"), result="standard-production",
        about_s=240, limit_s=500, gpus=1, timed=True, least_s=130,
    ),
    Bench(
        name="races", what="how often RACE001 meets a planted race",
        command=_script("race_probability"), result="race-probability",
        about_s=400, limit_s=500, gpus=1, least_s=400,
    ),
    Bench(
        name="gpu-tests", what="every test marked gpu", command=_gpu_tests("tests/gpu"),
        result="gpu-tests", about_s=550, limit_s=590, gpus=1, least_s=300,
    ),
    # The PTX machine.
    Bench(
        name="machine-speed", what="lane-instructions a second", command=_script("machine_speed"),
        result="machine-speed", about_s=120, limit_s=400, timed=True,
    ),
    Bench(
        name="machine-power", what="planted faults found in the machine, correct kernels clean",
        command=_script("machine_power"), result="machine-power", about_s=300, limit_s=1200,
    ),
    Bench(
        name="machine-ranks", what="faults between devices found in the machine, twins clean",
        command=_script("machine_ranks"), result="machine-ranks", about_s=60, limit_s=300,
    ),
    Bench(
        name="ranks", what="planted faults of kernels that ranks share rejected, twins accepted",
        command=_script("ranks"), result="ranks", about_s=600, limit_s=1800, both=True,
    ),
    Bench(
        name="machine-kernels", what="the corpus on a GPU and in the machine, byte by byte",
        command=_script("machine_kernels_gpu", "--launches", "200"), result="machine-kernels",
        about_s=330, limit_s=500, gpus=1, least_s=200,
    ),
    Bench(
        name="machine-sanitizer", what="the corpus below compute-sanitizer's four tools",
        command=_script("machine_sanitizer_gpu", "--processes", "12"), result="machine-sanitizer",
        about_s=300, limit_s=420, gpus=1, least_s=300,
    ),
    # Training and inference loops.
    Bench(
        name="loops-headline", what="which cells of data x optimizer leave the noise band",
        command=_script("loops_gpu", "--parts", "headline,twins at full size", "--limit-s", "480"),
        result="loops-", about_s=480, limit_s=540, gpus=1, least_s=300,
    ),
    Bench(
        name="loops-twins", what="correct kernels that leave the noise band: none of 216 runs",
        command=_script("loops_gpu", "--parts", "twins", "--limit-s", "480"),
        result="loops-", about_s=480, limit_s=540, gpus=1, least_s=300,
    ),
    Bench(
        name="loops-sites", what="faults and twins: experts, optimizers, sure tokens, duplicates",
        command=_script("loops_sites"), result="loops-sites", about_s=500, limit_s=700,
    ),
    Bench(
        name="loops-states", what="LOOP001 and LOOP002 on every correct kernel with a site",
        command=_script("loops_states"), result="loops-states", about_s=600, limit_s=2400,
    ),
    # Audits, reports, agents.
    Bench(
        name="audit-scale", what="100 000 findings: reports and questions",
        command=_script("audit_scale"), result="audit-scale",
        about_s=90, limit_s=400, timed=True,
    ),
    Bench(
        name="audit-throughput", what="candidates a minute, locally and through Ray",
        command=_script("audit_throughput", "--limit-s", "500"), result="audit-throughput",
        about_s=500, both=True, limit_s=580, timed=True, least_s=200,
    ),
    Bench(
        name="report-pages", what="the audit page in a browser: 1 000 candidates",
        command=_script("report_pages"), result="report-pages",
        about_s=60, limit_s=300, timed=True,
    ),
    Bench(
        name="agents", what="a verification from cold and from a waiting judge",
        command=_script("agents"), result="agents", about_s=300, both=True, limit_s=500, timed=True,
    ),
    # The guard.
    Bench(
        name="guard-cost", what="an unsampled call; on a GPU throughput and synchronisation",
        command=_script("guard_overhead"), result="guard-overhead",
        about_s=100, both=True, limit_s=300, timed=True,
    ),
    Bench(
        name="guard-detection", what="faults found in a live training run, and when",
        command=_script("guard_detection"), result="guard-detection",
        about_s=300, both=True, limit_s=900, least_s=120,
    ),
    Bench(
        name="guard-soak", what="a million correct calls without an alarm, memory flat",
        command=_script("guard_soak"), result="guard-soak-cpu", about_s=400, limit_s=1200,
    ),
    Bench(
        name="guard-soak-gpu", what="200 000 correct calls on a GPU without an alarm",
        command=_script("guard_soak", "200000"), result="guard-soak-h",
        about_s=120, limit_s=580, gpus=1,
    ),
)  # fmt: skip
