"""What holds of recorded launches for all sizes, and equality with the reference in residues."""
