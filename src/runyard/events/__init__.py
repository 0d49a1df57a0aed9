"""Events of a running batch, the bus that delivers them, and the audit log that records them."""

from __future__ import annotations

from runyard.events.audit import AuditLog, AuditReport, read, repair, verify
from runyard.events.bus import EventBus, Subscription
from runyard.events.plain import json_safe
from runyard.events.redact import REDACTED, Redactor
from runyard.events.types import (
    BatchFinished,
    BatchStarted,
    BatchStopped,
    CodeChanged,
    Event,
    Notice,
    Progress,
    ResultsRefused,
    RunDescribed,
    TaskEmitted,
    TaskEvent,
    TaskFailed,
    TaskRetried,
    TaskWithdrawn,
    WorkerLost,
    to_record,
)

__all__ = [  # noqa: RUF022  grouped: events, the bus, the audit log, secrets
    "Event", "BatchStarted", "RunDescribed", "BatchFinished", "BatchStopped", "TaskEvent",
    "TaskEmitted", "TaskRetried", "TaskFailed", "TaskWithdrawn", "WorkerLost", "ResultsRefused",
    "CodeChanged", "Notice", "Progress", "to_record",
    "EventBus", "Subscription",
    "AuditLog", "AuditReport", "read", "verify", "repair",
    "Redactor", "REDACTED", "json_safe",
]  # fmt: skip
