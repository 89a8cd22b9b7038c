"""Decide: what one proposal does to one user's memory. The only maker of changes.

Called by ``remember`` with the loaded state, and by tests. Pure: "now" is the proposal's own time, ids are derived, and the
same state, proposal and policy always give the same changes. The halves are ``decision_candidates`` (facts from inputs) and
``decision_commands`` (what people ask); the tables stand in ``decision_rules``.
"""

from schemas.candidates import Extraction
from schemas.memories import MemoryVectors
from schemas.proposals import Command
from streams.changes import Change, DecodedProposal
from streams.decision_candidates import decide_extraction
from streams.decision_commands import Refused, decide_command, decide_vectors
from streams.decision_draft import Draft
from streams.decision_policy import DecisionPolicy
from streams.decision_state import UserState


def decide(state: UserState, proposal: DecodedProposal, policy: DecisionPolicy) -> tuple[Change, ...]:
    """Return the changes of ``proposal`` in the order they are written; the last one is always its outcome.

    A command that does not fit the state changes nothing and its outcome is ``refused`` with the reason. Raises nothing for
    what a proposal says; what cannot be stored is counted as refused.
    """
    draft = Draft(state, proposal, policy)
    try:
        match proposal.body:
            case Extraction():
                decide_extraction(draft, proposal.body)
            case Command():
                decide_command(draft, proposal.body)
            case MemoryVectors():
                decide_vectors(draft, proposal.body)
            case None:
                pass
    except Refused as refusal:
        return (Draft(state, proposal, policy).outcome("refused", str(refusal), ()),)
    changes = draft.changes()
    reason = ", ".join(f"{name} {count}" for name, count in sorted(draft.refused.items()))
    return (*changes, draft.outcome("accepted" if changes else "nothing", reason, changes))
