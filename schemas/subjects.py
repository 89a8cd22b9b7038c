"""The list of subjects: every record class that has a schema of its own."""

import msgspec

from schemas.candidates import Extraction, MemoryAdmitted, MemoryExtracted
from schemas.dead import DeadLetter
from schemas.inputs import AttachmentDescribed, InputEnvelope, RecordReceived, StepRecorded, TurnRecorded
from schemas.memories import (
    Memory,
    MemoryChanged,
    MemoryUpdated,
    MemoryVectors,
    PendingEntry,
    QuarantineEntry,
    ReviewEntry,
)
from schemas.proposals import Command, Proposal
from schemas.working import WorkingEvent, WorkingPayload

SUBJECTS: tuple[type[msgspec.Struct], ...] = (
    InputEnvelope,
    TurnRecorded,
    StepRecorded,
    RecordReceived,
    AttachmentDescribed,
    MemoryExtracted,
    MemoryAdmitted,
    Extraction,
    Proposal,
    Command,
    MemoryChanged,
    Memory,
    MemoryVectors,
    PendingEntry,
    QuarantineEntry,
    ReviewEntry,
    MemoryUpdated,
    WorkingEvent,
    WorkingPayload,
    DeadLetter,
)
