"""Which exercises are written by program? Copying, renaming, summaries, forms, tables and questions.

Each function takes a seeded `random.Random` (and where needed a passage) and returns one document. The
fixed formats (`Passage: …`, `Repeat: …`, `Question: …`, `Answer: …`) are the ones the app's prompts use.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections import Counter
from random import Random

from training.data import facts

STOP_WORDS = frozenset(
    "a an and are as at be but by for from had has he her his i in is it its of on or she so that the their "
    "them then there they this to was were what when where which who why will with you did do does how".split()
)
_SENTENCE = re.compile(r"(?<=[.!?])[\"']?\s+(?=[\"']?[A-Z])")
_NAMED = re.compile(r"\bnamed ([A-Z][a-z]+)\b")


def sentences(text: str) -> list[str]:
    """Sentences of a text (a simple rule: end mark, space, capital)."""
    flat = " ".join(text.split())
    return [part.strip() for part in _SENTENCE.split(flat) if part.strip()]


def words(text: str) -> set[str]:
    """Content words of a text, lower case."""
    return {word for word in re.findall(r"[a-z]+", text.lower()) if word not in STOP_WORDS}


def window(rng: Random, text: str, limit: int) -> str:
    """A run of whole sentences of at most about `limit` characters, from a random start."""
    parts = sentences(text)
    start = rng.randrange(max(1, len(parts) - 2))
    out = parts[start]
    for part in parts[start + 1 :]:
        if len(out) + len(part) + 1 > limit:
            break
        out += " " + part
    return out[: limit + 200]


def copy_task(rng: Random, text: str) -> str:
    """Repeat a passage word for word."""
    passage = window(rng, text, rng.choice([120, 250, 400, 600, 800]))
    return f"Passage: {passage}\nRepeat: {passage}"


def rename_task(rng: Random, text: str) -> str | None:
    """Repeat a passage with one name changed; None where the text has no name."""
    found = _NAMED.search(text)
    if found is None:
        return None
    old = found.group(1)
    new = rng.choice([name for name in facts.NAMES if name != old])
    passage = window(rng, text, rng.choice([250, 400, 600, 800]))
    if not re.search(rf"\b{old}\b", passage):
        return None
    changed = re.sub(rf"\b{old}\b", new, passage)
    return f"Passage: {passage}\nRepeat with {new} instead of {old}: {changed}"


def reword_task(rng: Random, text: str) -> str | None:
    """Repeat a passage with one common word changed throughout."""
    passage = window(rng, text, rng.choice([250, 400, 600, 800]))
    present = [word for word in facts.REPLACEMENTS if re.search(rf"\b{word}\b", passage)]
    if not present:
        return None
    old = rng.choice(present)
    new = rng.choice([word for word in facts.REPLACEMENTS[old] if word not in passage] or [None])
    if new is None:
        return None
    return f"Passage: {passage}\nRepeat with {new} instead of {old}: " + re.sub(rf"\b{old}\b", new, passage)


_IDENTIFIER = re.compile(r"\b[a-z][a-z_]{2,}\b")
_PYTHONS_OWN = {*keyword.kwlist, *dir(builtins), "self", "cls"}


def rename_code_task(rng: Random, code: str) -> str | None:
    """Repeat a piece of Python with one name changed; None where no name occurs in it three times."""
    if len(code) > 1200:
        return None
    counts = Counter(word for word in _IDENTIFIER.findall(code) if word not in _PYTHONS_OWN)
    often = [word for word, count in counts.items() if count >= 3]
    if not often:
        return None
    old = rng.choice(sorted(often))
    new = rng.choice([name for name in facts.IDENTIFIERS if name not in code])
    return f"Code:\n{code}\nRepeat with {new} instead of {old}:\n" + re.sub(rf"\b{old}\b", new, code)


def central_sentences(parts: list[str], count: int) -> list[str]:
    """The first sentence and the `count` - 1 later ones sharing most content words, in text order."""
    bags = [words(part) for part in parts]

    def centrality(index: int) -> float:
        own = bags[index]
        shared = sum(len(own & other) for place, other in enumerate(bags) if place != index)
        return shared / (4 + len(own))

    later = sorted(range(1, len(parts)), key=lambda index: -centrality(index))[: count - 1]
    return [parts[index] for index in [0, *sorted(later)]]


def summary_task(rng: Random, text: str) -> str | None:
    """Summarise a story by its own first and most central sentences."""
    parts = sentences(text)
    while len(" ".join(parts)) > 1300:
        parts = parts[:-1]
    if len(parts) < 6:
        return None
    chosen = central_sentences(parts, 3)
    return f"Story: {' '.join(parts)}\nSummary: {' '.join(chosen)}"


def outline_task(rng: Random, text: str) -> str | None:
    """Key points of a story: central sentences as a list."""
    parts = sentences(text)
    while len(" ".join(parts)) > 1000:
        parts = parts[:-1]
    if len(parts) < 6:
        return None
    points = "\n".join(f"- {part}" for part in central_sentences(parts, 4))
    return f"Story: {' '.join(parts)}\nKey points:\n{points}"


def name_question_task(rng: Random, text: str) -> str | None:
    """Ask for the name in a story's own words, and quote the sentence that says it."""
    parts = sentences(text)
    for part in parts[:6]:
        found = re.search(
            r"\b(boy|girl|dog|cat|bird|bear|fish|rabbit|man|woman|frog|mouse) named ([A-Z][a-z]+)", part
        )
        if found:
            passage = window(Random(0), text, 700) if rng.random() < 0.5 else " ".join(parts[:8])
            if part not in passage:
                return None
            question = f"What is the name of the {found.group(1)}?"
            return f'Passage: {passage}\nQuestion: {question}\nAnswer: {found.group(2)}\nEvidence: "{part}"'
    return None


def evidence(context: str, question: str, answer: str) -> str:
    """The sentence of `context` sharing most content words with the question and (twice) the answer."""
    asked, answered = words(question), words(answer)
    return max(
        sentences(context), key=lambda part: len(words(part) & asked) + 2 * len(words(part) & answered)
    )


class Person:
    """A made-up person with the facts that forms, tables and questions ask for."""

    def __init__(self, rng: Random) -> None:
        girl = rng.random() < 0.5
        self.name = rng.choice(facts.GIRLS if girl else facts.BOYS)
        self.subject, self.owner = ("She", "her") if girl else ("He", "his")
        self.age = rng.randint(3, 79)
        self.town = rng.choice(facts.TOWNS)
        self.job = rng.choice(facts.JOBS)
        self.animal = rng.choice(facts.ANIMALS)
        self.color = rng.choice(facts.COLORS)
        self.thing = rng.choice(facts.THINGS)
        self.food = rng.choice(facts.FOODS)
        self.day = rng.choice(facts.DAYS)
        self.place = rng.choice(facts.PLACES)

    def sentences(self, rng: Random) -> list[str]:
        """The facts as sentences, the name first, the others shuffled."""
        found = [
            f"{self.subject} works as a {self.job}.",
            f"{self.subject} likes to eat {self.food}.",
            f"{self.subject} has a {self.color} {self.thing}.",
            f"Every {self.day}, {self.subject.lower()} goes to the {self.place}.",
            f"{self.subject} has a {self.animal} at home.",
        ]
        rng.shuffle(found)
        return [f"{self.name} is {self.age} years old and lives in {self.town}.", *found]

    def fields(self) -> dict[str, str]:
        """Form labels and their values."""
        return {
            "Name": self.name,
            "Age": str(self.age),
            "City": self.town,
            "Job": self.job,
            "Pet": self.animal,
            "Favourite food": self.food,
            "Day": self.day,
            "Place": self.place,
        }

    def questions(self) -> list[tuple[str, str]]:
        """Questions with the answers as whole sentences."""
        n, low = self.name, self.subject
        return [
            (f"How old is {n}?", f"{n} is {self.age} years old."),
            (f"Where does {n} live?", f"{n} lives in {self.town}."),
            (f"What is {n}'s job?", f"{n} works as a {self.job}."),
            (f"What does {n} like to eat?", f"{low} likes to eat {self.food}."),
            (f"What color is {n}'s {self.thing}?", f"The {self.thing} is {self.color}."),
            (f"Where does {n} go every {self.day}?", f"{low} goes to the {self.place}."),
            (f"Which animal does {n} have?", f"{n} has a {self.animal}."),
        ]


def form_task(rng: Random) -> str:
    """Fill a form from a short text about one person."""
    person = Person(rng)
    fields = list(person.fields().items())
    rng.shuffle(fields)
    form = "\n".join(f"{label}: {value}" for label, value in fields[: rng.randint(4, 8)])
    return f"Text: {' '.join(person.sentences(rng))}\nForm:\n{form}"


def fact_question_task(rng: Random) -> str:
    """Several questions on a passage about one or two people."""
    people = [Person(rng) for _ in range(rng.choice([1, 2, 2]))]
    passage = " ".join(sentence for person in people for sentence in person.sentences(rng))
    asked = [pair for person in people for pair in person.questions()]
    rng.shuffle(asked)
    lines = [f"Question: {question}\nAnswer: {answer}" for question, answer in asked[: rng.randint(3, 7)]]
    return f"Passage: {passage}\n" + "\n".join(lines)
