"""cuassay for programs that write kernels: tools, and the server that offers them."""
