"""The page of a document: what it says is text, whatever it has."""

from __future__ import annotations

import base64
import hashlib
import re

from partway.gateway.apis.openapi.page import POLICY, page

EVIL = "<script>alert(1)</script>\"'&"


def test_what_a_document_says_is_no_markup():
    made = {
        "info": {"title": EVIL, "version": EVIL, "description": EVIL},
        "tags": [{"name": EVIL}],
        "paths": {
            EVIL: {
                "get": {
                    "operationId": EVIL,
                    "summary": EVIL,
                    "tags": [EVIL],
                    "security": [{EVIL: []}],
                    "parameters": [
                        {"name": EVIL, "in": "header", "description": EVIL, "schema": {}},
                        {"name": EVIL, "in": "header", "schema": {"enum": [EVIL]}},
                    ],
                    "responses": {
                        "200": {"description": EVIL, "content": {EVIL: {}}},
                        "default": {"$ref": f"#/{EVIL}"},
                    },
                }
            }
        },
        "components": {"schemas": {EVIL: {"description": EVIL}}, "responses": {}},
    }
    said = page(made)
    assert "<script" not in said
    assert said.count("&lt;script&gt;") > 10


def test_the_policy_names_the_one_style():
    made = {"info": dict.fromkeys(("title", "version", "description"), ""), "tags": []}
    said = page({**made, "paths": {}, "components": {"schemas": {}, "responses": {}}})
    (style,) = re.findall("<style>(.*?)</style>", said)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}';" in POLICY
