"""The candidate's process: sandbox, protocol, scenario interpreter. Imports no torch by itself."""
