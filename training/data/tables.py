"""Which tables, number rows and Python templates are written by program?"""

from __future__ import annotations

from random import Random

from training.data import facts
from training.data.tasks import Person

COLUMNS = ("Name", "Age", "City", "Job", "Pet", "Day")


def table_task(rng: Random) -> str:
    """Convert a small table between CSV, a list, a Markdown table and JSON lines."""
    columns = list(COLUMNS)
    rng.shuffle(columns)
    columns = ["Name", *[c for c in columns if c != "Name"][: rng.randint(2, 4)]]
    rows = [Person(rng).fields() for _ in range(rng.randint(3, 7))]
    cells = [[row[column] for column in columns] for row in rows]
    source = "\n".join([",".join(columns), *(",".join(row) for row in cells)])
    kind = rng.choice(["list", "markdown", "json", "sentences"])
    if kind == "list":
        body = "\n".join(
            "- " + ", ".join(f"{c}: {v}" for c, v in zip(columns, row, strict=True)) for row in cells
        )
        return f"Table:\n{source}\nList:\n{body}"
    if kind == "markdown":
        rule = "| " + " | ".join("---" for _ in columns) + " |"
        lines = ["| " + " | ".join(row) + " |" for row in [columns, *cells]]
        return f"Table:\n{source}\nMarkdown:\n" + "\n".join([lines[0], rule, *lines[1:]])
    if kind == "json":
        body = "\n".join(
            "{" + ", ".join(f'"{c.lower()}": "{v}"' for c, v in zip(columns, row, strict=True)) + "}"
            for row in cells
        )
        return f"Table:\n{source}\nJSON:\n{body}"
    sentences = "\n".join(
        ". ".join(f"The {c.lower()} is {v}" for c, v in zip(columns, row, strict=True)) + "." for row in cells
    )
    return f"Table:\n{source}\nSentences:\n{sentences}"


def number_rows_task(rng: Random) -> str:
    """Multiplication tables, sums and counting, one equation a line."""
    kind = rng.choice(["times", "plus", "count", "minus"])
    number, length = rng.randint(2, 25), rng.randint(8, 16)
    if kind == "times":
        return "\n".join(f"{number} x {i} = {number * i}" for i in range(1, length + 1))
    start = rng.randint(1, 60)
    if kind == "plus":
        return "\n".join(f"{start + i} + {number} = {start + i + number}" for i in range(length))
    if kind == "minus":
        high = start + number + length
        return "\n".join(f"{high + i} - {number} = {high + i - number}" for i in range(length))
    return f"Count by {number}: " + ", ".join(str(number * i) for i in range(1, length + 6))


_NOUNS = "Book Student Car Account Point Player Animal Robot Circle Task Message Order City Song".split()
_FIELDS = (
    "name:str age:int title:str price:float color:str size:int owner:str count:int speed:float city:str "
    "score:int year:int weight:float email:str"
).split()
_OPERATIONS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_WORDS = {"add": "sum", "subtract": "difference", "multiply": "product", "divide": "quotient"}


def class_task(rng: Random) -> str:
    """A small Python class with an initialiser, getters and setters."""
    noun = rng.choice(_NOUNS)
    chosen = [field.split(":") for field in rng.sample(_FIELDS, rng.randint(2, 4))]
    arguments = ", ".join(f"{name}: {kind}" for name, kind in chosen)
    out = [f"class {noun}:", f'    """A {noun.lower()} with {" and ".join(n for n, _ in chosen)}."""', ""]
    out += [f"    def __init__(self, {arguments}) -> None:", *(f"        self.{n} = {n}" for n, _ in chosen)]
    setters = rng.random() < 0.6
    for name, kind in chosen:
        out += ["", f"    def get_{name}(self) -> {kind}:", f'        """Return the {name}."""']
        out += [f"        return self.{name}"]
        if setters:
            out += [
                "",
                f"    def set_{name}(self, {name}: {kind}) -> None:",
                f'        """Set the {name}."""',
            ]
            out += [f"        self.{name} = {name}"]
    shown = ", ".join(f"{n}={{self.{n}}}" for n, _ in chosen)
    out += ["", "    def __str__(self) -> str:", f'        return f"{noun}({shown})"']
    return "\n".join(out)


def operations_task(rng: Random) -> str:
    """Small arithmetic functions with docstrings, followed by a test class."""
    names = list(_OPERATIONS)
    rng.shuffle(names)
    names = names[: rng.randint(2, 4)]
    a, b = rng.choice([("a", "b"), ("x", "y"), ("first", "second"), ("left", "right")])
    out: list[str] = []
    for name in names:
        out += [f"def {name}({a}: int, {b}: int) -> {'float' if name == 'divide' else 'int'}:"]
        out += [
            f'    """Return the {_WORDS[name]} of {a} and {b}."""',
            f"    return {a} {_OPERATIONS[name]} {b}",
            "",
            "",
        ]
    out += ["class TestOperations(unittest.TestCase):"]
    values = {"add": lambda p, q: p + q, "subtract": lambda p, q: p - q, "multiply": lambda p, q: p * q}
    for name in names:
        p, q = rng.randint(1, 20), rng.randint(1, 20)
        result = p / 1 if name == "divide" else values[name](p, q)
        q = 1 if name == "divide" else q
        out += [f"    def test_{name}(self):", f"        self.assertEqual({name}({p}, {q}), {result})", ""]
    return "\n".join(out).rstrip()


_LOOPS: dict[str, tuple[str, list[str], str]] = {
    "count": (
        "Count how often target occurs in {0}s.",
        ["count = 0", "for {0} in {0}s:", "    if {0} == target:", "        count += 1"],
        "count",
    ),
    "find": (
        "Return the index of target in {0}s, or -1.",
        ["for index, {0} in enumerate({0}s):", "    if {0} == target:", "        return index"],
        "-1",
    ),
    "remove": (
        "Return {0}s without target.",
        ["result = []", "for {0} in {0}s:", "    if {0} != target:", "        result.append({0})"],
        "result",
    ),
    "largest": (
        "Return the largest of the {0}s.",
        ["best = {0}s[0]", "for {0} in {0}s:", "    if {0} > best:", "        best = {0}"],
        "best",
    ),
    "total": ("Return the sum of all {0}s.", ["total = 0", "for {0} in {0}s:", "    total += {0}"], "total"),
}


def loop_function_task(rng: Random) -> str:
    """A documented function that filters, counts or changes the items of a list."""
    item = rng.choice(["number", "word", "value", "name", "item"])
    verb = rng.choice(["count", "find", "remove", "largest", "total"])
    docstring, body, last = _LOOPS[verb]
    alone = verb in ("largest", "total")
    name = f"{verb}_{item}s" if verb == "total" else f"{verb}_{item}"
    lines = [
        f"def {name}({item}s):" if alone else f"def {name}({item}s, target):",
        f'    """{docstring.format(item)}"""',
        *("    " + line.format(item) for line in body),
        f"    return {last}",
    ]
    shown = rng.sample(range(30), 5)
    call = f"print({name}({shown}))" if alone else f"print({name}({shown}, {rng.randint(0, 29)}))"
    return "\n".join([*lines, "", "", call])


def letter_task(rng: Random) -> str:
    """A short letter built from given facts (facts first, so the letter copies them)."""
    person, other = Person(rng), Person(rng)
    month, date = rng.choice(facts.MONTHS), rng.randint(1, 28)
    given = (
        f"To: {other.name}\nFrom: {person.name}\nDay: {person.day}, {month} {date}\n"
        f"Place: the {person.place}\nBring: {other.food} and a {other.color} {other.thing}"
    )
    text = (
        f"Dear {other.name},\n\nPlease come to the {person.place} on {person.day}, {month} {date}. "
        f"Please bring {other.food} and a {other.color} {other.thing}. I will be very {rng.choice(facts.FEELINGS)} "
        f"to see you at the {person.place}.\n\nYour friend,\n{person.name}"
    )
    return f"{given}\nLetter:\n{text}"
