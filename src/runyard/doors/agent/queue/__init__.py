"""The queue on record: tasks added, looked at, waited for and exported."""
