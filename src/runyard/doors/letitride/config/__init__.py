"""Configurations: every key with its default, read from files and checked."""
