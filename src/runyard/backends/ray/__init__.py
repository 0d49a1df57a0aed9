"""`ray`: workers on the machines of a Ray cluster, or of a Ray that is started for the run.

    ┌─ engine ───┐        ┌─ bridge ────────┐        ┌─ station ─ a Ray actor on some node ─┐
    │ RayBackend │═socket═│ the Ray driver  │─calls─▶│ ProcessesBackend with one lane       │
    └────────────┘        │ seats stations  │◀─news──│   supervisor ──▶ worker ──▶ the task     │
                          └─────────────────┘        └──────────────────────────────────────┘

Ray's driver code ends its own process when the cluster's head is lost, so it lives in a process of
its own: the engine survives, and everything recorded stays. A station runs the same supervisor and
worker as `processes` does: hard kills, memory limits, captured output and the blame for a crash are
the same code.

`backend` is the engine's side and `link` its end of the socket, `bridge` the driver, `station` the
actor, `frames` what travels between them, `cluster` the decisions, `travel` folders as bytes.
"""
