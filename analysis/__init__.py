"""From the trial table to figures: this package knows tables only."""
