"""Speed and quality of folt, measured; never part of the tests."""
