"""Production operators with references, input domains and realistic workloads."""
