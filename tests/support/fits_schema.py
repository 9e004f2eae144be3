#!/usr/bin/python3 -B
"""Whether what programs print is as share/schemas says.

fits_schema.py FOLDER    stdin: lines {"what": WORDS, "schema": NAME, "text": JSON or lines of it}

Prints what does not fit, and then exits with 1. Stricter than the schemas: a field that a schema
does not name is an error here, because nobody has documented it.
"""
import json
import pathlib
import sys

import jsonschema


def strict(schema):
    """The same schema, which takes no field that it does not name."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if "properties" in made and isinstance(made["properties"], dict):
        made.setdefault("additionalProperties", False)
    return made


def lines_of(text):
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def main():
    files = {path.stem: strict(json.loads(path.read_text()))
             for path in pathlib.Path(sys.argv[1]).glob("*.json")}
    store = {schema["$id"]: schema for schema in files.values()}
    code = 0
    for line in sys.stdin:
        case = json.loads(line)
        schema = files.get(case["schema"])
        if schema is None:
            print(f"{case['what']}: there is no schema {case['schema']}.json")
            code = 1
            continue
        resolver = jsonschema.RefResolver(schema["$id"], schema, store)
        check = jsonschema.Draft7Validator(schema, resolver=resolver,
                                           format_checker=jsonschema.draft7_format_checker)
        for value in lines_of(case["text"]):
            error = jsonschema.exceptions.best_match(check.iter_errors(value))
            if error is None:
                continue
            place = "/".join(map(str, error.absolute_path))
            print(f"{case['what']}: {case['schema']}.json at '{place}': {error.message[:800]}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
