"""What the server offers, as OpenAPI and as one page that fetches nothing from elsewhere."""

from __future__ import annotations

import html
import json
from typing import Any

from poisonproof import __version__
from poisonproof.runs.answers import SavedRun
from poisonproof.samples.schema import ArraySchema, ImageSchema, SparseSchema, TableSchema
from poisonproof.serving.bodies import CSV, JSON, SVMLIGHT, BodyReader

ANSWER = {
    "sample": {"description": "Index of a JSON row, line of a CSV body, 0 for an image."},
    "prediction": {"description": "The most voted label; null where its radius is below min_radius."},
    "radius": {
        "type": ["integer", "null"],
        "description": "So many poisoned samples cannot change the prediction.",
    },
    "runner_up": {"description": "The label that sets the radius."},
    "vote_share": {
        "type": ["number", "null"],
        "description": "Share of the voters that are for the prediction.",
    },
    "target_radius": {"type": ["integer", "null"], "description": "With target: so many poisons cannot make it that."},
    "certified": {"type": ["boolean", "null"], "description": "With attack_size: whether the radius is that or more."},
    "reason": {"type": ["string", "null"], "description": "Why the row cannot be read; then its answer is null."},
}
PARAMETERS = {
    "attack_size": ("integer", "Also say whether each answer is certified against so many poisons."),
    "min_radius": ("integer", "Give no answer (null) where the radius is smaller."),
    "target": ("string", "Also say how many poisons it takes until the answer could become this class."),
}


def example_row(reader: BodyReader) -> Any:
    """A row as JSON would have it."""
    schema = reader.schema
    if isinstance(schema, TableSchema):
        roles = dict(schema.columns)
        return {name: 1.5 if roles[name] == "number" else "text" for name in reader.columns}
    if isinstance(schema, SparseSchema):
        return {"0": 1.5}
    if isinstance(schema, ArraySchema):
        row: Any = 0 if schema.dtype == "uint8" else 0.5
        for length in reversed(schema.shape):
            row = [row] * length
        return row
    return "(an image file in base64)"


def description(kept: SavedRun, reader: BodyReader) -> dict[str, Any]:
    """The OpenAPI document."""
    schema = kept.schema
    images = "image of any size, which is resized" if isinstance(schema, ImageSchema) else "rows"
    contents: dict[str, Any] = {}
    for kind in reader.types:
        if kind == JSON:
            rows = {"type": "array", "items": {}, "maxItems": reader.most_rows}
            body = {"type": "object", "required": ["rows"], "properties": {"rows": rows}}
            contents[kind] = {"schema": body, "example": {"rows": [example_row(reader)]}}
        elif kind in (CSV, SVMLIGHT):
            words = "A header and rows." if kind == CSV else "Lines of svmlight."
            contents[kind] = {"schema": {"type": "string", "description": words}}
        else:
            contents[kind] = {"schema": {"type": "string", "format": "binary"}}
    answers = {"type": "array", "items": {"type": "object", "properties": ANSWER}}
    good = {
        "type": "object",
        "properties": {
            "answers": answers,
            "unit": {"type": "string", "description": "What radii count."},
            "notes": {"type": "array", "items": {"type": "string"}},
        },
    }
    error = {"type": "object", "properties": {"error": {"type": "string"}}}
    refusals = {
        "400": "Not JSON, or not HTTP.",
        "408": "The request came too slowly.",
        "413": "Too large, or too many rows.",
        "415": "Of a type that this run does not read.",
        "422": "Rows that cannot be read.",
        "503": "Too much waits; try again.",
    }
    predict = {
        "summary": f"Prediction, radius and runner-up for {images}",
        "description": f"Read as: {schema}. Radii count {kept.unit} and hold under the premises at /premises.",
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": kind}, "description": words}
            for name, (kind, words) in PARAMETERS.items()
        ],
        "requestBody": {"required": True, "content": contents},
        "responses": {
            "200": {"description": "One answer for each row.", "content": {JSON: {"schema": good}}},
            **{
                status: {"description": words, "content": {JSON: {"schema": error}}}
                for status, words in refusals.items()
            },
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"poisonproof: {kept.manifest.settings.name}",
            "version": __version__,
            "description": "Predictions with a proof: how many poisoned training samples cannot change each of them.",
        },
        "paths": {
            "/predict": {"post": predict},
            "/premises": {"get": _get("What every radius takes as given, and the attack that it is about.")},
            "/schema": {"get": _get("How rows are read: the run's schema.json, and the classes.")},
            "/health": {"get": _get("200 while the server answers, 503 while it ends.")},
            "/metrics": {"get": _get("Counts for Prometheus.", "text/plain")},
            "/openapi.json": {"get": _get("This document.")},
        },
    }


def _get(words: str, kind: str = JSON) -> dict[str, Any]:
    return {"summary": words, "responses": {"200": {"description": words, "content": {kind: {}}}}}


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }}
code, pre, textarea {{ font-family: ui-monospace, monospace; font-size: 0.9em; }}
pre, textarea {{ width: 100%; box-sizing: border-box; overflow: auto; padding: 0.6rem; border: 1px solid #8886; }}
textarea {{ height: 9rem; }}
</style>
<h1>{title}</h1>
<p>{words}</p>
<h2>Try</h2>
<textarea id="body" aria-label="Body of the request">{example}</textarea>
<p><button id="ask">POST /predict</button></p>
<pre id="answer" aria-live="polite"></pre>
<h2>What there is</h2>
<dl>{paths}</dl>
<h2>Premises</h2>
<p>A radius is worth what these are worth.</p>
<ul>{premises}</ul>
<script>
document.getElementById("ask").onclick = async () => {{
  const body = document.getElementById("body").value;
  const answer = await fetch("/predict", {{method: "POST", headers: {{"content-type": "application/json"}}, body}});
  document.getElementById("answer").textContent = await answer.text();
}};
</script>
"""


def page(kept: SavedRun, reader: BodyReader) -> str:
    """The same for people."""
    document = description(kept, reader)
    predict = document["paths"]["/predict"]["post"]
    lines = []
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            lines.append(f"<dt><code>{method.upper()} {path}</code></dt><dd>{html.escape(one['summary'])}</dd>")
    for name, (kind, words) in PARAMETERS.items():
        lines.append(f"<dt><code>?{name}=</code> ({kind})</dt><dd>{html.escape(words)}</dd>")
    return PAGE.format(
        title=html.escape(document["info"]["title"]),
        words=html.escape(
            f"{document['info']['description']} {predict['description']} Bodies: {', '.join(reader.types)}."
        ),
        example=html.escape(json.dumps({"rows": [example_row(reader)]})),
        paths="\n".join(lines),
        premises="\n".join(f"<li>{html.escape(premise)}</li>" for premise in kept.premises),
    )
