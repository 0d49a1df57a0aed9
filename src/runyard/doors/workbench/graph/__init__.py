"""The user's graph: opened from any form, changed node by node, checked, sent elsewhere."""
