"""A fit for people and programs: text, one HTML page, ArviZ, netCDF."""
