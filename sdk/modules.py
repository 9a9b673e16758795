"""The modules of `conclave.client` that are made from the document: text by path."""

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from sdk.operations import JSON, Operation, operations
from sdk.schemas import Schema, Schemas

MADE: Final = "Made from the OpenAPI document by `make client`. Change the routes, not this file."
SHARED: Final = "shared"
_PYPROJECT: Final = Path(__file__).resolve().parents[1] / "pyproject.toml"


def sources(document: Schema) -> dict[str, str]:
    """Return the text of each module by its path below `conclave/client`, formatted."""
    schemas = Schemas(document)
    found_operations = list(operations(document, schemas))
    homes = _homes(document, schemas, found_operations)
    made = _models(document, schemas, homes)
    subjects = sorted({each.subject for each in found_operations})
    for folder, is_async in (("blocking", False), ("asynchronous", True)):
        for subject in subjects:
            chosen = [each for each in found_operations if each.subject == subject]
            made[f"{folder}/{subject}.py"] = _methods(subject, chosen, homes, is_async=is_async)
        made[f"{folder}/__init__.py"] = _all_methods(folder, subjects)
    return _formatted(made)


def _class_name(subject: str) -> str:
    return "".join(part.capitalize() for part in subject.split("_")) + "Methods"


def _homes(document: Schema, schemas: Schemas, found: Iterable[Operation]) -> dict[str, str]:
    """Return the module of each schema: that of the only subject that uses it, else `shared`."""
    users: dict[str, set[str]] = defaultdict(set)
    for operation in found:
        described = document["paths"][operation.path][operation.verb.lower()]
        answers = [each for status, each in described["responses"].items() if status.startswith("2")]
        roots = [*schemas.named_in(answers)]
        if "requestBody" in described:
            body = schemas.resolved(described["requestBody"]["content"][JSON]["schema"])
            roots += schemas.named_in(body.get("properties", {}))
        for name in schemas.reachable(iter(roots)):
            users[name].add(operation.subject)
    return {name: next(iter(each)) if len(each) == 1 else SHARED for name, each in users.items()}


def _models(document: Schema, schemas: Schemas, homes: Mapping[str, str]) -> dict[str, str]:
    answered = schemas.reachable(
        name
        for methods in document["paths"].values()
        for operation in methods.values()
        for status, each in operation["responses"].items()
        if status.startswith("2")
        for name in schemas.named_in(each)
    )
    made: dict[str, str] = {}
    for module in sorted(set(homes.values())):
        names = _ordered([name for name, home in sorted(homes.items()) if home == module], schemas)
        body = "\n\n\n".join(schemas.struct(name, sent=name not in answered) for name in names)
        title = "several subjects" if module == SHARED else module.replace("_", " ")
        made[f"models/{module}.py"] = _module(f"Models of {title}.", body, homes, module)
    exported = "\n".join(f"from conclave.client.models.{home} import {name}" for name, home in sorted(homes.items()))
    listed = ", ".join(f'"{name}"' for name in sorted(homes))
    made["models/__init__.py"] = (
        f'"""Bodies and answers of the REST API. {MADE}"""\n\n{exported}\n\n__all__ = [{listed}]\n'
    )
    return made


def _ordered(names: list[str], schemas: Schemas) -> list[str]:
    """Return the names so that each follows those that it refers to."""
    done: list[str] = []

    def add(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"{name} refers to itself"
        if name in done or name not in names:
            return
        for each in schemas.members_refer_to(name):
            add(each, (*above, name))
        done.append(name)

    for name in names:
        add(name, ())
    return done


def _methods(subject: str, found: list[Operation], homes: Mapping[str, str], *, is_async: bool) -> str:
    methods = "\n\n".join(each.method(is_async=is_async) for each in found)
    base = "AsyncMethods" if is_async else "Methods"
    title = subject.replace("_", " ")
    body = f'class {_class_name(subject)}({base}):\n    """Methods about {title}."""\n\n{methods}'
    return _module(f"Methods about {title}.", body, homes, None)


def _all_methods(folder: str, subjects: list[str]) -> str:
    imports = "\n".join(f"from conclave.client.{folder}.{each} import {_class_name(each)}" for each in subjects)
    bases = ", ".join(_class_name(each) for each in subjects)
    return (
        f'"""Every method of the REST API. {MADE}"""\n\n{imports}\n\n\n'
        f'class AllMethods({bases}):\n    """Every method of the REST API."""\n'
    )


def _module(title: str, body: str, homes: Mapping[str, str], own: str | None) -> str:
    """Return a module with the imports that its body needs."""
    words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r'""".*?"""', "", body, flags=re.DOTALL)))
    places = [
        ("collections.abc", ("Mapping", "Sequence")),
        ("msgspec", ("UNSET", "UnsetType", "field")),
        ("typing", ("Literal",)),
        ("conclave.client.calls", ("Call",)),
        ("conclave.client.methods", ("AsyncMethods", "Methods")),
        ("conclave.client.pages", ("AsyncPages", "Pages")),
        ("conclave.client.structs", ("Answer", "Body")),
        *((f"conclave.client.models.{home}", (name,)) for name, home in homes.items() if home != own),
    ]
    by_module: dict[str, list[str]] = defaultdict(list)
    for module, names in places:
        by_module[module] += [name for name in names if name in words]
    imports = [f"from {module} import {', '.join(sorted(names))}" for module, names in by_module.items() if names]
    return f'"""{title} {MADE}"""\n\n' + "\n".join(imports) + f"\n\n\n{body}\n"


def _formatted(made: Mapping[str, str]) -> dict[str, str]:
    """Return the modules as `make format` leaves them."""
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "conclave" / "client"
        for name, text in made.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        ours = 'lint.isort.known-first-party = ["conclave"]'
        given = ["--quiet", "--no-cache", "--config", str(_PYPROJECT), folder]
        subprocess.run([*ruff, "check", "--select", "I", "--fix", "--config", ours, *given], check=True)
        subprocess.run([*ruff, "format", *given], check=True)
        return {name: (root / name).read_text() for name in made}
