// What mma.h brings a host beside the matrices of a warp, which are the device's alone: the types.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
