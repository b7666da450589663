"""A PTX machine on the CPU: executes, sanitises and blames kernels without a GPU.

`run.run` executes one launch of a parsed module; `docs/machine.md` says what is modelled.
Nothing heavy loads here: llvmlite, numba and numpy do when a kernel is run.
"""
