"""What the guards of a process have seen, for exporters, the status file and re-certification."""
