"""One cell: a variant of the graph runs on a case, and what came out is recorded."""
