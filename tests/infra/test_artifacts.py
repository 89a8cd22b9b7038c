import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.artifacts import Artifact, Report, end_builds, keep_listed, obtain, run_step
from schemas.errors import Broken


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "engram"


class Counted:
    """A recipe that counts how often it is built and can be held in the middle."""

    def __init__(self, recipe: str = "one") -> None:
        self.built = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.begun = threading.Event()
        self.artifact = Artifact("thing", "1.0", recipe, (), self.build)

    def build(self, target: Path, log: Path, report: Report) -> None:
        self.built += 1
        self.begun.set()
        assert self.go_on.wait(30)
        (target / "program").write_text("works")


def ignore(text: str) -> None:
    assert text


def test_a_thing_is_built_once_and_found_again(cache: Path) -> None:
    counted = Counted()
    first = obtain(counted.artifact, ignore)
    assert obtain(counted.artifact, ignore) == first
    assert (first / "program").read_text() == "works"
    assert counted.built == 1
    assert first.parent == cache


def test_a_changed_recipe_is_another_entry() -> None:
    assert Counted("one").artifact.directory != Counted("two").artifact.directory


def test_a_damaged_entry_is_built_again() -> None:
    counted = Counted()
    directory = obtain(counted.artifact, ignore)
    (directory / "program").write_text("wrong")
    assert (obtain(counted.artifact, ignore) / "program").read_text() == "works"
    assert counted.built == 2


def test_two_at_once_build_one_time(cache: Path) -> None:
    counted = Counted()
    counted.go_on.clear()
    told: list[str] = []
    waiting = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        waiting.set()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(obtain, counted.artifact, ignore)
        assert counted.begun.wait(30)
        second = pool.submit(obtain, counted.artifact, tell)
        assert waiting.wait(30)
        assert not counted.artifact.directory.exists()
        counted.go_on.set()
        assert first.result(30) == second.result(30)
    assert counted.built == 1
    assert told == ["waiting: another stack fetches or builds"]


def test_a_failed_build_leaves_no_entry_and_shows_the_end_of_its_log(cache: Path, tmp_path: Path) -> None:
    def build(target: Path, log: Path, report: Report) -> None:
        (target / "half").write_text("")
        run_step(["sh", "-c", "echo no route to the registry; exit 4"], log)

    artifact = Artifact("thing", "2.0", "recipe", (), build)
    with pytest.raises(Broken, match="no route to the registry"):
        obtain(artifact, ignore)
    assert not artifact.directory.exists()
    assert not [path for path in cache.iterdir() if path.is_dir()]


def test_a_running_build_can_be_ended(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_step, ["sh", "-c", "echo begun; sleep 600"], log)
        while not (log.exists() and "begun" in log.read_text()):
            assert not running.done()
        end_builds()
        with pytest.raises(Broken, match="failed"):
            running.result(30)


def test_jars_are_held_against_their_checksums(tmp_path: Path) -> None:
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    (tmp_path / "good.jar").write_bytes(b"test")
    (tmp_path / "unknown.jar").write_bytes(b"")
    keep_listed(tmp_path, f"{digest}  good.jar\n")
    assert [path.name for path in tmp_path.iterdir()] == ["good.jar"]
    (tmp_path / "good.jar").write_bytes(b"tampered")
    with pytest.raises(Broken, match=r"checksum of good\.jar"):
        keep_listed(tmp_path, f"{digest}  good.jar\n")
    with pytest.raises(Broken, match=r"did not deliver other\.jar"):
        keep_listed(tmp_path, f"{digest}  other.jar\n")
