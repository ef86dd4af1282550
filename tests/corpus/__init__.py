"""Small models with the symmetry they have written down, as a stranger would write the models."""
