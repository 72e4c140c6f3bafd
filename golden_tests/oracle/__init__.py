"""An oracle for Datalog programs under change that shares no code with the compiler."""
