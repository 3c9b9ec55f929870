"""Learning rules of one's own: a study file beside this folder names them by dotted path."""
