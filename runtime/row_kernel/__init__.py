"""Methods of maintenance for rows: tables are changed in place, by small deltas, and found by their keys."""
