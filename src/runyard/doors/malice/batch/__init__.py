"""Many runs as one batch."""
