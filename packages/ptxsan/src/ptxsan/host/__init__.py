"""Host code of CUDA programs, run on a machine without a GPU.

The host's part of a source is compiled by the system's C++ compiler against a small CUDA runtime,
the device's part by NVRTC to PTX; every launch goes to the machine with its real arguments.
"""
