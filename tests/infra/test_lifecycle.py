from infra.lifecycle import GiveUp, Policy, StartAgain, after_exit, is_hung

POLICY = Policy()


def test_delays_double_up_to_the_limit() -> None:
    delays, failures = [], 0
    for _ in range(9):
        verdict = after_exit(POLICY, 1, failures, ran_seconds=1.0)
        assert isinstance(verdict, StartAgain)
        failures = verdict.failures
        delays.append(verdict.delay_seconds)
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_many_failures_do_not_overflow_the_delay() -> None:
    assert after_exit(POLICY, -9, 100_000, ran_seconds=1.0) == StartAgain(30.0, 100_001)


def test_a_healthy_minute_forgets_failures() -> None:
    assert after_exit(POLICY, 1, 6, ran_seconds=60.0) == StartAgain(0.5, 1)
    assert after_exit(POLICY, 1, 6, ran_seconds=59.9) == StartAgain(30.0, 7)


def test_a_clean_exit_of_a_process_that_should_run_is_a_failure_too() -> None:
    assert after_exit(POLICY, 0, 0, ran_seconds=1.0) == StartAgain(0.5, 1)


def test_a_wrong_setting_is_not_tried_again() -> None:
    assert after_exit(POLICY, 78, 0, ran_seconds=1000.0) == GiveUp()


def test_silence_counts_only_after_the_first_heartbeat() -> None:
    assert not is_hung(POLICY, ran_seconds=100.0, silent_seconds=None)
    assert is_hung(POLICY, ran_seconds=120.1, silent_seconds=None)
    assert not is_hung(POLICY, ran_seconds=1000.0, silent_seconds=30.0)
    assert is_hung(POLICY, ran_seconds=1000.0, silent_seconds=30.1)
