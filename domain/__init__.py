"""What a job is and what may happen to it: pure rules, no input or output."""
