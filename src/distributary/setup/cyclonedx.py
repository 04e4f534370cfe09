"""The bill of materials: all components as CycloneDX 1.6 JSON, the same text for the same components."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from distributary import __version__
from distributary.setup.sbom import Component

SPEC = "1.6"
_OURS = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/distributary")


def document(components: Sequence[Component]) -> dict[str, Any]:
    """Lay components out as a CycloneDX document, in the order given.

    There is no time in it, and its serial number follows from its content: equal locks give equal documents.
    """
    listed = [_component(one) for one in components]
    content = json.dumps(listed, sort_keys=True)
    about = {"type": "application", "bom-ref": "distributary", "name": "distributary", "version": __version__}
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "serialNumber": f"urn:uuid:{uuid.uuid5(_OURS, f'{__version__} {content}')}",
        "version": 1,
        "metadata": {"component": about},
        "components": listed,
        "dependencies": [{"ref": "distributary", "dependsOn": [one["bom-ref"] for one in listed]}],
    }


def text(components: Sequence[Component]) -> str:
    """The document as it is written to a file."""
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
    found["evidence"] = {"occurrences": [{"location": place} for place in sorted(one.places)]}
    return found
