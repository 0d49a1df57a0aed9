"""What runs next, where, and how often: pure decisions, and the one loop that acts on them."""
