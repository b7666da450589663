"""What each PTX instruction means, as LLVM IR; one family a file, found through the registry."""
