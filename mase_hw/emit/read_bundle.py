"""Opens a bundle: every file must be what its manifest says, and the manifest must not contradict itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mase_hw.emit.bundle import FORMAT_VERSION, MANIFEST, digest, own_digest
from mase_hw.emit.checks.contradictions import contradicted, contradictions, named_files
from mase_hw.errors import EmitError
from mase_hw.hardware.manifest import Manifest, typed
from mase_hw.host.documents import Json, parse_json

_AGAIN = "emit the bundle again; do not edit generated files"
_FIELDS = {"generator", "top", "ports", "timing", "memories", "rtl", "edges", "files", "digest"}


def read_manifest(folder: Path, *, verify: bool = True) -> Json:
    """Read a bundle's manifest and check every file against it.

    Args:
        folder: The bundle.
        verify: Compare contents too, not only presence, and the manifest with its own hash and with itself.

    Raises:
        EmitError: If the folder is not a bundle of a known format version, or the manifest or a file is missing or was
            changed since emission, or the manifest names a file of which it has no hash, or what it says cannot be.
    """
    path = Path(folder) / MANIFEST
    try:
        manifest: Json = parse_json(path.read_text())
    except (OSError, ValueError) as error:
        raise EmitError(
            "this is not a bundle", node=str(folder), got=str(error), expected=f"a folder with {MANIFEST}"
        ) from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files", {}), dict):
        raise EmitError("this is not a bundle's manifest", node=str(path), expected="an object with files")
    if manifest.get("format_version") != FORMAT_VERSION:
        raise EmitError(
            "the bundle has another format version",
            node=str(path),
            got=manifest.get("format_version"),
            expected=FORMAT_VERSION,
            remedy="emit it again with this version of mase_hw",
        )
    missing = _FIELDS - manifest.keys()
    if missing:
        raise EmitError(
            "the manifest is incomplete",
            node=str(path),
            got=f"no {', '.join(sorted(missing))}",
            remedy="emit the bundle again with this version of mase_hw",
        )
    read = _checked(path, manifest) if verify else None
    gone = [name for name in manifest["files"] if not (Path(folder) / name).is_file()]
    changed = [name for name in changed_files(folder, manifest["files"]) if name not in gone] if verify else []
    if gone or changed:
        raise _refused(Path(folder), manifest["files"], changed, gone)
    if read is not None and (found := contradicted(read, Path(folder))):
        raise _contradictory(path, found, "the hardware of the bundle, as its top level and its memory files are")
    return manifest


def changed_files(folder: Path, files: Mapping[str, str]) -> list[str]:
    """The files whose content is not what the manifest says, or that cannot be read, in the order of the manifest."""
    return [name for name, expected in files.items() if _hash(Path(folder) / name) != expected]


def read_file(folder: Path, files: Mapping[str, str], name: str) -> bytes:
    """Content of one file, which is surely what the manifest says: the bytes that are returned were hashed.

    Args:
        folder: The bundle.
        files: The hashes of its manifest.
        name: The file.

    Raises:
        EmitError: If the file is missing or was changed since emission.
    """
    try:
        content = (Path(folder) / name).read_bytes()
    except OSError as error:
        raise _refused(Path(folder), files, [], [name]) from error
    if digest(content) != files.get(name):
        raise _refused(Path(folder), files, [name], [])
    return content


def _hash(path: Path) -> str | None:
    try:
        return digest(path.read_bytes())
    except OSError:
        return None


def _refused(folder: Path, files: Mapping[str, str], changed: list[str], gone: list[str]) -> EmitError:
    """The error that names every file that is not what was emitted."""
    if len(changed) + len(gone) > 1:
        lists = (("changed", changed), ("missing", gone))
        return EmitError(
            f"{len(changed) + len(gone)} files of the bundle are missing or were changed after emission",
            node=str(folder),
            got="; ".join(f"{what}: {', '.join(names)}" for what, names in lists if names),
            expected="the files of which the manifest has the hashes",
            remedy=_AGAIN,
        )
    if gone:
        return EmitError("a file of the bundle is missing", node=str(folder / gone[0]), remedy="emit the bundle again")
    (name,) = changed
    return EmitError(
        "a file of the bundle was changed after emission",
        node=str(folder / name),
        got=f"sha256 {str(_hash(folder / name))[:16]}...",
        expected=f"sha256 {str(files.get(name))[:16]}...",
        remedy=_AGAIN,
    )


def _checked(path: Path, manifest: Json) -> Manifest:
    """The records of a manifest that was not edited, has a hash of every file, and says nothing that cannot be."""
    if manifest["digest"] != (got := own_digest(manifest)):
        said = f"sha256 {str(manifest['digest'])[:16]}..."
        raise _wrong(path, "was changed after emission", f"sha256 {got[:16]}...", said)
    read = typed(manifest, str(path))
    loose = sorted(named_files(read) - read.files.keys())
    if loose:
        got = f"no hash of {len(loose)} files: {', '.join(loose[:3])}"
        raise _wrong(path, "names files that it has no hash of", got, "a hash of every file it names", "files")
    fill, last = read.timing.fill, read.timing.last
    if last < max(fill, 0):
        expected = "the last beat of a frame not before its first"
        raise _wrong(path, "has a timing that no design can have", f"fill {fill}, last {last}", expected, "timing")
    if found := contradictions(read):
        raise _contradictory(path, found, "lanes, bits, shapes, ports, frames, files and cycles that fit each other")
    return read


def _contradictory(path: Path, found: list[str], expected: str) -> EmitError:
    return _wrong(path, "contradicts itself", "".join(f"\n    {problem}" for problem in found), expected)


def _wrong(path: Path, what: str, got: str, expected: str, field: str | None = None) -> EmitError:
    message = f"the manifest {what}"
    return EmitError(message, node=str(path), field=field, got=got, expected=expected, remedy=_AGAIN)
