"""Cards, what hands are worth, and what a player knows of one."""
