"""What came out: sessions, their sums and risks, comparisons, and files and charts of them."""
