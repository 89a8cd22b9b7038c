"""What a comparison found: frozen values, the same for the command line, rebuild and tests.

Pure. Times are seconds.
"""

import msgspec

from reconcile.diff import Difference

EXAMPLES = 20


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One difference as a person reads it: its kind, key and the versions on both sides (``None``: nothing there)."""

    kind: str
    key: str
    tenant_id: str
    user_id: str
    expected_version: int | None
    observed_version: int | None


class StoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of one store: entries checked, differences by kind, repairs asked for, and how long it took.

    ``suspects`` is what the first look found; what of it moved by itself until the second look is no drift.
    """

    store: str
    generation: int
    checked: int
    missing: int
    stale: int
    orphan: int
    suspects: int
    repair_enqueued: int
    seconds: float
    examples: tuple[Example, ...] = ()

    @property
    def differences(self) -> int:
        """Return the number of differences that count."""
        return self.missing + self.stale + self.orphan


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run; ``deep`` says whether vectors were read back."""

    deep: bool
    stores: tuple[StoreReport, ...]

    @property
    def differences(self) -> int:
        """Return the number of differences in all stores."""
        return sum(store.differences for store in self.stores)


def example_of(found: Difference) -> Example:
    """Return ``found`` as a person reads it."""
    either = found.expected or found.observed
    return Example(
        kind=found.kind,
        key="/".join(str(part) for part in found.key),
        tenant_id=either.tenant_id if either else "",
        user_id=either.user_id if either else "",
        expected_version=found.expected.fingerprint.version if found.expected else None,
        observed_version=found.observed.fingerprint.version if found.observed else None,
    )
