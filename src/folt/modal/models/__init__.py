"""Posteriors of vibration modes: of one spectrum, of an averaged one, and of all channels.

`folt.models` offers their names beside the other ready models.
"""
