"""The promise: the state of every store is the fold of the unique log, whatever happens on the way.

``make test`` runs a short search, ``make test-chaos`` a long one; ``ENGRAM_MODEL_EXAMPLES`` sets the number of lives, and with
``ENGRAM_MODEL_SHRINK`` a failing one is made as short as it can be.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from model_machine import Machine


def search(examples: int, steps: int) -> settings:
    return settings(
        max_examples=int(os.environ.get("ENGRAM_MODEL_EXAMPLES", examples)),
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        # Making a failing life shorter takes minutes, more than a test has; it is done when somebody asks for it.
        phases=set(Phase) - (set() if "ENGRAM_MODEL_SHRINK" in os.environ else {Phase.shrink, Phase.explain}),
        suppress_health_check=list(HealthCheck),
    )


def test_every_store_is_the_fold_of_the_unique_log() -> None:
    run_state_machine_as_test(Machine, settings=search(80, 30))


@pytest.mark.chaos
def test_every_store_is_the_fold_of_the_unique_log_in_many_long_lives() -> None:
    run_state_machine_as_test(Machine, settings=search(600, 40))
