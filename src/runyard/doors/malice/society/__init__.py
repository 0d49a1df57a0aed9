"""The rules of the vote, and who speaks in it: pure, without files or clocks."""
