"""The bill of materials: locked Python packages, locked jars and the jars inside wheels, as CycloneDX JSON.

Each component has a package URL (purl), by which advisories name it.
"""

from __future__ import annotations

import functools
import json
import re
import tomllib
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

from distributary import __version__
from distributary.errors import SetupError
from distributary.setup import lockfile

_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_FILES = (
    re.compile(r"(?P<name>.+?)-(?P<version>[0-9][^/]*)\.jar"),
    re.compile(r"(?P<name>.+?)(?P<version>[0-9]+(?:\.[0-9]+)+)\.jar"),
)
_POM = re.compile(r"META-INF/maven/([^/]+)/([^/]+)/pom\.properties")

CYCLONEDX_VERSION = "1.6"
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/distributary")
GROUPS = Path(__file__).with_name("maven-groups.toml")
_SCALA = re.compile(r"_(2\.1[0-9](\.[0-9]+)?|3)$")


@functools.cache
def known_groups() -> dict[str, str]:
    """The Maven groups of jars that do not contain theirs, by the name of the artifact."""
    listed = tomllib.loads(GROUPS.read_text(encoding="utf-8"))
    return {name: group for group, names in listed.items() for name in names}


@dataclass(frozen=True, slots=True)
class Component:
    """One package or jar of one version. ``locations`` are the files that contain it, in ``wheels``.

    ``group`` is the Maven group of a jar; with None it is unknown, and its advisories cannot be looked up.
    """

    kind: str
    group: str | None
    name: str
    version: str
    hashes: frozenset[str] = frozenset()
    locations: frozenset[str] = frozenset()
    wheels: frozenset[str] = frozenset()

    @property
    def purl(self) -> str:
        """The package URL; '' where the coordinates are unknown."""
        version = quote(self.version, safe="")
        if self.kind == "pypi":
            return f"pkg:pypi/{self.name.lower().replace('_', '-')}@{version}"
        return (
            f"pkg:maven/{quote(self.group, safe='.')}/{quote(self.name, safe='')}@{version}"
            if self.group
            else ""
        )

    @property
    def title(self) -> str:
        """The name for people."""
        return f"{self.group}:{self.name}" if self.group else self.name


def of_requirements(file: Path) -> Iterator[Component]:
    """Read the locked Python packages; raises SetupError for a file without any."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(
            f"cannot read the lock {file}: {getattr(error, 'strerror', None) or error}",
            hint="Run this in Distributary's source folder, or name the file with --requirements",
        ) from None
    found = 0
    for block in text.replace("\\\n", " ").splitlines():
        pinned = _PINNED.match(block)
        if pinned is None:
            continue
        found += 1
        hashes = frozenset(_HASH.findall(block))
        yield Component(
            kind="pypi",
            group=None,
            name=pinned[1],
            version=pinned[2],
            hashes=hashes,
            locations=frozenset((file.name,)),
        )
    if not found:
        raise SetupError(f"the lock {file} contains no package", hint="Create it again: make lock")


def of_jars(lock: Path = lockfile.LOCK) -> Iterator[Component]:
    """Read the locked jars."""
    for jars in lockfile.read(lock).values():
        for jar in jars.jars:
            group, name, version = jar.coordinate.split(":")
            location = frozenset((f"{lock.name}: {jars.name}",))
            yield Component(
                kind="maven",
                group=group,
                name=name,
                version=version,
                hashes=frozenset((jar.sha256,)),
                locations=location,
            )


def of_wheels(installed: Iterable[Distribution] | None = None) -> Iterator[Component]:
    """Find the jars in every installed wheel, and what was shaded into them."""
    for wheel in distributions() if installed is None else installed:
        for file in wheel.files or ():
            if file.name.endswith(".jar"):
                label = f"{wheel.metadata['Name']} {wheel.version}"
                location = f"{wheel.metadata['Name']}-{wheel.version}: {file}"
                yield from of_jar(Path(str(wheel.locate_file(file))), location, label)


def of_jar(file: Path, location: str, wheel: str) -> Iterator[Component]:
    """Identify a jar and what was shaded into it; the jar itself comes first."""
    try:
        with zipfile.ZipFile(file) as archive:
            poms = [one for name in archive.namelist() if (one := _POM.fullmatch(name))]
            found = [(pom[1], pom[2], _version(archive.read(pom[0]))) for pom in poms]
    except (OSError, zipfile.BadZipFile) as error:
        raise SetupError(
            f"cannot read the jar {file}: {error}", hint="Remove the virtualenv and run: make setup"
        ) from None
    coordinates = sorted({(group, name, version) for group, name, version in found if version})
    own = [one for one in coordinates if file.name.startswith(f"{one[1]}-{one[2]}")]
    itself = max(own, key=lambda one: len(one[1]), default=None) or _by_file(file.name, coordinates)
    group, name, version = itself
    in_wheel = frozenset((wheel,))
    hashes = frozenset((lockfile.sha256_of(file),))
    yield Component(
        kind="maven",
        group=group,
        name=name,
        version=version,
        hashes=hashes,
        locations=frozenset((location,)),
        wheels=in_wheel,
    )
    for group, name, version in coordinates:
        if (group, name, version) != itself:
            yield Component(
                kind="maven",
                group=group,
                name=name,
                version=version,
                hashes=frozenset(),
                locations=frozenset((f"{location} (shaded)",)),
                wheels=in_wheel,
            )


def merged(components: Iterable[Component]) -> list[Component]:
    """Merge components that are in several locations; sorted."""
    found: dict[tuple[str, str, str, str], Component] = {}
    for one in components:
        key = (one.kind, one.group or "", one.name, one.version)
        known = found.get(key, one)
        found[key] = replace(
            known,
            hashes=known.hashes | one.hashes,
            locations=known.locations | one.locations,
            wheels=known.wheels | one.wheels,
        )
    return [found[key] for key in sorted(found)]


def _by_file(name: str, coordinates: list[tuple[str, str, str]]) -> tuple[str | None, str, str]:
    """Identify a jar by its file name; its group is that of the coordinates in it, or of the table."""
    match = next(filter(None, (pattern.fullmatch(name) for pattern in _FILES)), None)
    artifact, version = (match["name"], match["version"]) if match else (name.removesuffix(".jar"), "0")
    for group, name_in_pom, _ in coordinates:
        if name_in_pom == artifact:
            return group, artifact, version
    return known_groups().get(_SCALA.sub("", artifact)), artifact, version


def _version(text: bytes) -> str:
    for line in text.decode("utf-8", "replace").splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip() == "version":
            return value.strip()
    return ""


def document(components: Sequence[Component]) -> dict[str, Any]:
    """The components as a CycloneDX document, in the order given.

    It contains no time, and its serial number follows from its content: equal locks give equal documents.
    """
    listed = [_component(one) for one in components]
    content = json.dumps(listed, sort_keys=True)
    about = {"type": "application", "bom-ref": "distributary", "name": "distributary", "version": __version__}
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{CYCLONEDX_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": CYCLONEDX_VERSION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, f'{__version__} {content}')}",
        "version": 1,
        "metadata": {"component": about},
        "components": listed,
        "dependencies": [{"ref": "distributary", "dependsOn": [one["bom-ref"] for one in listed]}],
    }


def to_json(components: Sequence[Component]) -> str:
    """The document as the text of a file."""
    return json.dumps(document(components), indent=2) + "\n"


def _component(one: Component) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": one.purl or f"unknown/{one.name}@{one.version}",
    }
    if one.group:
        found["group"] = one.group
    found |= {"name": one.name, "version": one.version}
    if one.hashes:
        found["hashes"] = [{"alg": "SHA-256", "content": hash} for hash in sorted(one.hashes)]
    if one.purl:
        found["purl"] = one.purl
    if one.wheels:
        found["properties"] = [{"name": "distributary:wheel", "value": wheel} for wheel in sorted(one.wheels)]
    found["evidence"] = {"occurrences": [{"location": location} for location in sorted(one.locations)]}
    return found
