from pathlib import Path

import pytest

from distributary.errors import JarFetchFailed, SetupError
from distributary.setup import lockfile, update_lockfile
from distributary.setup.update_lockfile import Root


def fake_fetch(root: Root, into: Path) -> None:
    """Gives the root itself, and one jar it depends on when transitive."""
    organisation, module, revision = root.coordinate.split(":")
    names = [(module, revision)] + ([("dep", "3")] if root.transitive else [])
    for name, version in names:
        folder = into / organisation / name / version
        folder.mkdir(parents=True)
        (folder / f"{name}-{version}.jar").write_bytes(name.encode())


def test_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "jars.lock"
    reports: list[str] = []
    update_lockfile.update_lock(
        path, roots={"s": [Root("o:m:1", transitive=True)]}, fetch=fake_fetch, report=reports.append
    )
    jars = lockfile.read(path)["s"].jars
    assert [(jar.coordinate, jar.file, jar.size) for jar in jars] == [
        ("o:dep:3", "dep-3.jar", 3),
        ("o:m:1", "m-1.jar", 1),
    ]
    assert reports == ["s: resolving o:m:1", "s: 2 jars, 0.0 MB"]


def test_two_revisions_of_a_module_are_refused_and_the_lock_is_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "jars.lock"
    path.write_text("as it was")
    with pytest.raises(JarFetchFailed, match="two revisions of o:m"):
        update_lockfile.update_lock(
            path, roots={"s": [Root("o:m:1"), Root("o:m:2")]}, fetch=fake_fetch, report=lambda line: None
        )
    assert path.read_text() == "as it was"


def test_digest_follows_the_content(tmp_path: Path) -> None:
    one = lockfile.JarSet("s", (lockfile.Jar("o:m:1", "m-1.jar", 1, "ab"),))
    two = lockfile.JarSet("s", (lockfile.Jar("o:m:1", "m-1.jar", 1, "cd"),))
    assert one.digest != two.digest


@pytest.mark.parametrize("text", ["not toml [", '[[kafka]]\nfile = "x"\n', "kafka = 1\n"])
def test_malformed_lock_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "jars.lock").write_text(text)
    with pytest.raises(SetupError, match=r"jars\.lock cannot be read"):
        lockfile.read(tmp_path / "jars.lock")


def test_real_lock_contains_every_root() -> None:
    sets = lockfile.read()
    for name, roots in update_lockfile.ROOTS.items():
        coordinates = {jar.coordinate for jar in sets[name].jars}
        assert {root.coordinate for root in roots} <= coordinates
        assert len({jar.file for jar in sets[name].jars}) == len(sets[name].jars)
