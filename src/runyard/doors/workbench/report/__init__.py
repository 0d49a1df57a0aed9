"""The section of a bench in the HTML report."""
