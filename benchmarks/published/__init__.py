"""Small heads made, saved and run by their makers' own packages: the oracle of `tests/core/published`.

`python -m benchmarks.published` makes them anew, each maker in a virtual environment of its own. None of the modules
beside this one imports the product.
"""
