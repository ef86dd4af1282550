"""Front-ends: a model written elsewhere becomes a `Problem`.

A front-end finds the sites of a model and gives its log density term by term (`model.Model`);
`sites` gives them coordinates and a layout, `arrange` the group and the problem.
"""
