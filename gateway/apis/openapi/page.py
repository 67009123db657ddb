"""The OpenAPI document as a page, without scripts or content from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1a1a1a;background:#fff}"
    "code,pre{font:14px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}"
    "pre{background:#f4f4f4;padding:.75rem;overflow-x:auto}"
    "summary{cursor:pointer;padding:.3rem 0}"
    "summary b{display:inline-block;min-width:3.5rem}"
    "details{border-bottom:1px solid #ddd}"
    "dt{font-weight:600}dd{margin:0 0 .5rem 1rem}"
    "@media(prefers-color-scheme:dark){body{color:#e8e8e8;background:#161616}"
    "pre{background:#242424}details{border-color:#3a3a3a}a{color:#8ab4f8}}"
)

_CODE: Final = re.compile("`([^`]+)`")

#: No script at all, and only this style.
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-"
    f"{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def page(document: Mapping[str, Any]) -> str:
    info = document["info"]
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(info['title'])}: HTTP</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
            f'<p>{_prose(info["description"])}</p><p><a href="openapi.json">openapi.json</a></p>',
            *(part for tag in document["tags"] for part in _family(document, tag["name"])),
            f"<h2>Schemas</h2>{_forms(document['components'])}</body></html>",
        )
    )


def _prose(text: str) -> str:
    """Convert a sentence to HTML; its only Markdown is code between backquotes."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _family(document: Mapping[str, Any], tag: str) -> Iterator[str]:
    yield f"<h2>{escape(tag)}</h2>"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield _operation(path, method, operation)


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    parts = [f"<p>{_prose(operation['summary'])}</p><dl>"]
    asks = " or a ".join(name for each in operation["security"] for name in each)
    parts.append(f"<dt>Authentication</dt><dd>{f'a {escape(asks)}' if asks else 'none'}</dd>")
    for each in operation.get("parameters", ()):
        allowed = ", ".join(each["schema"].get("enum", ()))
        words = _prose(each.get("description", allowed))
        parts.append(f"<dt><code>{escape(each['name'])}</code></dt><dd>{words} ({each['in']})</dd>")
    body = operation.get("requestBody", {}).get("content", {})
    parts += [f"<dt>Request</dt><dd>{_content(body)}</dd>"] if body else []
    for sample in operation.get("x-codeSamples", ()):
        parts.append(f"<dt>Example</dt><dd><pre>{escape(sample['source'])}</pre></dd>")
    for status, answer in operation["responses"].items():
        shown = _content(answer.get("content", {})) or _prose(answer.get("description", ""))
        if "$ref" in answer:
            status, shown = "Errors", _reference(answer["$ref"])
        parts.append(f"<dt>{escape(status)}</dt><dd>{shown}</dd>")
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><b>{method.upper()}</b> '
        f"<code>{escape(path)}</code></summary>{''.join(parts)}</dl></details>"
    )


def _content(content: Mapping[str, Any]) -> str:
    return "<br>".join(
        f"<code>{escape(kind)}</code> {_schema(each.get('schema', {}))}"
        for kind, each in content.items()
    )


def _schema(schema: Mapping[str, Any]) -> str:
    if "oneOf" in schema:
        return " or ".join(map(_schema, schema["oneOf"]))
    return _reference(schema["$ref"]) if "$ref" in schema else ""


def _reference(to: str) -> str:
    name = escape(to.rpartition("/")[2])
    return f'<a href="#{name}">{name}</a>'


def _forms(components: Mapping[str, Any]) -> str:
    found = {**components["schemas"], **components["responses"]}
    return "".join(_form(name, each) for name, each in found.items())


def _form(name: str, form: Mapping[str, Any]) -> str:
    members = {member: each for member, each in form.items() if member != "description"}
    return (
        f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{_prose(form.get("description", ""))}</p>'
        f"<pre>{escape(json.dumps(members, indent=2, ensure_ascii=False))}</pre>"
    )
