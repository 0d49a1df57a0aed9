"""A context belongs to its task for ever, and so do the threads that the task starts."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from polling import eventually
from running import Place

import runyard as ry
from runyard.errors import UsageError


@pytest.fixture(
    scope="module",
    params=[Place(name, 1) for name in ("serial", "async", "threads", "processes")],
    ids=str,
)
def place(request: pytest.FixtureRequest) -> Place:
    """Every backend with one lane, where one task follows the other in the same process."""
    found: Place = request.param
    return found


def seen() -> list[Any]:
    """The task that this code thinks it belongs to."""
    ctx = ry.context()
    return [ctx.task, ctx.params["x"], ctx.seed]


def in_threads(x: int) -> list[Any]:
    """What a task's own threads see."""
    found = [seen()]

    def start(depth: int) -> None:
        found.append(seen())
        if depth:
            inner = threading.Thread(target=start, args=(depth - 1,))
            inner.start()
            inner.join()

    start(2)
    with ThreadPoolExecutor(2) as pool:
        found += [future.result() for future in [pool.submit(seen) for _ in range(4)]]
    timer = threading.Timer(0.0, lambda: found.append(seen()))
    timer.start()
    timer.join()
    found.append(asyncio.run(asyncio.to_thread(seen)))
    return found


async def in_awaited_threads(x: int) -> list[Any]:
    """What threads of the loop's own pool see, which outlive the task."""
    loop = asyncio.get_running_loop()
    calls = [asyncio.to_thread(seen) for _ in range(3)]
    return list(await asyncio.gather(*calls, *(loop.run_in_executor(None, seen) for _ in range(3))))


@pytest.mark.parametrize(("function", "count"), [(in_threads, 10), (in_awaited_threads, 6)])
def test_a_tasks_own_threads_belong_to_it(
    place: Place, yard: ry.Yard, function: Any, count: int
) -> None:
    result = place.run(yard, ry.grid(function, x=range(10, 18), seed=7))
    for task, found in enumerate(result.values()):
        assert found == [found[0]] * count
        assert found[0][:2] == [task, task + 10]


def refusal(call: Any) -> str:
    """What is said when something is refused."""
    try:
        call()
    except UsageError as error:
        return error.message
    return "not refused"


def outlives(ctx: ry.Context, folder: str, x: int) -> Any:
    """The first task leaves a thread behind, which looks around while the second one runs."""
    looked, second = Path(folder, "looked"), Path(folder, "second")
    if x == 0:
        own = [ctx.task, ctx.params, ctx.seed, ctx.replicate]
        workspace = str(ctx.workspace)

        def look() -> None:
            assert eventually(second.exists)
            refused = [refusal(ry.context), refusal(lambda: ctx.workspace)]
            refused += [refusal(lambda: ctx.emit("late"))]
            ctx.log.info("too late")
            now = [ctx.task, ctx.params, ctx.seed, ctx.replicate]
            looked.with_suffix(".new").write_text(repr((now == own, refused)))
            looked.with_suffix(".new").rename(looked)

        threading.Thread(target=look, daemon=True).start()
        return workspace
    second.touch()
    assert eventually(looked.exists)
    return [str(ctx.workspace), [path.name for path in ctx.workspace.iterdir()], looked.read_text()]


def test_a_thread_that_outlives_its_task_never_sees_the_next_one(
    place: Place, yard: ry.Yard, gate: str
) -> None:
    batch = ry.grid(outlives, params={"folder": gate}, x=[0, 1], seed=7, name="b")
    first, (second, content, text) = place.run(yard, batch, deadline="90s").values()
    assert first != second
    assert content == []
    same, (context, workspace, emit) = eval(text)
    assert same
    assert context == "this thread belongs to task 0 of b, which has ended"
    assert workspace == "workspace of task 0 of b is gone: the task has ended"
    assert emit == "emit() of task 0 of b is gone: the task has ended"
    assert not [e for e in yard.events("b") if e["event"] == "TaskEmitted"]


_pool: ThreadPoolExecutor | None = None


def pooled(ctx: ry.Context, x: int) -> list[Any]:
    """A pool that the first task makes and all use."""
    global _pool
    _pool = _pool or ThreadPoolExecutor(1)
    found = [_pool.submit(refusal, seen).result(), _pool.submit(lambda: ctx.task).result()]
    if x == 2:
        _pool.shutdown()
        _pool = None
    return found


def test_threads_of_a_shared_pool_belong_to_the_task_that_started_them(
    place: Place, yard: ry.Yard
) -> None:
    first, second, third = place.run(yard, ry.grid(pooled, x=[0, 1, 2], name="b")).values()
    assert first == ["not refused", 0]
    told = "this thread belongs to task 0 of b, which has ended"
    assert (second, third) == ([told, 1], [told, 2])


def test_outside_of_tasks_there_is_no_context(place: Place, yard: ry.Yard) -> None:
    place.run(yard, ry.grid(in_threads, x=[1]))
    assert "outside a task" in refusal(ry.context)
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(refusal(ry.context)))
    thread.start()
    thread.join()
    assert "outside a task" in found[0]
