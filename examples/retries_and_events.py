"""Retries by error class, and events that arrive while tasks are running.

A station that does not answer is asked again; one that sends an invalid answer is not. `attempt`
counts a task's own errors, so its second attempt does the same each time.
"""

import tempfile

import runyard as ry
from runyard.events import TaskEmitted, TaskFailed, TaskRetried


def measure(ctx: ry.Context, station: str) -> float:
    """Ask a station for its temperature."""
    if station == "north" and ctx.attempt < 2:
        raise TimeoutError("no answer")
    if station == "east":
        raise ValueError("the answer is not a number")
    degrees = round(float(ctx.rng.normal(12, 6)), 1)
    ctx.emit("reading", degrees=degrees)
    if degrees > 15:
        ctx.emit("alert", message=f"{station} is warm: {degrees} degrees")
    return degrees


def tell(event: ry.Event) -> None:
    """Print events as they arrive."""
    if isinstance(event, TaskRetried):
        print(f"  task {event.task} will be retried in {event.delay * 1000:.0f} ms: {event.error}")
    elif isinstance(event, TaskFailed):
        print(f"  task {event.task} failed permanently: {event.error}")
    elif isinstance(event, TaskEmitted):
        print(f"  task {event.task} emitted {event.kind}: {event.data}")


with tempfile.TemporaryDirectory() as folder, ry.Yard(folder) as yard:
    batch = ry.grid(measure, station=["north", "east", "south", "west"], seed=5, name="stations")
    result = yard.run(batch, on_event=tell, retries=3, retry_on=OSError, backoff=0.05)
    print(result.summary())
    told = [entry["event"] for entry in yard.events("stations", task=0)]
    print(f"the log of task 0: {', '.join(told)}")
