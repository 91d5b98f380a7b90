"""Which names, things and places do the program-written tasks draw from?"""

from __future__ import annotations

GIRLS = (
    "Lily Mia Anna Sara Ella Zoe Nora Ruby Ivy Rosa Emma Amina Tara Lucy May Kate Jane Sue Amy Mila".split()
)
BOYS = "Tom Tim Max Sam Ben Leo Jack Omar Finn Noah Hugo Dan Bob Nico Otto Raj Paul Kofi Ned Luis".split()
NAMES = GIRLS + BOYS
ANIMALS = "dog cat rabbit fox bear duck frog owl mouse pony turtle hen goat squirrel hedgehog".split()
COLORS = "red blue green yellow white black brown purple orange pink grey silver".split()
THINGS = "ball kite hat boat drum book lamp cup box key bell scarf basket coat bike map ring spoon".split()
PLACES = (
    "garden;park;forest;kitchen;school;barn;library;market;harbour;village square;meadow;old mill;beach;attic;"
    "river bank"
).split(";")
FOODS = "apples bread soup cake carrots berries honey cheese pears rice pancakes plums".split()
TOWNS = "Paris Oslo Lima Cairo Delhi Tokyo Rome Quito Accra Dublin Boston Vienna Porto Nairobi Hanoi".split()
JOBS = "baker farmer teacher doctor painter sailor tailor gardener driver cook nurse builder".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
FEELINGS = "happy sad proud tired brave shy hungry excited calm curious".split()

# Words of simple stories that can replace each other in a verbatim edit, and names for variables.
_SWAPS = (
    "cat dog bird rabbit mouse frog fox",
    "red blue green yellow purple orange",
    "boy girl child",
    "ball kite toy doll",
    "park garden forest beach",
    "happy glad proud excited",
    "big large huge",
    "small little tiny",
    "mom dad grandma grandpa",
    "house cottage castle",
)
REPLACEMENTS = {
    word: [other for other in row.split() if other != word] for row in _SWAPS for word in row.split()
}
IDENTIFIERS = (
    "item value result total count index first second left right number name node entry source record element "
    "amount output current data score position key size answer limit middle"
).split()
