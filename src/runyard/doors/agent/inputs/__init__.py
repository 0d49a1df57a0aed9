"""What comes from outside: a model's arguments, and the owner's settings."""
