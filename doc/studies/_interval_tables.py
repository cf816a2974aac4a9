"""Writers of the results of studies, and the tables of them that the user guide includes."""

import csv

#: Worlds, and what they are called above a column.
COLUMNS = {
    "calibrated, binary": "binary, calibrated",
    "nearly calibrated, binary": "nearly",
    "miscalibrated, binary": "mis-calibrated",
    "calibrated, K = 10, classwise": "classwise, calibrated",
    "miscalibrated, K = 10, classwise": "mis-calibrated",
    "calibrated, K = 10, top label": "top label, calibrated",
    "miscalibrated, K = 10, top label": "mis-calibrated",
}
MANY = 400  # repetitions that need not be mentioned


def write_tables(results):
    """Write both tables beside the results."""
    with results.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    own = [row for row in rows if row["method"] == "auto"]
    found = {(row["metric"], row["samples"], row["world"]): row for row in own}
    header = ["metric", "n", *COLUMNS.values()]
    lines = [
        [metric, n, *(_cell(found.get((metric, n, world))) for world in COLUMNS)]
        for metric, n in dict.fromkeys((metric, n) for metric, n, _ in found)
    ]
    write(results, "table", [header, *lines])
    header = ["metric", "method", "n", "forecasts", "repetitions"]
    numbers = ["coverage", "above", "below", "target", "length"]
    lines = [
        [row["metric"], row["method"], row["samples"], row["world"], row["repetitions"]]
        + [_short(row[name]) for name in numbers]
        for row in rows
        if row["method"] != "auto"
    ]
    write(results, "bootstrap", [header + numbers, *lines])


def _cell(row):
    """Coverage, a dagger where most intervals are conservative, and how few repetitions."""
    if row is None:
        return ""
    dagger = "†" if float(row["conservative"]) > 0.5 else ""
    few = "" if int(row["repetitions"]) >= MANY else f" ({row['repetitions']})"
    return f"{float(row['coverage']):.3f}{dagger}{few}"


def _short(value):
    return f"{float(value):.3f}"


def write(results, name, lines):
    """Write lines as a CSV file beside the results."""
    path = results.with_name(f"{results.stem}_{name}.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def write_as_found(path, fields, rows, *, append=False):
    """Write and print each row, a dict of the fields, as soon as it is known."""
    with path.open("a" if append else "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        if not append:
            writer.writeheader()
        for row in rows:
            writer.writerow(row)
            file.flush()
            print(*row.values(), flush=True)
