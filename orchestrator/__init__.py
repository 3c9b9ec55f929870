"""From a study file to a trial table: this package knows trials."""
