"""From the record to people: results, failures, files. Needs the record only."""
