"""An agent queues programs, a worker runs them in the background, another host reads the results.

The first host has ended by then: the queue and its results are in the yard.
"""

import asyncio
import tempfile

from runyard.doors.agent import BatchExecutor

PROGRAM = "print(sum(n * n for n in range({top})))"


async def first_host(yard: str) -> None:
    executor = BatchExecutor(yard)
    tasks = [
        {
            "name": f"squares below {top}",
            "function": "code_execution",
            "params": {"code": PROGRAM.format(top=top)},
            "priority": "HIGH" if top == 1000 else "low",
        }
        for top in (10, 100, 1000)
    ]
    print((await executor.execute("add_batch", tasks=tasks)).message)
    print((await executor.execute("start", max_concurrent="2")).data["backend"])
    executor.close()


async def second_host(yard: str) -> None:
    executor = BatchExecutor(yard)
    await executor.wait()
    for task in (await executor.execute("results", format="json")).data["results"]:
        print(f"{task['name']}: {task['result']['stdout'].strip()}")
    await executor.execute("stop", graceful=False)
    executor.close()


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(first_host(folder))
    asyncio.run(second_host(folder))
