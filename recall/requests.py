"""What recall is asked and what it answers: frozen values, shared by the command line and every other entry.

Pure. Times are milliseconds since the epoch, scores 0 to 1.
"""

from msgspec import Struct


class RecallRequest(Struct, frozen=True, kw_only=True):
    """A question of one user; tenant and user come from the caller's right, never from the question.

    ``limit`` and ``max_hops`` ``None`` mean the settings'. ``max_age_hours`` counts from ``valid_from`` or ``stated_at``.
    """

    tenant_id: str
    user_id: str
    question: str
    limit: int | None = None
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    max_age_hours: float | None = None
    include_superseded: bool = False
    include_tentative: bool = False
    max_hops: int | None = None
    deadline_seconds: float | None = None


class Part(Struct, frozen=True, kw_only=True):
    """One arm's share in a hit: how similar it found it, and why (a sentence fragment such as ``2 hops over FOLLOWS``)."""

    arm: str
    similarity: float
    reason: str = ""


class Score(Struct, frozen=True, kw_only=True):
    """The trace of one score: ``value`` is made of the two terms by ``form``; ``parts`` are the arms that found it."""

    value: float
    form: str
    similarity: float
    importance: float
    parts: tuple[Part, ...]


class Hit(Struct, frozen=True, kw_only=True):
    """A memory that Postgres confirms at the time of the answer."""

    memory_id: str
    version: int
    status: str
    category: str
    subject: str
    attribute: str
    snippet: str
    value: str
    source: str
    confidence: float
    stated_at_ms: int
    score: Score
    tags: tuple[str, ...] = ()


class ArmReport(Struct, frozen=True, kw_only=True):
    """How one arm did: ``state`` is answered, late, failed or skipped; ``detail`` says why, in one sentence."""

    arm: str
    state: str
    found: int
    milliseconds: float
    detail: str = ""


class RecallResponse(Struct, frozen=True, kw_only=True):
    """Hits, best first; the arms; and how many candidates the truth check dropped, by reason."""

    hits: tuple[Hit, ...]
    arms: tuple[ArmReport, ...]
    dropped: dict[str, int]
    generations: dict[str, int]
    milliseconds: float

    @property
    def complete(self) -> bool:
        """Return whether no arm was late or failed."""
        return all(arm.state in ("answered", "skipped") for arm in self.arms)
