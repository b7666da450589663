"""Sizes are read from sources, and planned on both sides of each."""

from __future__ import annotations

from cuassay.inputs.named_sizes import NamedSize, SizeUse, named_sizes
from cuassay.inputs.plan import plan_cases
from cuassay.model.case import Case
from cuassay.model.problem import ConstAxis
from cuassay.model.verdict import Profile
from tests.support.fake_trial import axis, problem, scaled_add, tensor

PYTHON = """
LIMIT = 4 * 1024
_WIDTHS = (293, 691)
_TABLE = {853: 4, 77: 2}

def run(x):
    n = x.shape[-1]
    if n in _WIDTHS or n == 1 << 9:
        return fast(x)
    if x.shape[0] * n <= LIMIT and n % 48 == 0:
        return other(x)
    return _TABLE[n]
"""
CUDA = """
__global__ void f(float* y, int n) {
  if (n >= 8192 || n % 24 == 0) y[n << 3] = 0;
  switch (n) { case 640: break; }
}
"""


def named(value: int, kind: SizeUse) -> NamedSize:
    return NamedSize(value=value, kind=kind)


def test_python_is_read_by_its_syntax() -> None:
    found = named_sizes([PYTHON])
    equal = {one.value for one in found if one.kind is SizeUse.EQUAL}
    assert equal >= {293, 691, 512, 853, 77}
    assert named(4096, SizeUse.BOUND) in found
    assert named(48, SizeUse.STEP) in found
    assert [one.kind for one in found] == sorted((o.kind for o in found), key=list(SizeUse).index)


def test_cuda_is_read_by_its_operators_also_inside_python() -> None:
    for text in (CUDA, f"SOURCE = '''{CUDA}'''"):
        found = named_sizes([text])
        assert named(8192, SizeUse.BOUND) in found
        assert named(24, SizeUse.STEP) in found
        assert named(640, SizeUse.EQUAL) in found
        assert all(one.value != 3 for one in found)  # a shift is no comparison


LOCAL = """
class Kernel:
    limit = 600

def run(x, most=300):
    n, wide = x.shape[0], 2**11
    small_rows = 5 * 100
    if n > small_rows or n >= most or x.numel() > wide:
        return slow(x)
    grid = (cdiv(n, 96), min(n, 1056))
    kernel[grid](x, BLOCK_N=160)
    launch = lambda meta: cdiv(n, meta["BLOCK_M"])
    return Config({"BLOCK_M": 224}), (n + 47) // 48

def kernel(x, n, BLOCK_N):
    for start in range(0, n, BLOCK_N):
        pass
"""
NAMES = """
#define TILE 24
// 77 threads, 5 / 7 of them
static constexpr int ROWS = 1030;
const unsigned kMost = 4097u;
constexpr int kGroups = (ROWS - 2) * 3;
__global__ void f(float* y, int n) {
  int blocks = (n + TILE - 1) / TILE;
  if (n <= ROWS) y[min(n, kMost)] = 0;
  long most = std::min<int64_t>(kGroups, n);
}
"""


def test_names_are_looked_up_wherever_they_are_given() -> None:
    found = named_sizes([LOCAL])
    bounds = {one.value for one in found if one.kind is SizeUse.BOUND}
    steps = {one.value for one in found if one.kind is SizeUse.STEP}
    assert bounds >= {500, 300, 2048, 1056}
    assert 600 not in bounds  # nothing is compared with it
    assert steps == {96, 160, 224, 48}


def test_macros_and_constants_of_cuda_are_looked_up() -> None:
    found = named_sizes([NAMES])
    assert {named(24, SizeUse.STEP), named(1030, SizeUse.BOUND), named(4097, SizeUse.BOUND)} <= {
        *found
    }
    assert named(1028 * 3, SizeUse.BOUND) in found
    assert all(one.value not in (77, 7, 5) for one in found)  # a comment divides nothing


def test_each_number_is_met_before_any_is_met_twice() -> None:
    trial = scaled_add()
    limits = [named(value, SizeUse.BOUND) for value in (300, 400, 500)]
    plain = plan_cases(trial.problem, "shapes", profile=Profile.QUICK, root_seed=1)
    cases = plan_cases(trial.problem, "shapes", profile=Profile.QUICK, root_seed=1, named=[*limits])
    beside = {case.axes["cols"] for case in cases[len(plain) :]}
    assert beside >= {301, 401, 501}


def test_one_case_lies_beyond_the_highest_threshold() -> None:
    trial = scaled_add()

    def beyond(*values: int) -> list[dict[str, int]]:
        cases = plan_cases(
            trial.problem,
            "beyond",
            profile=Profile.QUICK,
            root_seed=1,
            named=[named(value, SizeUse.BOUND) for value in values],
        )
        return [dict(case.axes) for case in cases]

    assert beyond() == []
    assert beyond(20) == []  # small sizes and the smallest workload lie on both sides
    assert beyond(300, 100) == [{"rows": 301, "cols": 301}]
    assert beyond(400) == [{"rows": 401, "cols": 2}, {"rows": 2, "cols": 401}]  # room for one
    assert beyond(600) == [{"rows": 301, "cols": 2}, {"rows": 2, "cols": 301}]  # as elements
    assert len({str(sizes) for sizes in beyond(60_000)}) == len(beyond(60_000))


def test_a_case_above_a_threshold_may_be_larger_than_others() -> None:
    made = problem(
        "wide_rows",
        axes=[axis("rows", maximum=1 << 20), ConstAxis(name="hidden", value=2048)],
        inputs=[tensor("x", "rows", "hidden")],
        outputs=[tensor("y", "rows", "hidden")],
        workloads=[{"rows": 4}],
    )

    def planned(kind: SizeUse, value: int) -> dict[int, Case]:
        cases = plan_cases(
            made, "shapes", profile=Profile.QUICK, root_seed=1, named=[named(value, kind)]
        )
        return {case.axes["rows"]: case for case in cases}

    assert 601 in planned(SizeUse.BOUND, 600)
    assert 600 not in planned(SizeUse.BOUND, 600)
    assert not {600, 601} & set(planned(SizeUse.EQUAL, 600))
    assert 8193 not in planned(SizeUse.BOUND, 8192)  # too large for a CPU
    # Rows of many sizes, so that one case tells an epsilon as well as a mask.
    assert planned(SizeUse.BOUND, 600)[601].fills["x"].kind == "mixed_scale"


def test_a_listed_size_comes_with_the_sizes_that_it_is_listed_with() -> None:
    trial = scaled_add()
    whole = dict(trial.problem.workloads[0].axes)
    for size in whole.values():
        cases = plan_cases(
            trial.problem,
            "shapes",
            profile=Profile.QUICK,
            root_seed=1,
            named=[named(size, SizeUse.EQUAL)],
        )
        assert whole in [dict(case.axes) for case in cases]


def test_a_text_that_is_neither_gives_nothing() -> None:
    assert named_sizes(["def (", "", "\0"]) == ()


def test_both_sides_of_each_size_are_planned() -> None:
    trial = scaled_add()
    cases = plan_cases(
        trial.problem,
        "shapes",
        profile=Profile.STANDARD,
        root_seed=1,
        named=[named(293, SizeUse.EQUAL), named(100, SizeUse.BOUND), named(24, SizeUse.STEP)],
    )
    cols = {case.axes["cols"] for case in cases}
    assert cols >= {293, 294, 99, 100, 101, 48, 49}
    products = {case.axes["rows"] * case.axes["cols"] for case in cases}
    assert {100, 102} <= products
    plain = plan_cases(trial.problem, "shapes", profile=Profile.STANDARD, root_seed=1)
    assert list(cases[: len(plain)]) == list(plain)


def test_every_declared_workload_runs_at_standard() -> None:
    trial = scaled_add()
    cases = plan_cases(trial.problem, "benchmark", profile=Profile.STANDARD, root_seed=1)
    assert len(cases) == len(trial.problem.workloads)


TWO_SIZES = """
def run(x, bias, gain):
    rows, cols = x.shape
    if rows >= 300 and cols % 96 == 0:
        return slow(x)
    if bias.size(0) > 7777:
        return fast(x)
    return x.sum(-1) if x.numel() > 5000 else x
"""


def test_numbers_know_which_size_they_are_compared_with() -> None:
    of = {one.value: one.of for one in named_sizes([TWO_SIZES])}
    assert of[300] == {"x.0"}
    assert of[96] == {"x.1"}
    assert of[7777] == {"bias.0"}
    assert of[5000] == frozenset()


def test_two_sizes_of_a_branch_are_met_at_once() -> None:
    trial = scaled_add()
    found = named_sizes([TWO_SIZES])
    cases = plan_cases(trial.problem, "shapes", profile=Profile.QUICK, root_seed=1, named=found)
    assert {(301, 96)} == {
        (case.axes["rows"], case.axes["cols"])
        for case in cases
        if "numbers of the source" in case.label
    }


def test_numbers_of_no_known_size_are_met_in_pairs() -> None:
    trial = scaled_add()
    found = [named(200, SizeUse.BOUND), named(48, SizeUse.STEP), named(500, SizeUse.EQUAL)]
    cases = plan_cases(trial.problem, "shapes", profile=Profile.DEEP, root_seed=1, named=found)
    pairs = {(case.axes["rows"], case.axes["cols"]) for case in cases}
    sizes = (201, 48, 500)
    wanted = {(a, b) for a in sizes for b in sizes if a * b <= 1 << 16}
    assert wanted <= pairs


def test_words_that_python_does_not_read_name_nothing() -> None:
    text = "#include <cuda.h>\ntemplate <int N = 1 < class> bool f(int n) { return n == 010; }\n"
    assert [(one.value, one.kind) for one in named_sizes([text])] == [(10, SizeUse.EQUAL)]


def test_a_size_that_leaves_the_rest_is_planned() -> None:
    text = "def run(x):\n    cols = x.shape[1]\n    return cols % 128 == 64 and cols > 64\n"
    found = named_sizes([text])
    assert named(192, SizeUse.EQUAL) in found
    assert named(128, SizeUse.STEP) in found
    cases = plan_cases(
        scaled_add().problem, "shapes", profile=Profile.QUICK, root_seed=1, named=found
    )
    assert any(case.axes["cols"] == 192 for case in cases)


def test_axes_that_the_source_does_not_compare_come_last() -> None:
    text = "def run(x):\n    rows, cols = x.shape\n    return cols > 300\n"
    cases = plan_cases(
        scaled_add().problem,
        "shapes",
        profile=Profile.QUICK,
        root_seed=1,
        named=named_sizes([text]),
    )
    beside = [case.axes for case in cases if "beside" in case.label]
    places = [n for n, axes in enumerate(beside) if axes["rows"] in (299, 300, 301)]
    assert beside[0]["cols"] == 301
    assert not places or places[0] > 0


def test_numbers_that_are_compared_with_nothing_come_last_and_are_planned() -> None:
    text = """import torch
CODE = '''#include <vector>
static std::vector<double> table(401, 1.0); // 222
double of(long n) { table[347] = 1.1; return table[n % 401] * 0.7071067 + 512; }
'''
def run(x):
    return (x.shape[1] ^ 287) * 1024, x.shape[1] > 300
"""
    found = named_sizes([text])
    written = [one.value for one in found if one.kind is SizeUse.WRITTEN]
    assert sorted(written) == [287, 347]
    assert [one.value for one in found][-2:] == written
    cases = plan_cases(
        scaled_add().problem, "shapes", profile=Profile.STANDARD, root_seed=1, named=found
    )
    assert {287, 347} <= {case.axes["cols"] for case in cases}
