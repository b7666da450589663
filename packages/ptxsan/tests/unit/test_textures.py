"""Textures and surfaces: what a program reads is what the CUDA C++ Programming Guide says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.nvrtc")
from ptxsan.findings import Kind
from ptxsan.host.build import Linked
from ptxsan.host.program import build_program, run_built

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

# The texels of row y are 10 y, 10 y + 1, ...
_PROGRAM = r"""
#include <cstdio>
#include <vector>
#define CHECK(x) if (cudaError_t e = (x)) { printf("%s\n", cudaGetErrorString(e)); return 1; }
__global__ void points(cudaTextureObject_t t, float* out) {
  out[0] = tex2D<float>(t, 1.5f, 2.5f);
  out[1] = tex2D<float>(t, -3.f, 0.f);
  out[2] = tex2D<float>(t, 9.f, 9.f);
  out[3] = tex2D<float>(t, 1.f, 1.5f);
}
__global__ void bytes(cudaTextureObject_t t, float* out) {
  float4 one = tex2D<float4>(t, 0.5f, 0.5f);
  out[0] = one.x; out[1] = one.y; out[2] = one.z; out[3] = one.w;
}
__global__ void line(cudaTextureObject_t t, float* out) {
  out[0] = tex1Dfetch<int>(t, 2);
  out[1] = tex1Dfetch<int>(t, 4);
  out[2] = tex1Dfetch<int>(t, -1);
}
__global__ void layers(cudaTextureObject_t t, float* out) {
  out[0] = tex2DLayered<float>(t, 1.f, 0.f, 1);
  out[1] = tex2DLayered<float>(t, 0.f, 1.f, 0);
}
__global__ void space(cudaTextureObject_t t, float* out) {
  out[0] = tex3D<float>(t, 1.5f, 0.5f, 1.5f);
  out[1] = tex3D<float>(t, 1.0f, 1.0f, 1.0f);
}
__global__ void draw(cudaSurfaceObject_t s, int beyond) {
  int x = threadIdx.x, y = blockIdx.x;
  float read = 0;
  if (!beyond) surf2Dread(&read, s, x * 4, y);
  surf2Dwrite(read + 100, s, (x + beyond) * 4, y);
}
template <class T> cudaArray_t filled(const std::vector<T>& from, int width, int height, int depth,
                                      unsigned flags, cudaChannelFormatDesc format) {
  cudaArray_t array;
  if (depth == 0) {
    cudaMallocArray(&array, &format, width, height, flags);
    if (!from.empty())
      cudaMemcpy2DToArray(array, 0, 0, from.data(), width * sizeof(T), width * sizeof(T), height,
                          cudaMemcpyHostToDevice);
    return array;
  }
  cudaMalloc3DArray(&array, &format, make_cudaExtent(width, height, depth), flags);
  cudaMemcpy3DParms copy = {0};
  copy.srcPtr = make_cudaPitchedPtr((void*)from.data(), width * sizeof(T), width, height);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(width, height, depth);
  copy.kind = cudaMemcpyHostToDevice;
  cudaMemcpy3D(&copy);
  return array;
}
cudaResourceDesc resource(cudaArray_t array) {
  cudaResourceDesc one = {};
  one.resType = cudaResourceTypeArray;
  one.res.array.array = array;
  return one;
}
cudaTextureObject_t texture(cudaResourceDesc one, cudaTextureAddressMode mode, bool linear,
                            bool normalized, bool fractions = false) {
  cudaTextureDesc how = {};
  for (int axis = 0; axis < 3; ++axis) how.addressMode[axis] = mode;
  how.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
  how.normalizedCoords = normalized;
  how.readMode = fractions ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
  how.borderColor[0] = -5;
  cudaTextureObject_t made;
  if (cudaCreateTextureObject(&made, &one, &how, nullptr)) printf("no texture\n");
  return made;
}
void print(const char* name, float* out, int count) {
  cudaDeviceSynchronize();
  std::vector<float> host(count);
  cudaMemcpy(host.data(), out, count * 4, cudaMemcpyDeviceToHost);
  printf("%s", name);
  for (float one : host) printf(" %g", one);
  printf("\n");
}
int main(int count, char** words) {
  const int fault = count > 1 ? atoi(words[1]) : 0;
  std::vector<float> table(12);
  for (int i = 0; i < 12; ++i) table[i] = 10 * (i / 4) + i % 4;
  auto array = filled(table, 4, 3, 0, 0, cudaCreateChannelDesc<float>());
  float* out;
  CHECK(cudaMalloc(&out, 16 * 4));
  points<<<1, 1>>>(texture(resource(array), cudaAddressModeClamp, false, false), out);
  print("clamp", out, 4);
  points<<<1, 1>>>(texture(resource(array), cudaAddressModeBorder, false, false), out);
  print("border", out, 4);
  points<<<1, 1>>>(texture(resource(array), cudaAddressModeClamp, true, false), out);
  print("linear", out, 4);
  points<<<1, 1>>>(texture(resource(array), cudaAddressModeWrap, false, true), out);
  print("wrap", out, 4);
  std::vector<uchar4> colors(4, uchar4{255, 51, 0, 102});
  auto bitmap = filled(colors, 2, 2, 0, 0, cudaCreateChannelDesc<uchar4>());
  bytes<<<1, 1>>>(texture(resource(bitmap), cudaAddressModeClamp, false, false, true), out);
  print("bytes", out, 4);
  int numbers[] = {5, -6, 7, 8}, *linear;
  CHECK(cudaMalloc(&linear, sizeof numbers));
  CHECK(cudaMemcpy(linear, numbers, sizeof numbers, cudaMemcpyHostToDevice));
  cudaResourceDesc one = {};
  one.resType = cudaResourceTypeLinear;
  one.res.linear.devPtr = linear;
  one.res.linear.desc = cudaCreateChannelDesc<int>();
  one.res.linear.sizeInBytes = sizeof numbers;
  line<<<1, 1>>>(texture(one, cudaAddressModeClamp, false, false), out);
  print("line", out, 3);
  std::vector<float> cube{0, 1, 2, 3, 4, 5, 6, 7};
  auto layered = filled(cube, 2, 2, 2, cudaArrayLayered, cudaCreateChannelDesc<float>());
  layers<<<1, 1>>>(texture(resource(layered), cudaAddressModeClamp, false, false), out);
  print("layers", out, 2);
  auto solid = filled(cube, 2, 2, 2, 0, cudaCreateChannelDesc<float>());
  space<<<1, 1>>>(texture(resource(solid), cudaAddressModeClamp, true, false), out);
  print("space", out, 2);
  cudaSurfaceObject_t surface;
  cudaResourceDesc drawn = resource(array);
  CHECK(cudaCreateSurfaceObject(&surface, &drawn));
  draw<<<3, 4>>>(surface, fault == 1);
  CHECK(cudaMemcpy2DFromArray(table.data(), 16, array, 0, 0, 16, 3, cudaMemcpyDeviceToHost));
  printf("surface %g %g\n", table[0], table[11]);
  auto unwritten = filled(std::vector<float>(), 4, 3, 0, 0, cudaCreateChannelDesc<float>());
  auto handle = texture(resource(fault == 2 ? unwritten : array), cudaAddressModeClamp, false, 0);
  if (fault == 3) cudaDestroyTextureObject(handle);
  points<<<1, 1>>>(handle, out);
  cudaDeviceSynchronize();
  return 0;
}
"""
_EXPECTED = """\
clamp 21 0 23 11
border 21 -5 -5 11
linear 21 0 23 10.5
wrap 12 0 0 10
bytes 1 0.2 0 0.4
line 7 0 0
layers 5 2
space 5 3.5
surface 100 123
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Linked:
    """Return the program, compiled once for all that it is asked to do."""
    folder = tmp_path_factory.mktemp("textures")
    source = folder / "textures.cu"
    source.write_text(_PROGRAM)
    return build_program([source], folder)


def test_texels_are_what_the_guide_says(built: Linked) -> None:
    report = run_built(built, Path("textures.cu"))
    assert report.output == _EXPECTED
    assert report.not_covered == ()
    assert report.wrong == ()


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        ("1", Kind.OUT_OF_BOUNDS, "surface outside of it"),
        ("2", Kind.UNINITIALISED, "memory that nobody wrote"),
        ("3", Kind.OUT_OF_BOUNDS, "handle of no texture"),
    ],
)
def test_faults_of_textures_are_found(built: Linked, fault: str, kind: Kind, text: str) -> None:
    found = run_built(built, Path("textures.cu"), [fault]).wrong
    assert {one.kind for one in found} == {kind}
    assert all(text in one.text for one in found)
