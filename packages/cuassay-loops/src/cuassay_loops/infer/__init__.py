"""`cuassay loop infer`: prefill, decoding and encoding with the kernel at a site."""
