"""Commands for operators: archives, changes, history, revert, rollback and vacuum."""
