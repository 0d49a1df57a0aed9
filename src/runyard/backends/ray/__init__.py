"""`ray`: workers on the machines of a Ray cluster, or of a Ray that is started for the run.

    ┌─ engine ───┐        ┌─ driver process ─┐         ┌─ WorkerActor on some node ───────────┐
    │ RayBackend │═socket═│ Driver           │─calls──▶│ ProcessesBackend with one lane       │
    └────────────┘        │ starts actors    │◀updates─│   supervisor ──▶ worker ──▶ the task │
                          └──────────────────┘         └──────────────────────────────────────┘

Ray ends its driver's process when the cluster's head is lost, so the driver is a process of its
own: the engine survives, and everything recorded stays. A worker actor runs the same supervisor and
worker as `processes` does, so hard kills, memory limits, captured output and the handling of
crashes are the same code.

`backend` is the engine's side and `client` its end of the socket, `driver` the driver process,
`actor_handle` an actor as the driver sees it, `worker_actor` the actor, `messages` what travels
between them, `cluster` the nodes and where actors fit, `shared_files` and `archives` the files.
"""
