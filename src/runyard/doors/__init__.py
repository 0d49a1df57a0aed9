"""Doors: packages on top of the engine that bring one domain each, and never import each other."""
