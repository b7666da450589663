"""A CUDA source in two: what the host's compiler gets, what the device's gets."""

from __future__ import annotations

import pytest

from ptxsan.host.split import split
from ptxsan.host.tokens import Kind, tokenize


def plain(text: str) -> str:
    """Return a text without its white space, for comparison."""
    return "".join(token.text for token in tokenize(text))


def test_tokens_are_cut_as_the_language_cuts_them() -> None:
    text = (
        "a<<<1>>>(R\"x(\n\"<<<)x\", '\\'', 0x1p-3f, 1'000); // <<<\n#define B \\\n 3\n/* <<< */ b"
    )
    found = [(token.kind, token.text) for token in tokenize(text)]
    assert (Kind.STRING, 'R"x(\n"<<<)x"') in found
    assert (Kind.CHARACTER, "'\\''") in found
    assert (Kind.NUMBER, "0x1p-3f") in found
    assert (Kind.NUMBER, "1'000") in found
    assert (Kind.DIRECTIVE, "#define B \\\n 3") in found
    assert [text for kind, text in found if kind is Kind.NAME] == ["a", "b"]


@pytest.mark.parametrize(
    ("launch", "rewritten"),
    [
        ("k<<<1, 2>>>(x);", "(::cuda_host_configure(1, 2), k(x));"),
        ("if (a) k<<<1, 2>>>(x); else b;", "if (a) (::cuda_host_configure(1,2), k(x)); else b;"),
        ("if (a) (k)<<<1, 2>>>(x);", "if (a) (::cuda_host_configure(1, 2), (k)(x));"),
        ("n::k<float, (3 > 2)><<<dim3(g, 1), 32, 0, s>>>(x);",
         "(::cuda_host_configure(dim3(g, 1), 32, 0, s), n::k<float, (3 > 2)>(x));"),
        ("return ::k<<<g(1 >> 2), {3, 4}>>>(f(x), y);",
         "return (::cuda_host_configure(g(1 >> 2), {3, 4}), ::k(f(x), y));"),
        ("table[i].run<<<1, 1>>>();", "(::cuda_host_configure(1, 1), table[i].run());"),
        ("a << b << c;", "a << b << c;"),
    ],
)  # fmt: skip
def test_a_launch_becomes_two_calls(launch: str, rewritten: str) -> None:
    found = split(f"void host() {{ {launch} }}").host
    assert plain(found) == plain(f"void host() {{ {rewritten} }}")


def test_operators_of_a_launch_stay_whole_and_lines_stay_where_they_are() -> None:
    found = split("void host() { k<<<n + (n >= 1\n << 4), n == 2 && m>>>(x);\n }").host
    assert "(::cuda_host_configure(n + (n >= 1 << 4), n == 2 && m), k" in found
    assert found.count("\n") == 2


def test_kernels_get_stubs_and_the_device_gets_no_host_functions() -> None:
    text = """
template <typename T> __global__ void __launch_bounds__(64) k(const T* x, T*, int n = 3) { x[0]; }
__device__ float twice(float v) { return v + __shfl_sync(~0u, v, 0); }
__constant__ float table[4];
static int calls = 0;
constexpr int size(int n) { return n + 1; }
torch::Tensor run(torch::Tensor x) { k<float><<<1, 64>>>(nullptr, nullptr); return x; }
PYBIND11_MODULE(m, m) { m.def("run", &run); }
"""
    found = split(text)
    assert found.kernels == {"k"}
    for kept in ("x[0]", "twice", "table[4]", "size"):
        assert kept in found.device
    for gone in ("torch", "PYBIND", "calls", "<<<"):
        assert gone not in found.device
    for kept in ("table[4]", "calls", "PYBIND11_MODULE", "cuda_host_stub", "size"):
        assert kept in found.host
    for gone in ("x[0]", "__shfl_sync", "<<<"):
        assert gone not in found.host
    assert found.device.count("\n") == found.host.count("\n") == text.count("\n")


def test_kernels_are_known_by_their_namespaces() -> None:
    text = """
namespace a::b { inline namespace v1 { template <class T> __global__ void k(T* x) {} } }
namespace a { template <class T> void k(T* x) { b::k<T><<<1, 1>>>(x); }
  extern "C" { __global__ void plain() {} } extern "C" __global__ void other() {} }
namespace { __global__ void own() {} }
"""
    assert split(text).kernels == {"a::b::v1::k", "plain", "other", "own"}


def test_members_for_the_device_leave_the_host_and_members_for_the_host_the_device() -> None:
    text = """
struct P {
  float* p; int n{2};
  P(int m) : p{nullptr}, n(m) { cudaMalloc(&p, m); }
  __device__ float get(int i) const { return p[i] + threadIdx.x; }
  __host__ __device__ int size() const { return n; }
};
"""
    found = split(text)
    assert "threadIdx" not in found.host
    assert "threadIdx" in found.device
    assert "cudaMalloc" in found.host
    assert "cudaMalloc" not in found.device
    assert "return n" in found.host
    assert "return n" in found.device


def test_names_are_reworded_for_the_host_alone() -> None:
    text = "bool f(T x) { return x.is_cuda(); } __device__ int is_cuda;"

    def rename(tokens: object, index: int) -> str | None:
        return "is_cpu" if tokens[index].text == "is_cuda" else None  # type: ignore[index]

    found = split(text, rename=rename)
    assert "x.is_cpu()" in found.host
    assert "int is_cuda" in found.device


def test_not_inlined_is_an_attribute_of_the_program_and_a_word_of_libraries() -> None:
    text = """
__host__ __device__ __noinline__ int twice(int x) { return 2 * x; }
__attribute__((__noinline__)) int thrice(int x) { return 3 * x; }
"""
    host = split(text).host
    assert "__host__ __device__ __attribute__((noinline)) int twice" in host
    assert "__attribute__((__noinline__)) int thrice" in host


def test_a_call_operator_of_the_device_has_no_body_on_the_host() -> None:
    text = """
template <class T, int N> struct Add;
template <class T> struct Add<T, 4> {
  inline __device__ void operator()(T* a, T v) { atomicAdd(a, __int_as_float(v)); }
  __host__ __device__ bool operator<(const Add& other) const { return false; }
  bool operator==(const Add& other) const { return host_only(); }
};
"""
    parted = split(text)
    assert "__int_as_float" not in parted.host
    assert "operator()(T* a, T v) ;" in parted.host
    assert "return false" in parted.host
    assert "return false" in parted.device
    assert "__int_as_float" in parted.device
    assert "host_only" in parted.host
    assert "host_only" not in parted.device


_LIBRARY = """
namespace lib {
template <class T> __device__ void load(T& to);
template <> __device__ void load<int>(int& to) { to = threadIdx.x; }
__device__ int rank() { return blockIdx.x; }
__device__ constexpr int steps(int n) { return n / 2; }
struct Loop {
  static constexpr int kSteps = steps(4);
  __host__ __device__ void run() { int x; load(x); lib::rank(); __syncthreads(); }
};
template <class T> auto has_size(T*) -> decltype(T::size);
auto has_size(...) -> int;
}
namespace std { template <> struct numeric_limits<lib::Loop> { static const bool is = true; }; }
__global__ void k(int* y) { lib::Loop loop; loop.run(); *y = loop.kSteps; }
"""


def test_a_host_may_know_the_devices_functions_without_their_bodies() -> None:
    parted = split(_LIBRARY, declared=True)
    assert parted.declared
    assert "template <class T> __device__ void load(T& to);" in parted.host
    assert "__device__ int rank() ;" in parted.host
    assert "blockIdx" not in parted.host
    assert "return n / 2;" in parted.host  # a constant of the host's is made of it
    plain = split(_LIBRARY)
    assert not plain.declared
    assert "rank() ;" not in plain.host


def test_the_device_keeps_declarations_that_types_ask_for_and_what_std_is_told() -> None:
    device = split(_LIBRARY).device
    assert "auto has_size(...) -> int;" in device
    assert "namespace cuda::std { template <> struct numeric_limits<lib::Loop>" in device


def test_a_base_with_parentheses_makes_no_function_of_a_class() -> None:
    text = "template <class T> struct is_a : constant<not (is_b<T>::value || is_c<T>::value)> {};\n"
    device = split(text + "__global__ void k(int* y) { *y = is_a<int>::value; }\n").device
    assert "struct is_a" in device


def test_the_device_keeps_templates_of_the_hosts_whose_result_is_a_type() -> None:
    text = "template <class T> __host__ auto made(T a) { return a + 1; }\nvoid host_alone() {}\n"
    device = split(text + "__global__ void k(decltype(made(1)) n) {}\n").device
    assert "auto made(T a) { return a + 1; }" in device
    assert "__host__" not in device
    assert "host_alone" not in device


def test_a_comparison_within_a_type_assigns_nothing() -> None:
    text = "template <int a, int b> __device__ constant<a == b> same(R<a>, R<b>) { return {}; }\n"
    device = split(text + "int host_alone() { return 1; }\n__global__ void k() {}\n").device
    assert "same(R<a>, R<b>) { return {}; }" in device
    assert "host_alone" not in device


def test_a_call_in_the_arguments_of_a_specialisation_makes_no_function_of_it() -> None:
    text = "template <class T> struct built<T, enable_if_t<(is_a<T>) && fits<T>()>> { int n; };\n"
    device = split(text + "__global__ void k() {}\n").device
    assert "struct built<T" in device


def test_structured_bindings_of_constants_know_what_std_was_told_of_their_type() -> None:
    text = (
        "namespace cuda::std { template <class T> struct tuple_size<R<T>> { int n; }; }\n"
        "namespace std { template <class T>\nstruct tuple_size<R<T>> : two {};\n"
        "template <int I, class T> struct tuple_element<I, R<T>> { using type = T; };\n"
        "template <class T> struct tuple_size<const S<T>> : two {}; }\n"
    )
    device = split(text + "__global__ void k() {}\n").device
    assert "struct tuple_size<const R<T>> : tuple_size<R<T>> {};" in device
    assert "struct tuple_element<I, const R<T>> { using type = const typename" in device
    assert device.count("tuple_size<const") == 2  # what the program says of constants stays alone
    assert device.count("\n") == text.count("\n") + 1


def test_what_a_hosts_template_calls_is_declared_where_types_are_made_of_it() -> None:
    text = (
        "inline int encoded(int n) { throw n; }\nint host_alone() { return 1; }\n"
        "template <class T> auto made(T a) { return R<T>{encoded(a)}; }\n"
    )
    device = split(text + "__global__ void k(decltype(made(1)) n) {}\n").device
    assert " int encoded(int n) ;" in device
    assert "inline" not in device
    assert "host_alone" not in device
