"""One file per command: options in, a call, words out. Heavy imports happen inside."""
