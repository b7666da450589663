"""What outlives a trial: run folders, failing cases, findings as programs, replays."""
