"""A PTX machine on the CPU: executes, sanitises and blames kernels without a GPU.

`machine.run.run` executes one launch of a parsed module; `docs/machine.md` says what is modelled.
Nothing here is imported by the driver: llvmlite, numba and numpy load when a kernel is run.
"""
