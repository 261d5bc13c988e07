"""The JSON schema of `swoop compile --json` describes what the program prints, field for field."""

import copy
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed (it comes with executorch's dependencies)")

ROOT = pathlib.Path(__file__).resolve().parent.parent
SWOOP = pathlib.Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop"
MODELS = ROOT / "test" / "models"
SCHEMA = json.loads((ROOT / "docs" / "schema" / "compile-1.json").read_text())


def closed(schema):
    """The same schema, where a field that it does not name is an error: apart from reasons, all of them are to be described."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    if "properties" in schema and isinstance(schema["properties"], dict) and schema.get("type") == "object":
        result["patternProperties"] = {"_why$": {}}
        result["additionalProperties"] = False
    return result


def output(folder, *flags):
    done = subprocess.run([SWOOP, "compile", *map(str, flags), "-o", folder / "m.pte", "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_schema_describes_real_output(tmp_path):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    np.savez(tmp_path / "s.npz", x=np.load(MODELS / "resnet8.npz")["calibrate"][:2])
    for flags in [[MODELS / "resnet8.pt2", "-c", tmp_path / "s.npz", "--report", tmp_path / "r.html", "--board", "alif-e8"],
                  [MODELS / "resnet8.pt2", "-c", tmp_path / "s.npz", "--search", "1s"],
                  [MODELS / "resnet8_int8.pt2", "--no-verify", "--max-sram", "1MiB"]]:
        said = output(tmp_path, *flags)
        jsonschema.validate(said, closed(SCHEMA))
        without = copy.deepcopy(said)
        del without["totals"]["macs"]
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(without, SCHEMA)
