from __future__ import annotations

import threading

from runyard.attempt.lane_status import IDLE, LaneStatus
from runyard.attempt.wire import Emission, Loss, LossCause, Report
from runyard.backends.in_process import Inbox, LaneMessage


def emission(task: int) -> Emission:
    return Emission(task, 0, 1.0, "kind", b"\x80")


def test_nothing_comes_from_an_empty_inbox() -> None:
    assert Inbox().take(0.0) == []
    assert Inbox().take(0.001) == []


def test_messages_of_a_chunk_become_one_report_in_their_order() -> None:
    inbox = Inbox()
    for number in range(3):
        inbox.put(LaneMessage(0, 7, number, emission(number)))
    inbox.put(LaneMessage(1, 8, 0, emission(9)))
    inbox.put(LaneMessage(0, 7, 3, None))
    first, second = inbox.take(0.0)
    assert isinstance(first, Report)
    assert isinstance(second, Report)
    assert (first.lane, first.chunk, first.done, first.finished) == (0, 7, 3, True)
    assert [each.task for each in first.emitted] == [0, 1, 2]
    assert (second.lane, second.chunk, second.finished) == (1, 8, False)


def test_a_chunk_has_ended_even_if_a_thread_of_its_task_still_emits() -> None:
    inbox = Inbox()
    inbox.put(LaneMessage(0, 7, 2, None))
    inbox.put(LaneMessage(0, 7, 2, emission(1)))
    (report,) = inbox.take(0.0)
    assert isinstance(report, Report)
    assert (report.done, report.finished, len(report.emitted)) == (2, True, 1)


def test_losses_come_last() -> None:
    inbox = Inbox()
    inbox.put(Loss(0, 3, 0, 1.0, 1.0, LossCause.TIMEOUT, "slow"))
    inbox.put(LaneMessage(0, 7, 1, None))
    kinds = [type(each) for each in inbox.take(0.0)]
    assert kinds == [Report, Loss]


def test_a_waiting_take_returns_when_woken() -> None:
    inbox = Inbox()
    taken: list[object] = []
    thread = threading.Thread(target=lambda: taken.append(inbox.take(60.0)))
    thread.start()
    inbox.wake()
    thread.join(30)
    assert taken == [[]]


def test_a_loss_names_the_task_that_its_lane_was_running() -> None:
    busy = Loss.of(2, LaneStatus(1, 5, 1, 9, 0.0), LossCause.TIMEOUT, "slow")
    assert (busy.lane, busy.task, busy.attempt) == (2, 5, 1)
    assert busy.seconds > 0
    idle = Loss.of(2, LaneStatus(0, IDLE, 0, 0, 0.0), LossCause.WORKER_DIED, "gone")
    assert (idle.task, idle.seconds) == (None, 0.0)
