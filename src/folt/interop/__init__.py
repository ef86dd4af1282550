"""Front-ends: a model written elsewhere becomes a `Problem`, one file per library.

Each file finds the sites of a model; `sites` gives them coordinates, a layout and a group.
"""
