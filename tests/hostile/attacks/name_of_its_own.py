# problem: gemm
# class: protocol
# wrong: everything, in code that is named after a file of the system


SCOPE = {}
exec(compile("def run(a, b):\n    raise ValueError(a.shape)", "/etc/passwd", "exec"), SCOPE)
run = SCOPE["run"]
